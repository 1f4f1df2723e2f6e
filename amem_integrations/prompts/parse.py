"""From what a chat model wrote to the reply that was asked for.

Models wrap JSON in thoughts, fences and chatter, forget brackets, and bend the shape that was asked
for. `parse` undoes what can be undone without guessing at meaning: everything in its result was said
by the model, and an answer in prose is an error, never a decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import ModelReplyError
from ._tidy import is_by_alias, item_type, key_field, list_field, tidy
from .replies import ConstructReply

M = TypeVar("M", bound=BaseModel)

_THOUGHT = re.compile(r"<(think|thinking|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r"\A.*</(?:think|thinking|thought)>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\A```\w*\s|```\Z")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[\[\]{}]', re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_WRAPPERS = {"properties", "arguments", "parameters", "result", "response", "answer", "output"}
_MAX_WRAPPERS = 3

# A reply that breaks off may be used up to there only if the rest is sure to be missed: every note
# has to be constructed, but a note left out of an `evolve` reply counts as one with nothing to change.
_MISSED_IF_LEFT_OUT: tuple[type[BaseModel], ...] = (ConstructReply,)


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON value of the answer; `cut` if the answer broke off inside it."""

    value: Any
    cut: bool = False


def parse(text: str, reply: type[M]) -> M:
    """Return the reply in a model's answer.

    Thoughts, fences and chatter are skipped, broken JSON is repaired, wrappers are taken off, and
    single values stand for lists of one. Of several values that fit as well, the last is taken. A
    number of a reply is a share from 0 to 1: percentages and words ("high") are understood, what
    lies outside is clipped. Of a `ConstructReply` that breaks off the finished notes are kept.

    Raises:
        ModelReplyError: Nothing in the answer fits. The message can be shown to the model.
    """
    found = _found(text)
    if not found:
        what = "there is no JSON in the answer" if text.strip() else "the answer is empty"
        raise ModelReplyError(f"{what}; reply with one JSON object with {_fields(reply)}")
    problems = []
    for shape, cut in _readings(found, reply):
        try:
            result = reply.model_validate(tidy(shape, reply))
        except ValidationError as error:
            problems.append(error)
        else:
            return _finished(result) if cut else result
    raise ModelReplyError(_explained(found, problems, reply)) from next(iter(problems), None)


def _readings(found: list[_Found], reply: type[BaseModel]) -> list[tuple[dict[str, Any], bool]]:
    """Return what the answer can mean, with whether it broke off; most complete and literal first."""
    ways = [
        (item.cut, looseness, shape)
        for item in (*_joined(found, reply), *reversed(found))
        for looseness, shape in enumerate(_shapes(item.value, reply))
    ]
    return [(shape, cut) for cut, _, shape in sorted(ways, key=itemgetter(0, 1))]


def _finished(result: M) -> M:
    """Return what was complete when the answer broke off."""
    name = list_field(type(result))
    if name and isinstance(result, _MISSED_IF_LEFT_OUT) and len(getattr(result, name)) > 1:
        return result.model_copy(update={name: getattr(result, name)[:-1]})
    raise ModelReplyError("the answer breaks off before its end; reply again, more briefly")


def _explained(found: list[_Found], problems: list[ValidationError], reply: type[BaseModel]) -> str:
    if any(isinstance(item.value, dict) and "properties" in item.value for item in found):
        return f"the answer repeats the schema; fill it in: give {_fields(reply)}"
    if not problems:
        return f"the JSON in the answer has another shape; give one object with {_fields(reply)}"
    details = [
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in problems[0].errors()[:3]
    ]
    return f"the answer does not have the shape asked for ({'; '.join(details)})"


def _fields(reply: type[BaseModel]) -> str:
    return ", ".join(f'"{name}"' for name in reply.model_fields)


# From text to JSON values


def _found(text: str) -> list[_Found]:
    """Return the JSON values of an answer in order; the outermost ones only."""
    spoken = _END_OF_THOUGHT.sub("", _THOUGHT.sub("", text))
    for whole in (text, spoken):
        try:
            value = json.loads(_FENCE.sub("", whole.strip()))
            value = json.loads(value) if isinstance(value, str) else value  # encoded twice
        except (ValueError, RecursionError):
            continue
        return [_Found(value)] if isinstance(value, dict | list) else []
    parts = [_repaired(part) for part in _parts(spoken)]
    return [part for part in parts if isinstance(part.value, dict | list) and part.value]


def _parts(text: str) -> Iterator[str]:
    """Yield each stretch from an opening bracket to the one that closes it, or to the end."""
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        depth, position = 0, len(text)
        for token in _TOKEN.finditer(text, opening.start()):
            depth += (token[0] in "{[") - (token[0] in "]}")
            if depth == 0:
                position = token.end()
                break
        yield text[opening.start() : position]


def _repaired(part: str) -> _Found:
    try:
        return _Found(json.loads(part))
    except RecursionError:
        return _Found(None)
    except ValueError:
        end = max(part.rfind("}"), part.rfind("]")) + 1
        rest = part[end:].strip("` \n\t")
        # More JSON after the last closing bracket means that the answer broke off in it; words after
        # it mean that only brackets are missing.
        cut = end == 0 or rest.startswith((",", '"', "{", "[", ":"))
        return _Found(_mended(part if cut else part[:end]), cut)


def _mended(part: str) -> object:
    import json_repair  # noqa: PLC0415 - only replies that are not JSON need it

    try:
        value: object = json_repair.loads(part)
    except (ValueError, RecursionError):
        return None
    return value


# From JSON values to the shape asked for


def _joined(found: list[_Found], reply: type[BaseModel]) -> Iterator[_Found]:
    """Yield the list that a model meant by writing its items one after the other."""
    name = list_field(reply)
    if name and len(found) > 1 and all(_is_item(item.value, reply) for item in found):
        yield _Found({name: [item.value for item in found]}, found[-1].cut)


def _shapes(value: object, reply: type[BaseModel], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the ways to read a value as a reply, the most literal first."""
    name = list_field(reply)
    if isinstance(value, list):
        if name and all(isinstance(item, dict) for item in value):
            yield {name: value}
        if depth < _MAX_WRAPPERS:
            yield from _of_parts(value, reply, depth)
        return
    if not isinstance(value, dict):
        return
    yield value
    for key, inner in value.items() if depth < _MAX_WRAPPERS else ():
        if len(value) == 1 or key.lower() in {*_WRAPPERS, reply.__name__.lower()}:
            yield from _shapes(_decoded(inner), reply, depth + 1)
    if name and (_is_item(value, reply) or is_by_alias(value)):
        yield {name: value}


def _of_parts(values: list[Any], reply: type[BaseModel], depth: int) -> Iterator[dict[str, Any]]:
    """Yield the reply of which each value in a list is a part, as calls of a function are."""
    name = list_field(reply)
    shapes = [list(_shapes(value, reply, depth + 1)) for value in values]
    if len(values) == 1:
        yield from shapes[0]
    elif name:
        parts = [
            next((s[name] for s in found if isinstance(s.get(name), list)), None)
            for found in shapes
        ]
        if all(part is not None for part in parts):
            yield {name: [item for part in parts for item in part or ()]}


def _decoded(inner: object) -> object:
    """Return the value of a JSON text: arguments of a tool call are often sent as one."""
    return _mended(inner) if isinstance(inner, str) and inner.lstrip()[:1] in {"{", "["} else inner


def _is_item(value: object, reply: type[BaseModel]) -> bool:
    item = item_type(reply.model_fields[list_field(reply) or ""].annotation)
    return isinstance(value, dict) and item is not None and key_field(item) in value
