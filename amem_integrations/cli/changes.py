"""An entry of the history as a diff: lines that start with `+`, `-`, or a space."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ..notes import Change, Note

Data = Mapping[str, Any]


def diff(change: Change, note: Note | None = None) -> list[str]:
    """Return what a change did to the note, as lines of a diff.

    What the history leaves to the note itself, the text of its first context, is taken from `note`.
    """
    data = change.data
    if note is not None and not data:
        made = (entry for entry in note.contexts if entry.change == change.id)
        data = next(({"text": e.text, "keywords": list(e.keywords), "tags": list(e.tags)} for e in made), data)
    return _WRITERS.get(change.kind, _plain)(data)


def _plain(data: Data) -> list[str]:
    return [f" {name}: {_text(value)}" for name, value in data.items()]


def _update(data: Data) -> list[str]:
    """Return a diff of each field that the user changed, line by line."""
    lines: list[str] = []
    for name, change in data.items():
        if not isinstance(change, Mapping) or not {"before", "after"} <= change.keys():
            lines += _plain({name: change})
            continue
        before, after = (_text(change[side]).splitlines() for side in ("before", "after"))
        compared = difflib.ndiff(before, after)
        # Lines with "?" only point into the lines above; the first space parts sign and text.
        lines += [f" {name}:", *(f"{one[0]}{one[2:]}" for one in compared if one[0] != "?")]
    return lines


def _entry(data: Data) -> list[str]:
    entry = data.get("entry", data)
    rest = {n: v for n, v in data.items() if n != "entry" and v is not None} if "entry" in data else {}
    signs = {"text": "context", "keywords": "keywords", "tags": "tags"}
    added = [f"+{signs[n]}: {_text(entry[n])}" for n in signs if entry.get(n)]
    return [*added, *_plain({n: v for n, v in rest.items() if n != "rejected"})]


def _proposal(data: Data) -> list[str]:
    why = data.get("rejected")
    return [*_entry(data), *([f" not written: {_text(why)}"] if why else [])]


def _link(sign: str) -> Callable[[Data], list[str]]:
    def write(data: Data) -> list[str]:
        target = str(data.get("target", ""))[:8]
        text = f"{data.get('relation', '')}: {data.get('reason', '')}"
        lines = [f"{sign}link {target} {text}"]
        return [*lines, f" because {data['why']}"] if data.get("why") else lines

    return write


def _failure(data: Data) -> list[str]:
    return [f" failed: {_text(data.get('reason'))} (try {data.get('attempts', 1)})"]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return json.dumps(value, ensure_ascii=False)


_WRITERS: Mapping[str, Callable[[Data], list[str]]] = {
    "construct": _entry,
    "evolve": _entry,
    "proposal": _proposal,
    "link": _link("+"),
    "unlink": _link("-"),
    "update": _update,
    "failure": _failure,
}
