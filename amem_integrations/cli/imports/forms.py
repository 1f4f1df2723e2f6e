"""The forms of files: which one a file has, and its reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...errors import InvalidInputError
from ...ids import check_namespace
from ...memory.records import FORMAT
from ...notes import Namespace, NoteInput
from . import chat, langgraph, mem0, rows

MAX_HEADER = 100_000  # characters of the first line of an export


class Form(StrEnum):
    """What a file holds."""

    AUTO = "auto"
    EXPORT = "export"
    JSONL = "jsonl"
    LOCOMO = "locomo"
    MEM0 = "mem0"
    LANGGRAPH = "langgraph"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Part:
    """Notes to be of one namespace; `labels` is what the file says of whose they are."""

    labels: tuple[str, ...]
    items: list[NoteInput]


def read(path: Path, form: Form = Form.AUTO, *, thread: str | None = None) -> list[Part]:
    """Return what a file holds.

    Args:
        path: The file.
        form: Its form; AUTO finds out.
        thread: The conversation, for items that name none; for a chat history the file's name without it.

    Raises:
        InvalidInputError: It holds something else; the message says where.
        OSError: It cannot be read.
    """
    text = _text(path)
    data = _json(text)
    form = _recognised(data, path) if form is Form.AUTO else form
    if form is not Form.JSONL and data is None:
        raise InvalidInputError(f"{path} is not one JSON document; see --format")
    if form is Form.LOCOMO:
        from ...evaluation import locomo  # noqa: PLC0415 - needed for this form alone

        return [
            Part(one.namespace, [turn.as_input() for turn in one.turns])
            for one in locomo.load(path)
        ]
    if form is Form.CHAT:
        return [Part((), chat.read(data, thread or path.stem, str(path)))]
    if form is Form.JSONL:
        return [Part((), rows.read(text, thread, str(path)))]
    reader = mem0.read if form is Form.MEM0 else langgraph.read
    return _grouped(reader(data, str(path)))


def recognise(path: Path, form: Form = Form.AUTO) -> Form:
    """Return EXPORT for a file that `amem export` wrote, else `form`."""
    if form is not Form.AUTO:
        return form
    return Form.EXPORT if _header(path).get("format") == FORMAT else form


def origin(path: Path) -> Namespace:
    """Return the namespace that an export came from."""
    labels = _header(path).get("namespace")
    return check_namespace(labels if isinstance(labels, list) else ())


def _header(path: Path) -> Mapping[str, Any]:
    with path.open(encoding="utf-8", errors="replace") as file:
        first = _json(file.readline(MAX_HEADER))
    return first if isinstance(first, Mapping) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not a text file in UTF-8: {error}") from error


def _json(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def _recognised(data: Any, path: Path) -> Form:  # noqa: ANN401 - JSON
    if data is None or path.suffix in {".jsonl", ".ndjson"}:
        return Form.JSONL
    if chat.messages(data):
        return Form.CHAT
    first = _first(data)
    if "sample_id" in first and "conversation" in first:
        return Form.LOCOMO
    if "memory" in first:
        return Form.MEM0
    if "namespace" in first and "value" in first:
        return Form.LANGGRAPH
    if isinstance(data, Mapping) and rows.holds_text(data):
        return Form.JSONL  # of one line
    raise InvalidInputError(
        f"{path} holds none of the known forms: {', '.join(f.value for f in Form if f != Form.AUTO)}"
    )


def _first(data: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return the first item of a list, or of the list that a wrapper holds."""
    if isinstance(data, Mapping):
        data = next((data[name] for name in ("results", "memories", "items") if name in data), [])
    first = data[0] if isinstance(data, list) and data else {}
    return first if isinstance(first, Mapping) else {}


def _grouped(items: list[tuple[tuple[str, ...], NoteInput]]) -> list[Part]:
    parts: dict[tuple[str, ...], list[NoteInput]] = {}
    for labels, item in items:
        parts.setdefault(labels, []).append(item)
    return [Part(labels, held) for labels, held in parts.items()]
