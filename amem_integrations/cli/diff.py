"""An entry of the history as lines of a diff, which start with `+`, `-`, or a space."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..notes import Change, Note
from .terminal import SHORT_ID

Data = Mapping[str, Any]

_ENTRY = {"text": "context", "keywords": "keywords", "tags": "tags"}


def diff(change: Change, note: Note | None = None) -> list[str]:
    """Return what a change did to the note, as lines of a diff.

    Args:
        change: The entry.
        note: The note that was changed; it holds the text of its first context, which the history does not.
    """
    data = change.data
    if change.kind == "proposal" and "link" in data:
        data = {**data, "link": {**data["link"], "target": change.cause}}
    if change.kind == "construct" and "fields" not in data and note is not None:
        made = next((entry for entry in note.contexts if entry.change == change.id), None)
        return [] if made is None else _lines("+", {n: getattr(made, n) for n in _ENTRY})
    if isinstance(data.get("fields"), Mapping):
        hidden = ("fields", "ends", "target", "shown")
        rest = {name: value for name, value in data.items() if name not in hidden}
        return [line for name, step in data["fields"].items() for line in _step(name, step)] + (
            _plain(rest)
        )
    return _WRITERS.get(change.kind, _values)(data)


def _step(name: str, step: Data) -> list[str]:
    """Return the diff of one field: `content`, `own`, `entry:…`, `link:…`, `superseded:…` and so on."""
    kind, _, other = name.partition(":")
    before, after = step.get("before"), step.get("after")
    if kind in ("own", "entry"):
        return [*_lines("-", before), *_lines("+", after)]
    if kind == "link":
        sides = (("-", before), ("+", after))
        return [_link_line(sign, {**link, "target": other}) for sign, link in sides if link]
    if kind == "superseded":
        return [*_supersession_lines("-", before), *_supersession_lines("+", after)]
    return _compared(name, before, after)


def _compared(name: str, before: object, after: object) -> list[str]:
    """Return a diff of two values, line by line."""
    old, new = (([] if side is None else _text(side).splitlines()) for side in (before, after))
    # Lines with "?" only mark characters of the lines above; in the others a space follows the sign.
    lines = [f"{one[0]}{one[2:]}" for one in difflib.ndiff(old, new) if one[0] != "?"]
    return [f" {name}:", *lines]


def _values(data: Data) -> list[str]:
    lines: list[str] = []
    for name, value in data.items():
        if isinstance(value, Mapping) and {"before", "after"} <= value.keys():
            lines += _compared(name, value["before"], value["after"])
        elif name == "own":  # the entry that described the content before
            lines += _lines("-", value)
        else:
            lines += _plain({name: value})
    return lines


def _plain(data: Data) -> list[str]:
    return [f" {name}: {_text(value)}" for name, value in data.items() if value not in (None, [])]


def _lines(sign: str, entry: Data | None) -> list[str]:
    """Return the lines of a context entry; nothing for one of which only the id is known."""
    given = entry or {}
    return [f"{sign}{name}: {_text(given[key])}" for key, name in _ENTRY.items() if given.get(key)]


def _entry(data: Data) -> list[str]:
    """Return the lines of an entry that was added, or of anything that was proposed and not written."""
    shown = ("entry", "link", "supersession", "relink", "rejected")
    rest = {name: value for name, value in data.items() if name not in shown}
    why = [f" not written: {_text(data['rejected'])}"] if data.get("rejected") else []
    return [
        *_lines("+", data.get("entry")),
        *([_link_line("+", data["link"])] if data.get("link") else []),
        *_supersession_lines("+", data.get("supersession")),
        *_relink(data.get("relink")),
        *_plain(rest),
        *why,
    ]


def _supersession(data: Data) -> list[str]:
    return [
        *_supersession_lines("-", data.get("before")),
        *_supersession_lines("+", data.get("supersession")),
    ]


def _supersession_lines(sign: str, supersession: Data | None) -> list[str]:
    if not supersession:
        return []
    since = str(supersession.get("since", ""))[:10]
    reason = supersession.get("reason") or ""
    return [f"{sign}outdated since {since}: {supersession.get('relation')} {reason}".rstrip()]


def _link(sign: str, data: Data) -> list[str]:
    because = [f" because {data['why']}"] if data.get("why") else []
    return [_link_line(sign, data), *because]


def _link_line(sign: str, link: Data) -> str:
    reason = f"{link.get('relation', '')}: {link.get('reason', '')}"
    strength = f" ({_text(link['strength'])})" if "strength" in link else ""
    return f"{sign}link {str(link.get('target', ''))[:SHORT_ID]} {reason}{strength}"


def _relink(relink: Data | None) -> list[str]:
    """Return the line of a change of a link that was proposed and not written."""
    if not relink:
        return []
    return [f" {relink['change']} the link ({_text(relink['before'])}): {relink['reason']}"]


def _failure(data: Data) -> list[str]:
    return [f" {_text(data.get('reason'))} (try {data.get('attempts', 1)})"]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return json.dumps(value, ensure_ascii=False)


_WRITERS: Mapping[str, Callable[[Data], list[str]]] = {
    "evolve": _entry,
    "proposal": _entry,
    "supersede": _supersession,
    "link": partial(_link, "+"),
    "unlink": partial(_link, "-"),
    "failure": _failure,
}
