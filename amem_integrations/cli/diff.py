"""An entry of the history as lines of a diff, which start with `+`, `-`, or a space."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from ..notes import Change
from .terminal import SHORT_ID, short_change

Values = Mapping[str, Any]

_HIDDEN = ("cause", "kind")  # shown elsewhere, or told by the note itself


def cause_of(change: Change) -> str:
    """Return the id of the later note from which a change of another note followed; empty: there is none."""
    return str(
        change.after.get("cause") or (change.kind == "supersede" and change.after.get("by")) or ""
    )


def diff(change: Change) -> list[str]:
    """Return what a change did, as lines of a diff."""
    before, after = change.before, {n: v for n, v in change.after.items() if n not in _HIDDEN}
    why = after.pop("why", None)
    match change.kind:
        case "link":
            lines = [_link("+", after)] if after else []
        case "relink":
            lines = [_link("-", {**after, **before})] if before else []
            lines += [_link("+", after)] if after else []
        case "supersede":
            lines = [_supersession(after)] if after else []
        case "undo":
            lines = [f" {short_change(after['change'])}: {before['state']} -> {after['state']}"]
        case _:
            lines = [line for name in after for line in _field(name, before.get(name), after[name])]
    said = "failed" if change.state == "failed" else "not written"
    return lines + ([f" {said}: {_text(why)}"] if why else [])


def _field(name: str, before: object, after: object) -> list[str]:
    """Return a diff of two values; of a value that is new, one line."""
    if before is None:
        return [f"+{name}: {_text(after)}"] if after not in (None, "", [], {}) else []
    old, new = (([] if side is None else _text(side).splitlines()) for side in (before, after))
    # Lines with "?" only mark characters of the lines above; in the others a space follows the sign.
    lines = [f"{one[0]}{one[2:]}" for one in difflib.ndiff(old, new) if one[0] != "?"]
    return [f" {name}:", *lines]


def _link(sign: str, link: Values) -> str:
    said = ": ".join(_text(link[name]) for name in ("relation", "reason") if link.get(name))
    strength = f" ({_text(link['strength'])})" if "strength" in link else ""
    return f"{sign}link {str(link.get('to', ''))[:SHORT_ID]} {said}{strength}"


def _supersession(values: Values) -> str:
    since, reason = str(values.get("since", ""))[:10], values.get("reason") or ""
    return f"+outdated since {since}: {values.get('relation')} {reason}".rstrip()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return json.dumps(value, ensure_ascii=False)
