"""Check what a caller gives before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from .config import MemoryConfig
from .errors import InvalidInputError
from .notes import SOURCES, NoteInput

TIMES = ("at", "default_at", "until", "expires_at")
TEXTS = ("content", "key", "thread", "speaker")


def check_note_input(item: NoteInput, config: MemoryConfig) -> None:
    """Check one item.

    Raises:
        InvalidInputError: Empty or too long content, text that is not Unicode, a time without a zone, an
            unknown source, or metadata that is not JSON.
    """
    if not isinstance(item.content, str) or not item.content.strip():
        raise InvalidInputError(f"content={item.content!r} is empty; give the text to remember")
    if len(item.content) > config.max_content_chars:
        raise InvalidInputError(
            f"content has {len(item.content)} characters, more than {config.max_content_chars}; "
            "split it, or raise MemoryConfig.max_content_chars"
        )
    for name in TEXTS:
        _check_text(name, getattr(item, name))
    for name in TIMES:
        check_time(name, getattr(item, name))
    if item.source not in SOURCES:
        raise InvalidInputError(f"source={item.source!r} must be one of {', '.join(SOURCES)}")
    if isinstance(item.supersedes, str) or not all(isinstance(i, str) for i in item.supersedes):
        raise InvalidInputError(f"supersedes={item.supersedes!r} must be a list of ids of notes")
    _check_metadata(item.metadata)


def check_time(name: str, value: object) -> None:
    """Check a time that may be None.

    Raises:
        InvalidInputError: It is no datetime with a time zone.
    """
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InvalidInputError(
            f"{name}={value!r} must be a datetime with a time zone, such as UTC"
        )


def check_count(name: str, value: object) -> None:
    """Check a number of things.

    Raises:
        InvalidInputError: It is not a whole number of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name}={value!r} must be a whole number of at least 1")


def check_similarity(value: object) -> None:
    """Check a threshold that may be None.

    Raises:
        InvalidInputError: It is no cosine.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise InvalidInputError(f"min_similarity={value!r} must be a cosine, from -1 to 1")


def _check_text(name: str, text: str | None) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInputError(f"{name}={text!r} must be a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at {error.start}; decode it properly first"
        ) from error
    if "\0" in text:
        raise InvalidInputError(f"{name} holds a NUL character; remove it")


def _check_metadata(metadata: Mapping[str, object]) -> None:
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"metadata={metadata!r} is not plain JSON: {error}") from error
