"""What commands print: text for a terminal, progress bars, JSON.

Notes are data: a character that would control the terminal is replaced by a visible one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import typer
from pydantic import TypeAdapter
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..notes import Change, Note, ScoredNote

NARROWEST = 40  # columns; with none, which an environment may claim, nothing would be printed
SHORT_ID = 8  # characters of an id that are shown; commands accept them in its place

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_NOTE = TypeAdapter(Note)
_HIT = TypeAdapter(ScoredNote)
_CHANGE = TypeAdapter(Change)


class StageProgress(Protocol):
    """Called with how far a stage of some work is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        ...


def console() -> Console:
    """Return a console on standard output that prints text unchanged."""
    made = Console(highlight=False, markup=False, emoji=False)
    made.width = max(made.width, NARROWEST)
    return made


def clean(text: str) -> str:
    """Return text without characters that move the cursor, change colours or reverse the direction."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Return clean text on one line."""
    return clean(" ".join(text.split()))


def short_id(note_id: str) -> Text:
    """Return the start of an id, styled."""
    return Text(note_id[:SHORT_ID], style="cyan")


def short_change(change_id: str) -> str:
    """Return the id of a change with the start of each id in it."""
    return ":".join(part[:SHORT_ID] for part in change_id.split(":"))


def headline(note: Note) -> str:
    """Return date, speaker and content of a note on one line."""
    speaker = f"{one_line(note.speaker)}: " if note.speaker else ""
    return f"{note.when:%Y-%m-%d}  {speaker}{one_line(note.content)}"


def table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table in the style of all commands."""
    return Table(*headers, box=box.SIMPLE, title=title, title_justify="left", pad_edge=False)


@contextmanager
def progress() -> Iterator[StageProgress]:
    """Show a bar with the time left for each stage, on standard error and only on a terminal."""
    errors = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    stages: dict[str, int] = {}
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bars:

        def update(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(bars.task_ids[stages[stage]], completed=done, total=total)

        yield update


def print_result(text: str, values: object, *, as_json: bool) -> None:
    """Print the result of a command: one line of text, or its values as JSON."""
    if as_json:
        print_json(values)
    else:
        console().print(text, soft_wrap=True)


def print_json(values: object) -> None:
    """Print values as JSON; what would control the terminal, or it has no character for, is written as an escape."""
    text = json.dumps(values, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(values, indent=2)
    typer.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def note_values(note: Note) -> dict[str, Any]:
    """Return a note as JSON values, with the keywords and tags that follow from its context entries."""
    values: dict[str, Any] = _NOTE.dump_python(note, mode="json")
    since = note.superseded_since
    return {
        **values,
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "attributes_source": note.attributes_source,
        "superseded_by": note.superseded_by,
        "superseded_since": since.isoformat() if since else None,
    }


def hit_values(hit: ScoredNote) -> dict[str, Any]:
    """Return a hit as JSON values: the note, its scores, and the links that led to it."""
    values: dict[str, Any] = _HIT.dump_python(hit, mode="json")
    return {**values, "note": note_values(hit.note)}


def change_values(change: Change) -> dict[str, Any]:
    """Return an entry of the history as JSON values."""
    values: dict[str, Any] = _CHANGE.dump_python(change, mode="json")
    return values
