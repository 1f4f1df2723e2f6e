"""Forms: pydantic models that are filled from what was said and kept current, of the user's own and `Profile`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, PydanticUserError, ValidationError

from ..changes.edits import change, prompt_records, update, usage_records
from ..changes.rewrite import rewrite
from ..embedding import indexed
from ..errors import (
    BudgetExceededError,
    ConfigurationError,
    InvalidInputError,
    ModelReplyError,
    ModelUnavailableError,
)
from ..evolution.ask import ask, counting
from ..evolution.deleted_meanwhile import remove_what_is_gone
from ..evolution.show import aliases, raw, turns
from ..fetch import note_pages
from ..filters import Condition
from ..forms import Profile
from ..ids import clock, derive, new_operation, now, time_of
from ..kinds import FORM
from ..notes import Change, Namespace, Note, check_namespace
from ..prompts.replies import FillReply
from ..runtime import RULES, Runtime, resolve
from .content import remove_notes

log = logging.getLogger("amem_integrations")

M = TypeVar("M", bound=BaseModel)

READ_TO = "read_to"  # in the metadata of the note that holds a form
EMPTY = "{}"  # a form in which nothing is filled yet
PAGE = 20  # notes read by one call


async def fill(runtime: Runtime, schema: type[M], *, namespace: Sequence[str]) -> M | None:
    """Return a form of your own, such as preferences, filled from all that was said so far.

    The language model reads the statements that were added since the last call, twenty at a time, and says which fields
    they change; pydantic checks the result. The form is a note (`key` is `"schema:<name>"`) that names what it was filled
    from as its `sources`: `history` shows each change of it, and `undo` takes it back. No search finds it. If one of its
    sources is corrected or deleted, or expires, the form goes, and the next call fills it anew from what is left. What
    does not pass the check is asked for once more; then the form stays as it was, and the next call tries again.

    Args:
        schema: A pydantic model whose fields have defaults; its name says which form of the namespace it is.
        namespace: Whose memory.

    Returns None if nothing was said yet that it could be filled from.

    Raises:
        ConfigurationError: There is no language model, or `schema` cannot be empty.
        ModelReplyError: The model gave no usable answer twice; what was filled before stays.
        ModelUnavailableError: The model did not answer; what was filled before stays.
        BudgetExceededError: A limit of the day is reached.
    """
    space = check_namespace(namespace)
    _check(runtime, schema)
    form = await _stored(runtime, space, schema)
    if form is not None and form.is_expired(now()):
        await remove_notes(runtime, space, [form])
        form = None
    while notes := await _unread(runtime, space, form):
        form = await _Filling(runtime, space, schema, form).read(notes)
    return _value(form, schema)


async def profile(runtime: Runtime, *, namespace: Sequence[str]) -> Profile | None:
    """Return who the user is, as the last `evolve` of a memory with `MemoryConfig(profile=True)` wrote it.

    The profile is a form (see `fill`), written from the statements that are new by a call of the model, or one for
    twenty of them. It is None before anything was written, in a memory without a language model, and after a source of
    it was corrected or deleted or has expired, until the next `evolve` that finishes a note.

    Raises:
        InvalidInputError: Somebody wrote something else into the note that holds it.
        NamespaceError: The namespace is missing or malformed.
    """
    space = check_namespace(namespace)
    form = None if runtime.model_name == RULES else await _stored(runtime, space, Profile)
    return None if form is None or form.is_expired(now()) else _value(form, Profile)


async def write_profile(runtime: Runtime, namespace: Namespace) -> None:
    """Bring the profile up to date, if the settings want one.

    Raises:
        ModelUnavailableError: Only with `on_model_error="raise"`; what was said before stays as it is.
    """
    if not runtime.config.profile or runtime.model_name == RULES:
        return
    try:
        await fill(runtime, Profile, namespace=namespace)
    except (ModelReplyError, ModelUnavailableError, InvalidInputError) as error:
        limited = isinstance(error, BudgetExceededError)
        fails = isinstance(error, ModelUnavailableError) and not limited
        if fails and runtime.config.on_model_error == "raise":
            raise
        log.warning("the profile of %r waits for a later evolve: %s", namespace, error)


def _check(runtime: Runtime, schema: type[BaseModel]) -> None:
    if runtime.model_name == RULES:
        raise ConfigurationError(
            "fill needs a language model; give AgenticMemory.open(model=…) one"
        )
    try:
        schema.model_validate({})
    except (PydanticUserError, ValidationError) as error:
        raise ConfigurationError(
            f"every field of {schema.__name__} needs a default, since a form begins empty: {error}"
        ) from error


async def _stored(runtime: Runtime, namespace: Namespace, schema: type[BaseModel]) -> Note | None:
    where = (Condition("kind", "$eq", FORM), Condition("key", "$eq", _key(schema)))
    found = await resolve(runtime.store.scan(namespace, where=where, limit=1))
    return found[0] if found else None


async def _unread(runtime: Runtime, namespace: Namespace, form: Note | None) -> list[Note]:
    """Return the next statements that a form was not filled from yet, oldest first."""
    read_to = form.metadata.get(READ_TO, -1) if form else -1
    where = (Condition("kind", "$eq", "statement"), Condition("seq", "$gt", read_to))
    pages = note_pages(runtime.store, namespace, where, size=PAGE, expired=False)
    return await anext(pages, [])


def _value(form: Note | None, schema: type[M]) -> M | None:
    """Return what a form holds; None if nothing is filled.

    Raises:
        InvalidInputError: Somebody wrote something else into the note.
    """
    if form is None or form.content == EMPTY:
        return None
    try:
        return schema.model_validate(_held(form))
    except ValidationError as error:
        raise _spoilt(form) from error


def _key(schema: type[BaseModel]) -> str:
    return "profile" if schema is Profile else f"schema:{schema.__name__}"


def _expires_with(notes: Iterable[Note]) -> datetime | None:
    """Return when a form that was filled from these notes expires: with the first of them."""
    return min((note.expires_at for note in notes if note.expires_at), default=None)


def _held(form: Note | None) -> dict[str, Any]:
    """Return the fields that are filled.

    Raises:
        InvalidInputError: Somebody wrote something else into the note.
    """
    if form is None:
        return {}
    try:
        held = json.loads(form.content)
    except ValueError as error:
        raise _spoilt(form) from error
    if not isinstance(held, dict):
        raise _spoilt(form)
    return held


def _spoilt(form: Note) -> InvalidInputError:
    return InvalidInputError(
        f"note {form.id!r} does not hold its form any more; correct it, or delete it to fill the form anew"
    )


@dataclass(frozen=True, slots=True)
class _Filling:
    """One call: some notes, and what they change in the form."""

    runtime: Runtime
    namespace: Namespace
    schema: type[BaseModel]
    form: Note | None

    async def read(self, notes: Sequence[Note]) -> Note | None:
        """Have notes read, and return the note of the form as it is then."""
        runtime, held, alias = self.runtime, _held(self.form), aliases(notes, "n")
        op, since, at = new_operation(), clock.tick(), now()
        async with counting(runtime, self.namespace, op, at) as asking:
            reply = await ask(
                asking,
                "profile" if self.schema is Profile else "fill",
                FillReply,
                template="fill",
                namespace=self.namespace,
                inputs={"notes": [raw(note, alias[note.id]) for note in notes], "value": held},
                values={
                    "schema": json.dumps(self.schema.model_json_schema(), ensure_ascii=False),
                    "value": json.dumps(held, ensure_ascii=False),
                    "notes": turns(notes, alias),
                },
                problem_with=self._problem,
            )
            if problem := self._problem(reply):
                raise ModelReplyError(
                    f"{runtime.model_name} filled {self.schema.__name__} wrongly: {problem}"
                )
            named = {one.strip("[]() ") for one in reply.of}
            shows = [note for note in notes if alias[note.id] in named] or notes
            shown = [*(note.id for note in notes), *(self.form.sources if self.form else ())]
            records = [
                *prompt_records(op, self.namespace, shown, at, since=since, apart=True),
                *usage_records(op, self.namespace, asking.usage.cost(), at),
            ]
            await self._write(op, self._filled(reply), shows, notes[-1].seq, records)
        await remove_what_is_gone(runtime, self.namespace, {n.id: n for n in notes}, since)
        return await _stored(runtime, self.namespace, self.schema)

    def _filled(self, reply: FillReply) -> dict[str, Any]:
        """Return the fields as they are with a reply.

        Raises:
            ValidationError: They do not fit the schema.
        """
        merged = {**_held(self.form), **reply.value}
        given = {name: value for name, value in merged.items() if value is not None}
        made = self.schema.model_validate(given)
        return made.model_dump(mode="json", exclude_unset=True)

    def _problem(self, reply: FillReply) -> str | None:
        try:
            self._filled(reply)
        except ValidationError as error:
            return "; ".join(f"{e['loc']}: {e['msg']}" for e in error.errors()[:3])
        return None

    async def _write(
        self,
        op: str,
        value: Mapping[str, Any],
        shows: Sequence[Note],
        seq: int,
        records: list[Change],
    ) -> None:
        """Write the form, and how far was read; where it stays as it was, the history gets nothing but the cost."""
        content = json.dumps(value, ensure_ascii=False)
        if (form := self.form) is None:
            await self._insert(op, content, shows if value else (), seq, records)
            return
        shown, end = tuple(note.id for note in shows), _expires_with([form, *shows])

        def edit(note: Note) -> tuple[Note, list[Change]]:
            if (note.content, note.metadata) != (form.content, form.metadata):
                return (
                    note,
                    [],
                )  # somebody else has filled it meanwhile: what they did not read is read again
            revised, made = update(op, now(), {"content": content})(note)
            values: dict[str, Any] = {"metadata": {**note.metadata, READ_TO: seq}}
            if made:
                sources = tuple(dict.fromkeys((*note.sources, *shown)))
                values |= {"sources": sources, "expires_at": end}
            return revised.revised(**values), [self._by_model(one, content, shown) for one in made]

        await rewrite(self.runtime, self.namespace, op, {form.id: edit}, records=records)

    def _by_model(self, made: Change, text: str, sources: Sequence[str]) -> Change:
        made = replace(made, cause=sources[0], model=self.runtime.model_name)
        return made.with_data(text=text, sources=list(sources))

    async def _insert(
        self, op: str, content: str, shows: Sequence[Note], seq: int, records: list[Change]
    ) -> None:
        at, sources = clock.tick(), tuple(note.id for note in shows)
        form = Note(
            id=derive("form", self.namespace, _key(self.schema)),
            seq=at,
            namespace=self.namespace,
            content=content,
            recorded_at=time_of(at),
            source="derived",
            kind=FORM,
            key=_key(self.schema),
            sources=sources,
            expires_at=_expires_with(shows),
            state="done",
            ops=(op,),
            metadata={READ_TO: seq},
        )
        made = change(op, "add", form, recorded_at=form.recorded_at)
        added = self._by_model(made, content, sources) if sources else made
        items = await indexed(self.runtime, [form])
        await resolve(self.runtime.store.insert(self.namespace, items, [*records, added]))
