"""From the text a chat model wrote to the reply that was requested.

Models wrap JSON in reasoning, code fences and chatter, omit brackets, and change the requested shape.
`parse` corrects what can be corrected without guessing: every value in its result was written by the
model, and an answer in prose is an error, never a decision.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ..errors import ModelReplyError
from ..notes import storable
from .replies import ConstructReply

M = TypeVar("M", bound=BaseModel)

_REASONING = re.compile(r"<(think|thinking|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_REASONING = re.compile(r"\A.*</(?:think|thinking|thought)>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\A```\w*\s|```\Z")
# A string, an escape outside of one, or a bracket. Escapes are tokens, so that after a quote that is never
# closed the text is not scanned again from each escaped one.
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\\["\\]|[\[\]{}]', re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_WRAPPERS = {"properties", "arguments", "parameters", "result", "response", "answer", "output"}
_MAX_WRAPPERS = 3

_ALIAS = re.compile(r"\[?[a-z]+_?\d+\]?", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;\n]")
_EMPTY = {"", "none", "null", "n/a"}
_PLACEHOLDERS = {"…", "..."}  # of the example in the prompt
_STRENGTHS = {
    "low": 0.25,
    "weak": 0.25,
    "medium": 0.5,
    "moderate": 0.5,
    "high": 0.75,
    "strong": 0.75,
}

# The finished part of a truncated reply is used only if what is missing is noticed later: every note has
# to be constructed, but a note that is absent from an `EvolveReply` counts as one with no changes.
_PARTIAL_ALLOWED: tuple[type[BaseModel], ...] = (ConstructReply,)


@dataclass(frozen=True, slots=True)
class _Json:
    """A JSON value of the answer; `truncated` if the answer ends inside it."""

    value: Any
    truncated: bool = False


def parse(text: str, reply: type[M]) -> M:
    """Return the reply in a model's answer.

    Reasoning, code fences and chatter are skipped, broken JSON is repaired, wrappers are removed, and
    a single value stands for a list of one. Of several values that fit equally, the last is taken. A
    number of a reply is a share from 0 to 1: percentages and words ("high") are converted, other numbers
    are clipped. Of a truncated `ConstructReply` the finished notes are kept.

    Raises:
        ModelReplyError: Nothing in the answer fits. The message can be shown to the model.
    """
    values = _json_values(text)
    if not values:
        problem = "there is no JSON in the answer" if text.strip() else "the answer is empty"
        raise ModelReplyError(f"{problem}; reply with one JSON object with {_field_names(reply)}")
    errors = []
    for shape, truncated in _candidates(values, reply):
        try:
            result = reply.model_validate(_tidy(shape, reply))
        except ValidationError as error:
            errors.append(error)
        else:
            return _finished_part(result) if truncated else result
    raise ModelReplyError(_explanation(values, errors, reply)) from next(iter(errors), None)


def _candidates(values: list[_Json], reply: type[BaseModel]) -> list[tuple[dict[str, Any], bool]]:
    """Return the possible readings of the answer, each with whether it is truncated.

    Complete ones come first, then the most literal.
    """
    readings = [
        (item.truncated, looseness, shape)
        for item in (*_joined(values, reply), *reversed(values))
        for looseness, shape in enumerate(_shapes(item.value, reply))
    ]
    return [(shape, cut) for cut, _, shape in sorted(readings, key=itemgetter(0, 1))]


def _finished_part(result: M) -> M:
    """Return a truncated reply without its last item, which may be incomplete."""
    name = _list_field(type(result))
    allowed = type(result) in _PARTIAL_ALLOWED
    if name and allowed and len(getattr(result, name)) > 1:
        return result.model_copy(update={name: getattr(result, name)[:-1]})
    raise ModelReplyError("the answer breaks off before its end; reply again, more briefly")


def _explanation(values: list[_Json], errors: list[ValidationError], reply: type[BaseModel]) -> str:
    if any(isinstance(item.value, dict) and "properties" in item.value for item in values):
        return f"the answer repeats the schema; fill it in: give {_field_names(reply)}"
    if not errors:
        return (
            f"the JSON in the answer has another shape; give one object with {_field_names(reply)}"
        )
    details = [
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors[0].errors()[:3]
    ]
    return f"the answer does not have the requested shape ({'; '.join(details)})"


def _field_names(reply: type[BaseModel]) -> str:
    return ", ".join(f'"{name}"' for name in reply.model_fields)


# 1. From text to JSON values


def _json_values(text: str) -> list[_Json]:
    """Return the outermost JSON values of an answer, in order."""
    answer = _END_OF_REASONING.sub("", _REASONING.sub("", text))
    for whole in (text, answer):
        try:
            value = json.loads(_FENCE.sub("", whole.strip()))
            value = json.loads(value) if isinstance(value, str) else value  # encoded twice
        except (ValueError, RecursionError):
            continue
        return [_Json(value)] if isinstance(value, dict | list) else []
    values = [_loaded(part) for part in _bracketed(answer)]
    return [item for item in values if isinstance(item.value, dict | list) and item.value]


def _bracketed(text: str) -> Iterator[str]:
    """Yield each part from an opening bracket to the one that closes it, or to the end."""
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        depth, position = 0, len(text)
        for token in _TOKEN.finditer(text, opening.start()):
            depth += (token[0] in "{[") - (token[0] in "]}")
            if depth == 0:
                position = token.end()
                break
        yield text[opening.start() : position]


def _loaded(part: str) -> _Json:
    try:
        return _Json(json.loads(part))
    except RecursionError:
        return _Json(None)
    except ValueError:
        end = max(part.rfind("}"), part.rfind("]")) + 1
        rest = part[end:].strip("` \n\t")
        # More JSON after the last closing bracket means that the answer is truncated; words after it
        # mean that only brackets are missing.
        truncated = end == 0 or rest.startswith((",", '"', "{", "[", ":"))
        return _Json(_repaired(part if truncated else part[:end]), truncated)


def _repaired(part: str) -> object:
    import json_repair  # noqa: PLC0415 - most answers need no repair

    try:
        value: object = json_repair.loads(part)
    except (ValueError, RecursionError):
        return None
    return value


# 2. From JSON values to the requested shape


def _joined(values: list[_Json], reply: type[BaseModel]) -> Iterator[_Json]:
    """Yield the list whose items the model wrote one after the other."""
    name = _list_field(reply)
    if name and len(values) > 1 and all(_is_item(item.value, reply) for item in values):
        yield _Json({name: [item.value for item in values]}, values[-1].truncated)


def _shapes(value: object, reply: type[BaseModel], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the ways to read a value as a reply, the most literal first."""
    name = _list_field(reply)
    if isinstance(value, list):
        if name and all(isinstance(item, dict) for item in value):
            yield {name: value}
        if depth < _MAX_WRAPPERS:
            yield from _merged(value, reply, depth)
        return
    if not isinstance(value, dict):
        return
    yield value
    for key, inner in value.items() if depth < _MAX_WRAPPERS else ():
        if len(value) == 1 or key.lower() in {*_WRAPPERS, reply.__name__.lower()}:
            yield from _shapes(_decoded(inner), reply, depth + 1)
    if name and (_is_item(value, reply) or _is_by_alias(value)):
        yield {name: value}


def _merged(values: list[Any], reply: type[BaseModel], depth: int) -> Iterator[dict[str, Any]]:
    """Yield the reply whose parts are the values of a list, such as several tool calls."""
    name = _list_field(reply)
    shapes = [list(_shapes(value, reply, depth + 1)) for value in values]
    if len(values) == 1:
        yield from shapes[0]
    elif name:
        parts = [
            next((shape[name] for shape in of_one if isinstance(shape.get(name), list)), None)
            for of_one in shapes
        ]
        if all(part is not None for part in parts):
            yield {name: [item for part in parts for item in part or ()]}


def _decoded(inner: object) -> object:
    """Return the value of a JSON text: the arguments of a tool call are often sent as text."""
    is_json = isinstance(inner, str) and inner.lstrip()[:1] in {"{", "["}
    return _repaired(str(inner)) if is_json else inner


def _is_item(value: object, reply: type[BaseModel]) -> bool:
    item = _item_type(reply.model_fields[_list_field(reply) or ""].annotation)
    return isinstance(value, dict) and item is not None and _key_field(item) in value


def _is_by_alias(value: Mapping[str, Any]) -> bool:
    """Return whether objects are keyed by the aliases of notes: `{"n1": {…}, "n2": {…}}`."""
    return bool(value) and all(
        _ALIAS.fullmatch(key) and isinstance(inner, dict) for key, inner in value.items()
    )


def _list_field(model: type[BaseModel]) -> str | None:
    """Return the name of the only field that has to be there and is a list of objects."""
    fields = model.model_fields.items()
    names = [name for name, one in fields if one.is_required() and _item_type(one.annotation)]
    return names[0] if len(names) == 1 else None


def _item_type(annotation: object) -> type[BaseModel] | None:
    """Return the model of the objects in a list, or None for any other annotation."""
    inner = get_args(annotation)[0] if get_origin(annotation) is list else None
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _key_field(model: type[BaseModel]) -> str:
    """Return the only required field of an item, which says what note it is about."""
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return required[0] if len(required) == 1 else ""


# 3. The values of its fields


def _tidy(data: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a model with their values cleaned, without those that are empty."""
    given = {str(key).strip().lower(): value for key, value in data.items()}
    cleaned: dict[str, Any] = {
        name: _value(given[key], field.annotation)
        for name, field in model.model_fields.items()
        for key in (name, field.validation_alias)
        if key in given
    }
    return {name: value for name, value in cleaned.items() if value is not None}


def _value(value: object, annotation: object) -> object:
    item = _item_type(annotation)
    if item:
        return _items(value, item)
    if annotation == list[str]:
        return _strings(value)
    if annotation is str:
        return _string(value)
    return _share(value) if annotation is float else value


def _items(value: object, model: type[BaseModel]) -> object:
    key = _key_field(model)
    if _is_empty(value):
        return []
    if isinstance(value, dict):
        by_alias = _is_by_alias(value)
        value = [{key: name, **inner} for name, inner in value.items()] if by_alias else [value]
    if not isinstance(value, list):
        return value
    objects = [{key: item} if isinstance(item, str) else item for item in value]
    return [
        _with_bare_alias(_tidy(item, model), key) if isinstance(item, dict) else item
        for item in objects
        if not (isinstance(item, dict) and key in item and item[key] is None)
    ]


def _with_bare_alias(item: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an item without the brackets round its alias, in which the prompt shows it."""
    if isinstance(item.get(key), str):
        item[key] = item[key].strip("[]()<># ")
    return item


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _EMPTY)


def _strings(value: object) -> list[str] | None:
    if isinstance(value, str):
        value = [] if _is_empty(value) else _SEPARATOR.split(value)
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
    return storable(value)


def _share(value: object) -> float | None:
    """Return a number from 0 to 1, or None if it is not a number."""
    text = str(value).strip().lower()
    if text in _STRENGTHS:
        return _STRENGTHS[text]
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return min(max(number, 0.0), 1.0) if math.isfinite(number) else None
