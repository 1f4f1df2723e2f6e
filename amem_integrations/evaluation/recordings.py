"""What a language model wrote about the turns of a conversation, kept in a file of JSON lines.

`testing.RecordedModel` repeats it, so that a memory with a language model is measured without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import InvalidInputError
from .locomo import Conversation


class RecordedLink(BaseModel):
    """A link to an earlier turn."""

    to: str
    why: str


class RecordedUpdate(BaseModel):
    """What an earlier turn means, now that this one is known."""

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
class Recording:
    """The annotations of one conversation, and the file they are from."""

    file: Path
    annotations: tuple[Annotation, ...]

    def as_records(self) -> list[dict[str, Any]]:
        """Return the annotations as `RecordedModel` takes them."""
        return [one.model_dump() for one in self.annotations]


def load(files: Sequence[Path], conversations: Sequence[Conversation]) -> dict[str, Recording]:
    """Return the recordings by the id of the conversation they are about.

    Raises:
        InvalidInputError: A file holds something else, two are about one conversation, or it cannot be
            told which conversation one is about.
        OSError: A file cannot be read.
    """
    found: dict[str, Recording] = {}
    for file in files:
        recording = Recording(file=file, annotations=read(file))
        name = subject(recording, conversations)
        if name in found:
            raise InvalidInputError(
                f"both {str(found[name].file)!r} and {str(file)!r} are annotations of {name!r}"
            )
        found[name] = recording
    return found


def read(file: Path) -> tuple[Annotation, ...]:
    """Return the annotations in a file.

    Raises:
        InvalidInputError: A line is no such annotation.
        OSError: The file cannot be read.
    """
    lines = file.read_bytes().splitlines()
    found = [_annotation(file, place, line) for place, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InvalidInputError(f"{str(file)!r} holds no annotations")
    return tuple(found)


def subject(recording: Recording, conversations: Sequence[Conversation]) -> str:
    """Return the id of the conversation that a recording is about.

    It is the first part of the file's name (`conv-26.annotations.jsonl`); else the one conversation
    that consists of exactly these turns.

    Raises:
        InvalidInputError: Neither tells.
    """
    name = recording.file.name
    named = [one.id for one in conversations if name == one.id or name.startswith(f"{one.id}.")]
    turns = {one.id for one in recording.annotations}
    same = [one.id for one in conversations if {turn.id for turn in one.turns} == turns]
    choice = named or same
    if len(choice) != 1:
        raise InvalidInputError(
            f"it cannot be told which conversation {name!r} is about; "
            "name it after one, such as 'conv-26.annotations.jsonl'"
        )
    return choice[0]


def _annotation(file: Path, place: int, line: bytes) -> Annotation:
    try:
        return Annotation.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise InvalidInputError(
            f"line {place} of {str(file)!r} is no annotation of a turn: {field}: {first['msg']}"
        ) from error
