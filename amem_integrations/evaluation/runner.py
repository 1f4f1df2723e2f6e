"""Runs an evaluation: builds the memory of each conversation, and asks it the questions.

It measures nothing itself but time: what was found and what it cost is handed over as plain values,
from which `report` makes the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from .. import texts
from ..memory import AgenticMemory
from ..notes import Note
from ..ports import Embedder
from .answering.questions import Answers, Examiner
from .building import Builder, Progress, Writer
from .cache import Kept, KeptEmbedder, Memories
from .locomo import Conversation
from .models import Models
from .recordings import Recording
from .results import Outcome, Result, Spent
from .settings import Settings
from .systems import (
    BASELINES,
    FULL,
    MAIN,
    WITHOUT_LINKS,
    Found,
    in_memory,
    needed_variant,
    plain,
    whole,
)

ALL_NOTES = 1_000_000

Looker = Callable[[Conversation, Sequence[Note], Embedder], None]
Times = tuple[
    float, float
]  # milliseconds of a search with the encoding of the question; of the encoding


def evaluate(
    conversations: Sequence[Conversation],
    settings: Settings,
    *,
    embedder: Embedder,
    models: Models | None = None,
    recordings: Mapping[str, Recording] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    look: Looker | None = None,
) -> Iterator[Result]:
    """Return a result for each conversation, one after the other.

    Args:
        conversations: What to remember and to ask.
        settings: What to run.
        embedder: Encodes notes and questions.
        models: Write notes, answer, and judge; by default notes are written by rules.
        recordings: By conversation, what a language model wrote about it, which then writes its notes.
        cache: Folder in which memories, replies and vectors are kept, so that a run that was stopped
            goes on; without one nothing is kept.
        progress: Told now and then how far it has got.
        look: Shown the notes of each conversation as the memory has them, and the embedder.

    Raises:
        InvalidInputError: Questions are to be answered, and there is no model to answer them.
        ModelUnavailableError: A model gave no answer. What was answered before is kept in `cache`.
    """
    chosen = models or Models()
    with _folder(cache) as folder, closing(Kept(folder)) as kept:
        run = _Run(
            settings=settings,
            builder=Builder(
                memories=Memories(folder / "memories"),
                embedder=KeptEmbedder(embedder, kept),
                progress=progress,
            ),
            examiner=chosen.examiner(settings, kept),
            look=look,
        )
        for conversation in conversations:
            recording = (recordings or {}).get(conversation.id)
            yield run.evaluate(conversation, chosen.writer_of(recording, kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    settings: Settings
    builder: Builder
    examiner: Examiner | None
    look: Looker | None

    def evaluate(self, conversation: Conversation, writer: Writer) -> Result:
        with ExitStack() as opened:
            built = {
                variant: opened.enter_context(
                    self.builder.memory(conversation, variant, config, writer)
                )
                for variant, config in self.settings.variants.items()
            }
            memories = {variant: memory for variant, (memory, _) in built.items()}
            notes = memories[MAIN].get_all(namespace=conversation.namespace, limit=ALL_NOTES)
            if self.look:
                self.look(conversation, notes, self.builder.embedder)
            found, times = self._search(conversation, memories, notes)
            answers, spent = self._answer(conversation, found)
        return Result(
            conversation=conversation.id,
            written_by=writer.name,
            notes=len(notes),
            outcomes=_outcomes(conversation, found, self.settings.ks),
            writes={variant: writes for variant, (_, writes) in built.items()},
            search_ms=tuple(search for search, _ in times),
            embed_query_ms=tuple(embed for _, embed in times),
            answers=answers,
            spent=spent,
            full_tokens=texts.count_tokens(whole(notes)),
        )

    def _search(
        self,
        conversation: Conversation,
        memories: Mapping[str, AgenticMemory],
        notes: Sequence[Note],
    ) -> tuple[dict[str, list[Found]], list[Times]]:
        """Return what each system found for each question, and how long the memory itself took."""
        depth, embedder = self.settings.depth, self.builder.embedder
        compared = set(self.settings.chosen) & set(BASELINES)
        baselines = plain(notes, embedder, depth) if compared else {}
        found: dict[str, list[Found]] = {}
        times: list[Times] = []
        for system in self.settings.chosen:
            find = baselines.get(system) or in_memory(
                memories[needed_variant(system)], conversation, depth, links=system != WITHOUT_LINKS
            )
            asked = [
                embedder.timed(partial(find, question.text)) for question in conversation.questions
            ]
            found[system] = [one for one, *_ in asked]
            times = times or [
                (search, embed) for _, search, embed in asked
            ]  # the memory comes first
        return found, times

    def _answer(
        self, conversation: Conversation, found: Mapping[str, Sequence[Found]]
    ) -> tuple[Answers, dict[str, Spent]]:
        if self.examiner is None:
            return {}, {}
        tell = partial(self.builder.progress or _silence, conversation.id)
        return self.examiner.answers(conversation.questions, found, self.settings.answer_ks, tell)


def _outcomes(
    conversation: Conversation, found: Mapping[str, Sequence[Found]], ks: Sequence[int]
) -> tuple[Outcome, ...]:
    """Return what was found for each question, by the systems that search."""
    searched = {name: hits for name, hits in found.items() if name != FULL}
    return tuple(
        Outcome(
            question=question,
            found={name: hits[place].ids for name, hits in searched.items()},
            shown={
                name: {k: texts.count_tokens(hits[place].context(k)) for k in ks}
                for name, hits in searched.items()
            },
        )
        for place, question in enumerate(conversation.questions)
    )


@contextmanager
def _folder(cache: Path | None) -> Iterator[Path]:
    """Give the folder for what is kept, or one that is gone afterwards."""
    if cache is not None:
        yield cache
        return
    with TemporaryDirectory(prefix="amem-eval-") as folder:
        yield Path(folder)


def _silence(*_: object) -> None:
    """Tell nobody."""
