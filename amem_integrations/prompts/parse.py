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
from contextlib import suppress
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ..errors import ModelReplyError
from ..notes import storable, storable_values
from .replies import ConstructReply, EvolveReply

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
_MAX_DEPTH = 100  # of what is repaired, which takes the longer the deeper it is, without a limit

_ALIAS = re.compile(r"\[?[a-z]+_?\d+\]?", re.IGNORECASE)
# As in `note n1` or `[n1]: Ann`.
_BEGINS_WITH_ALIAS = re.compile(r"\W*(?:(?:note|id)\W+)?([a-z]\d+)\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;\n]")
_EMPTY = {"", "none", "null", "n/a", "nan", "undefined"}
_PLACEHOLDERS = {"…", "..."}  # of the example in the prompt
_STRENGTHS = {
    "low": 0.25,
    "weak": 0.25,
    "medium": 0.5,
    "moderate": 0.5,
    "high": 0.75,
    "strong": 0.75,
}

# Of a reply about several notes the finished part is used; what is missing is asked for again, by `is_cut`.
_PARTIAL_ALLOWED = (ConstructReply, EvolveReply)


Json = tuple[Any, bool]  # a value of the answer, and whether the answer ends inside it
Data = dict[str, Any]


def parse(text: str, reply: type[M]) -> M:
    """Return the reply in a model's answer.

    Reasoning, code fences and chatter are skipped, broken JSON is repaired, wrappers are removed, and
    a single value stands for a list of one. Several values about different notes are one reply; of others that fit
    equally, the last is taken. An item of a list that cannot be read is left out, if there are others that can. A
    number of a reply is a share from 0 to 1: percentages and words ("high") are converted, other numbers
    are clipped. Of a truncated reply about several notes the finished ones are kept, and it says so (`is_cut`).

    Raises:
        ModelReplyError: Nothing in the answer fits. The message can be shown to the model.
    """
    values, errors = _json_values(text), list[ValidationError]()
    names = ", ".join(f'"{name}"' for name in reply.model_fields)
    if not values:
        problem = "there is no JSON in the answer" if text.strip() else "the answer is empty"
        raise ModelReplyError(f"{problem}; reply with one JSON object with {names}")
    form = _Form(reply)
    readings = [
        (is_cut, looseness, data)
        for value, is_cut in (*form.joined(values), *reversed(values))
        for looseness, data in enumerate(form.readings(value))
    ]
    # The complete ones come first, then the most literal.
    for is_cut, _, data in sorted(readings, key=itemgetter(0, 1)):
        try:
            result = reply.model_validate(_tidy(data, reply))
        except ValidationError as error:
            errors.append(error)
        else:
            return _finished_part(result) if is_cut else result
    if any(isinstance(value, dict) and "properties" in value for value, _ in values):
        problem = f"the answer repeats the schema; fill it in: give {names}"
    elif errors:
        found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in errors[0].errors()[:3]]
        problem = f"the answer does not have the requested shape ({'; '.join(found)})"
    else:
        problem = f"the JSON in the answer has another shape; give one object with {names}"
    raise ModelReplyError(problem) from next(iter(errors), None)


def _finished_part(result: M) -> M:
    """Return a truncated reply without its last note, which may be incomplete."""
    if isinstance(result, _PARTIAL_ALLOWED) and len(result.notes) > 1:
        del result.notes[-1]
        result.cut()
        return result
    raise ModelReplyError("the answer breaks off before its end; reply again, more briefly")


# 1. From text to JSON values


def _json_values(text: str) -> list[Json]:
    """Return the outermost JSON values of an answer, in order."""
    answer = _END_OF_REASONING.sub("", _REASONING.sub("", text))
    for whole in (text, answer):
        with suppress(ValueError, RecursionError):
            value = _decode(_FENCE.sub("", whole.strip()))
            value = _decode(value) if isinstance(value, str) else value  # encoded twice
            return [(value, False)] if isinstance(value, dict | list) else []
    values = [_loaded(part) for part in _bracketed(answer)]
    return [(value, cut) for value, cut in values if isinstance(value, dict | list) and value]


def _decode(text: str) -> object:
    """Return a JSON value, in which NaN is null, and the lists of a key that is given twice are one."""
    return json.loads(text, parse_constant=lambda _: None, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        both = isinstance(value, list) and isinstance(made.get(key), list)
        made[key] = [*made[key], *value] if both else value
    return made


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


def _loaded(part: str) -> Json:
    try:
        return _decode(part), False
    except RecursionError:
        return None, False
    except ValueError:
        end = max(part.rfind("}"), part.rfind("]")) + 1
        rest = part[end:].strip("` \n\t")
        # More JSON after the last closing bracket means that the answer is truncated; words after it
        # mean that only brackets are missing.
        is_cut = end == 0 or rest.startswith((",", '"', "{", "[", ":"))
        return _repaired(part if is_cut else part[:end]), is_cut


def _repaired(part: str) -> object:
    import json_repair  # noqa: PLC0415 - most answers need no repair

    steps = ((one[0] in "{[") - (one[0] in "]}") for one in _TOKEN.finditer(part))
    if max(accumulate(steps), default=0) > _MAX_DEPTH:
        return None
    try:
        value: object = json_repair.loads(part)
    except (ValueError, RecursionError):
        return None
    return value


# 2. From JSON values to the requested shape


class _Form:
    """The shape of a reply.

    Attributes:
        items: The name of the only field that has to be there and is a list of objects, if there is one.
        key: The name of the field of these objects that says what note one is about.
    """

    def __init__(self, reply: type[BaseModel]) -> None:
        self.wrappers = {*_WRAPPERS, reply.__name__.lower()}
        kinds = {name: _item_type(one.annotation) for name, one in reply.model_fields.items()}
        lists = [n for n, one in reply.model_fields.items() if one.is_required() and kinds[n]]
        self.items = lists[0] if len(lists) == 1 else None
        item = kinds[self.items] if self.items else None
        self.key = _key_field(item) if item else ""

    def joined(self, values: list[Json]) -> Iterator[Json]:
        """Yield the reply of which the model wrote the items, or parts about different notes, one after the other."""
        name, parts = self.items, [value for value, _ in values]
        if not name or len(values) < 2:  # noqa: PLR2004 - one after the other
            return
        if all(map(self._is_item, parts)):
            parts = [{name: parts}]
        if all(isinstance(part, dict) and isinstance(part.get(name), list) for part in parts):
            whole = _object([pair for part in parts for pair in part.items()])
            keys = {str(item.get(self.key)) for item in whole[name] if isinstance(item, dict)}
            if len(keys) == len(whole[name]) and all(part[name] for part in parts):
                yield whole, values[-1][1]

    def readings(self, value: object, depth: int = 0) -> Iterator[Data]:
        """Yield the ways to read a value as a reply, the most literal first."""
        name = self.items
        if isinstance(value, list):
            if name and all(isinstance(item, dict) for item in value):
                yield {name: value}
            if depth < _MAX_WRAPPERS:
                yield from self._merged(value, depth)
            return
        if not isinstance(value, dict):
            return
        if name and name not in value and (items := _by_alias(value)):
            yield {**value, name: items}
        yield value
        for key, inner in value.items() if depth < _MAX_WRAPPERS else ():
            if len(value) == 1 or key.lower() in self.wrappers:
                # The arguments of a tool call are often sent as text.
                is_json = isinstance(inner, str) and inner.lstrip()[:1] in {"{", "["}
                yield from self.readings(_repaired(inner) if is_json else inner, depth + 1)
        if name and self._is_item(value):
            yield {name: value}

    def _merged(self, values: list[Any], depth: int) -> Iterator[Data]:
        """Yield the reply whose parts are the values of a list, such as several tool calls."""
        name = self.items
        readings = [list(self.readings(value, depth + 1)) for value in values]
        if len(values) == 1:
            yield from readings[0]
        elif name:
            parts = [[one for one in each if isinstance(one.get(name), list)] for each in readings]
            if all(parts):
                yield _object([pair for first, *_ in parts for pair in first.items()])

    def _is_item(self, value: object) -> bool:
        return isinstance(value, dict) and self.key in value


def _by_alias(value: Mapping[str, Any]) -> Data:
    """Return the objects that an object holds by the aliases of notes or by numbers.

    It is `{"n1": {…}, "n2": {…}}`, or `{"0": {"id": "n1", …}}`.
    """
    return {
        key: inner
        for key, inner in value.items()
        if isinstance(inner, dict) and (key.isdigit() or _ALIAS.fullmatch(key))
    }


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
    return _share(value) if annotation is float else storable_values(value)


def _items(value: object, model: type[BaseModel]) -> object:
    key = _key_field(model)
    if _is_empty(value):
        return []
    value = value.get("items", value) if isinstance(value, dict) else value  # the schema, filled in
    value = [value] if isinstance(value, dict) else value
    if not isinstance(value, list):
        return value
    given = [one for item in value for one in _keyed(item, key)]
    tidied = [_tidied(item, model, key) if isinstance(item, dict) else item for item in given]
    readable = list[object]()
    for item in tidied:
        with suppress(ValidationError):
            readable.append(model.model_validate(item))
    return readable or [item for item in tidied if item is not None]


def _keyed(item: object, key: str) -> list[Any]:
    """Return an item of a list with its key, or several that an object holds by their keys."""
    if isinstance(item, str) and _ALIAS.fullmatch(item.strip()):
        return [{key: item}]
    if isinstance(item, dict) and key not in item and item and _by_alias(item) == item:
        return [{key: name, **inner} for name, inner in item.items()]
    return [item]


def _tidied(item: Data, model: type[BaseModel], key: str) -> Data | None:
    """Return an item, known by its alias alone; None if its key is null.

    An item with an empty key stays, as one of a note that was not shown.
    """
    tidied = _tidy(item, model)
    if isinstance(item.get(key), str):
        tidied.setdefault(key, "")
    if isinstance(tidied.get(key), str) and (found := _BEGINS_WITH_ALIAS.match(tidied[key])):
        tidied[key] = found[1].lower()
    return None if item.get(key, "") is None else tidied


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
    if not isinstance(value, str) or _is_empty(value) or value.strip() in _PLACEHOLDERS:
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
