"""Recorded annotations: what a language model wrote about the turns of a conversation, in JSON lines.

`testing.RecordedModel` replays them, so that a memory with a language model is measured without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import InvalidInputError
from .data import Conversation


class RecordedLink(BaseModel):
    """A link to an earlier turn."""

    to: str
    why: str


class RecordedUpdate(BaseModel):
    """New context for an earlier turn, which this turn brings."""

    to: str
    context: str
    keywords: list[str] = []
    tags: list[str]


class Annotation(BaseModel):
    """All that was written about one turn."""

    id: str
    keywords: list[str]
    context: str
    tags: list[str]
    links: list[RecordedLink] = []
    updates: list[RecordedUpdate] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The annotations of one conversation, and the file they are from."""

    file: Path
    turns: tuple[Annotation, ...]

    def as_records(self) -> list[dict[str, Any]]:
        """Return the annotations as `RecordedModel` takes them."""
        return [one.model_dump() for one in self.turns]


def load(files: Sequence[Path], conversations: Sequence[Conversation]) -> dict[str, Annotations]:
    """Return annotations by the id of the conversation they are about.

    Raises:
        InvalidInputError: A file holds something else, two are about one conversation, or the
            conversation of one is not clear.
        OSError: A file cannot be read.
    """
    found: dict[str, Annotations] = {}
    for file in files:
        annotations = Annotations(file=file, turns=read(file))
        name = subject(annotations, conversations)
        if name in found:
            raise InvalidInputError(
                f"both {str(found[name].file)!r} and {str(file)!r} are annotations of {name!r}"
            )
        found[name] = annotations
    return found


def read(file: Path) -> tuple[Annotation, ...]:
    """Return the annotations in a file.

    Raises:
        InvalidInputError: A line is no such annotation.
        OSError: The file cannot be read.
    """
    lines = file.read_bytes().splitlines()
    found = [
        _annotation(file, number, line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not found:
        raise InvalidInputError(f"{str(file)!r} holds no annotations")
    return tuple(found)


def subject(annotations: Annotations, conversations: Sequence[Conversation]) -> str:
    """Return the id of the conversation that annotations are about.

    It is the first part of the file's name (`conv-26.annotations.jsonl`); else the one conversation
    that consists of exactly these turns.

    Raises:
        InvalidInputError: Neither decides it.
    """
    name = annotations.file.name
    named = [one.id for one in conversations if name == one.id or name.startswith(f"{one.id}.")]
    turns = {one.id for one in annotations.turns}
    same = [one.id for one in conversations if {turn.id for turn in one.turns} == turns]
    choice = named or same
    if len(choice) != 1:
        raise InvalidInputError(
            f"annotations {name!r} fit {len(choice)} conversations; name the file after one, such as "
            "'conv-26.annotations.jsonl'"
        )
    return choice[0]


def _annotation(file: Path, number: int, line: bytes) -> Annotation:
    try:
        return Annotation.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise InvalidInputError(
            f"line {number} of {str(file)!r} is no annotation of a turn: {field}: {first['msg']}"
        ) from error
