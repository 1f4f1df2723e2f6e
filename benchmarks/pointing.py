"""Whether a turn is shown what it points to.

`dialogues/pointing.json` names turns of LoCoMo that point to something said long before ("that book you recommended"), by their
ids, each with the turns that it may mean. Every other one is for choosing, the rest is reported. What counts is whether one of
these is among the candidates that a language model is shown with the turn; recorded annotations stand for that model.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from amem_integrations import AgenticMemory
from amem_integrations.ports import Completion, Embedder, ModelRequest
from amem_integrations.providers import MiniLmEmbedder
from amem_integrations.testing import RecordedModel

from .command import parser_of, run
from .data import Annotations, Conversation, load, load_annotations, select

Marks = Mapping[str, Sequence[str]]
MARKS = Path(__file__).parent / "dialogues" / "pointing.json"


class Watched(RecordedModel):
    """A recorded model that remembers the keys of the candidates that it was shown with each note."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        super().__init__(records)
        self.shown: dict[str, set[str]] = {}

    def generate(self, request: ModelRequest) -> Completion:
        """Return the recorded answer."""
        if request.task == "evolve":
            every = (*request.inputs["candidates"], *request.inputs["notes"])
            keys = {one["alias"]: one["key"] for one in every}
            for note in request.inputs["notes"]:
                shown = {keys[candidate["alias"]] for candidate in note["candidates"]}
                self.shown.setdefault(note["key"], set()).update(shown)
        return super().generate(request)


def marks_of(conversation: str) -> Marks:
    """Return the marked turns of a conversation, each with those that it may mean."""
    marks: dict[str, Marks] = json.loads(MARKS.read_text("utf-8"))
    return marks[conversation]


def found(
    conversation: Conversation, annotations: Annotations, marks: Marks, embedder: Embedder
) -> dict[str, bool]:
    """Return of each marked turn of a conversation whether a turn that it may mean was shown with it."""
    model = Watched(annotations.records)
    with AgenticMemory.open(":memory:", model=model, embedder=embedder) as memory:
        memory.add_many(conversation.turns, namespace=conversation.namespace)
    return {turn: not model.shown.get(turn, set()).isdisjoint(marks[turn]) for turn in marks}


def _pointing(given: Namespace) -> None:
    known, embedder = load(given.file), MiniLmEmbedder()
    for name, written in load_annotations(given.annotations, known).items():
        (conversation,) = select(known, [name])
        turns = list(found(conversation, written, marks_of(name), embedder).items())
        for half, some in (("chosen on", turns[::2]), ("reported", turns[1::2])):
            lost = [turn for turn, is_found in some if not is_found]
            print(f"{name}, {half}: {len(some) - len(lost)} of {len(some)}; not {lost}")


def _parser() -> ArgumentParser:
    parser = parser_of("pointing", __doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--annotations", type=Path, action="append", required=True)
    return parser


main = partial(run, _parser, _pointing)

if __name__ == "__main__":
    sys.exit(main())
