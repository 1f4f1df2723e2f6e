"""How things look on a terminal. Notes are data: what would steer the terminal is made visible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..notes import Note

SHORT = 8  # characters of an id that are shown; commands take them for the whole

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Tell(Protocol):
    """Is told how far a piece of work is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that `done` of `total` are done."""
        ...


def console() -> Console:
    """Return a console on standard output that takes text as it is."""
    return Console(highlight=False, markup=False, emoji=False)


def clean(text: str) -> str:
    """Return text in which no character can move the cursor, change colours or turn lines round."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Return clean text on one line."""
    return clean(" ".join(text.split()))


def short(note_id: str) -> Text:
    """Return the start of an id, which is enough to name it."""
    return Text(note_id[:SHORT], style="cyan")


def said(note: Note) -> str:
    """Return who said what, and when, on one line."""
    who = f"{one_line(note.speaker)}: " if note.speaker else ""
    return f"{note.when:%Y-%m-%d}  {who}{one_line(note.content)}"


def table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table in the style of all commands."""
    return Table(*headers, box=box.SIMPLE, title=title, title_justify="left", pad_edge=False)


@contextmanager
def progress() -> Iterator[Tell]:
    """Show a bar with the time left for each stage, on the error stream and only on a terminal."""
    errors = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    stages: dict[str, int] = {}
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bars:

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(bars.task_ids[stages[stage]], completed=done, total=total)

        yield tell
