"""Which conversations of LoCoMo are measured, and from what their notes are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from ..evaluation import Conversation, Recording, Result, Settings, evaluate, locomo, recordings
from ..evaluation.provenance import describe, file_digest
from ..evaluation.runner import Looker
from ..evaluation.scoring import golds
from ..ports import Embedder
from .eval_command import EvalOptions
from .eval_options import names

Dataset = Annotated[
    Path, typer.Argument(metavar="DATASET", help="A file in the form of locomo10.json.")
]
Annotations = Annotated[
    list[Path] | None,
    typer.Option(
        help="What a language model wrote about a conversation, such as conv-26.annotations.jsonl; "
        "may be given several times."
    ),
]
Names = Annotated[str, typer.Option(help="Ids, separated by commas; all conversations by default.")]
Ratio = Annotated[
    float, typer.Option(help="Share of the conversations to run: the first ones, at least one.")
]
Golds = Annotated[
    Path | None, typer.Option(help="A file with corrected answers or evidence of questions.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Conversations to measure, and what a report says of them."""

    dataset: Path
    conversations: Sequence[Conversation]
    recordings: Mapping[str, Recording]
    golds: Mapping[str, Any] = field(default_factory=dict)

    def measured(
        self,
        settings: Settings,
        options: EvalOptions,
        embedder: Embedder,
        look: Looker | None = None,
    ) -> list[Result]:
        """Return what is found and answered, and show how far it is."""
        models = options.models()
        options.out.mkdir(
            parents=True, exist_ok=True
        )  # now: if it cannot be, that is known at once
        with options.telling() as tell:
            return list(
                evaluate(
                    self.conversations,
                    settings,
                    embedder=embedder,
                    models=models,
                    recordings=self.recordings,
                    cache=options.cache_folder,
                    progress=lambda name, stage, done, total: tell(f"{name} {stage}", done, total),
                    look=look,
                )
            )

    def described(
        self, settings: Settings, options: EvalOptions, embedder: Embedder
    ) -> dict[str, Any]:
        """Return everything that the figures depend on."""
        return describe(
            settings,
            dataset=self.dataset,
            recordings=self.recordings,
            conversations=[one.id for one in self.conversations],
            embedder=embedder,
            models=options.described(),
            golds=self.golds,
        )


def read(
    dataset: Path,
    annotations: Sequence[Path] | None,
    conversations: str,
    ratio: float,
    corrections: Path | None,
) -> Data:
    """Return what the options of a command name.

    Raises:
        InvalidInputError: A file holds something else, or an unknown conversation is named.
        OSError: A file cannot be read.
    """
    published = locomo.load(dataset)
    known, corrected = (
        (published, {}) if corrections is None else _put_right(published, corrections)
    )
    chosen = locomo.select(known, names=names(conversations), ratio=ratio)
    ids = [one.id for one in chosen]
    written = recordings.load(annotations or [], known)
    return Data(
        dataset=dataset,
        conversations=chosen,
        recordings={name: one for name, one in written.items() if name in ids},
        golds=corrected,
    )


def _put_right(
    published: Sequence[Conversation], file: Path
) -> tuple[list[Conversation], dict[str, Any]]:
    corrections = golds.load(file)
    corrected = golds.apply(published, corrections)
    return corrected, {**file_digest(file), **golds.count(corrections, published, corrected)}
