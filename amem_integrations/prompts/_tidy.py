"""Values of a reply as they should have been written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

_ALIAS = re.compile(r"\[?[a-z]+_?\d+\]?", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;\n]")
_NOTHING = {"", "none", "null", "n/a"}
_PLACEHOLDERS = {"…", "..."}  # of the example in the prompt
_STRENGTHS = {
    "low": 0.25,
    "weak": 0.25,
    "medium": 0.5,
    "moderate": 0.5,
    "high": 0.75,
    "strong": 0.75,
}


def list_field(model: type[BaseModel]) -> str | None:
    """Return the name of the only field that is a list of objects."""
    names = [name for name, field in model.model_fields.items() if item_type(field.annotation)]
    return names[0] if len(names) == 1 else None


def item_type(annotation: object) -> type[BaseModel] | None:
    """Return the model of the objects in a list, or None for any other annotation."""
    inner = get_args(annotation)[0] if get_origin(annotation) is list else None
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def key_field(model: type[BaseModel]) -> str:
    """Return the field by which an item says which note it is about: the one that is required."""
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return required[0] if len(required) == 1 else ""


def is_by_alias(value: Mapping[str, Any]) -> bool:
    """Tell whether objects are given by the aliases of notes: `{"n1": {…}, "n2": {…}}`."""
    return bool(value) and all(
        _ALIAS.fullmatch(key) and isinstance(inner, dict) for key, inner in value.items()
    )


def tidy(data: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a model with their values cleaned; what says nothing is left out."""
    given = {str(key).strip().lower(): value for key, value in data.items()}
    tidied: dict[str, Any] = {
        name: _value(given[name], field.annotation)
        for name, field in model.model_fields.items()
        if name in given
    }
    return {name: value for name, value in tidied.items() if value is not None}


def _value(value: object, annotation: object) -> object:
    item = item_type(annotation)
    if item:
        return _items(value, item)
    if annotation == list[str]:
        return _strings(value)
    if annotation is str:
        return _string(value)
    return _share(value) if annotation is float else value


def _items(value: object, model: type[BaseModel]) -> object:
    key = key_field(model)
    if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
        return []
    if isinstance(value, dict):
        by_alias = is_by_alias(value)
        value = [{key: name, **inner} for name, inner in value.items()] if by_alias else [value]
    if not isinstance(value, list):
        return value
    objects = [{key: item} if isinstance(item, str) else item for item in value]
    return [
        _named(tidy(item, model), key) if isinstance(item, dict) else item
        for item in objects
        if not (isinstance(item, dict) and key in item and item[key] is None)
    ]


def _named(item: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an item with the alias of its note bare: models put it in the brackets it was shown in."""
    if isinstance(item.get(key), str):
        item[key] = item[key].strip("[]()<># ")
    return item


def _strings(value: object) -> list[str] | None:
    if isinstance(value, str):
        value = [] if value.strip().lower() in _NOTHING else _SEPARATOR.split(value)
    if not isinstance(value, list):
        return None
    texts = [_string(item) for item in value]
    return [text.strip() for text in texts if text and text.strip()]


def _string(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = " ".join(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or value.strip() in _PLACEHOLDERS:
        return None
    # Half a surrogate pair is no UTF-8, and a NUL no text; neither can be stored.
    return value.replace("\0", "").encode(errors="ignore").decode()


def _share(value: object) -> float | None:
    """Return a number from 0 to 1, or None for what is no number."""
    text = str(value).strip().lower()
    if text in _STRENGTHS:
        return _STRENGTHS[text]
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return min(max(number, 0.0), 1.0) if math.isfinite(number) else None
