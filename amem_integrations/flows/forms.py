"""Forms: pydantic models that are filled from what was said and kept current, of the user's own and `Profile`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, PydanticUserError, ValidationError

from ..decisions import Item, form_id
from ..errors import BudgetExceededError, ConfigurationError, ModelReplyError, ModelUnavailableError
from ..evolution.ask import Question, ask
from ..evolution.call import OpenCall, charged, write_call
from ..evolution.show import aliases, raw, turns
from ..fetch import note_pages
from ..filters import parse
from ..ids import now
from ..notes import Namespace, Note, Wording, check_namespace
from ..ports import RecordQuery
from ..prompts.replies import FillReply
from ..runtime import RULES, Runtime, log
from .writing import finish, writer_of, writing

M = TypeVar("M", bound=BaseModel)
Said = list[str]

PAGE = 20  # notes read by one call


class Profile(BaseModel):
    """Who the user is, the person that speaks as the user.

    Each field is a list of at most ten short statements in the third person, of what is so now: those that tell most.
    """

    facts: Said = Field([], description="name, age, home, family, health, and what else lasts")
    tastes: Said = Field([], description="what the user likes and dislikes")
    plans: Said = Field([], description="what the user is going to do or wants, with dates")
    people: Said = Field([], description="who matters to the user, by name, and how")
    work: Said = Field([], description="what the user does for a living, studies or makes")

    def __str__(self) -> str:
        """Return the fields that hold something as text, a line each."""
        lines = {name: "; ".join(" ".join(one.split()) for one in said) for name, said in self}
        return "\n".join(f"- {name}: {line}" for name, line in lines.items() if line)


async def fill(runtime: Runtime, schema: type[M], *, namespace: Sequence[str]) -> M | None:
    """Return a form of your own, such as preferences, filled from all that was said so far.

    The language model reads the statements that were added since the last call, twenty at a time, and says which fields
    they change; pydantic checks the result. `history` shows each change of the form, and `undo` takes it back. No search
    finds it. If a note that the form was filled from is corrected or deleted, or expires, what was filled since goes, and
    the next call fills it anew from what is left. What does not pass the check is asked for once more; then the form stays
    as it was, and the next call tries again.

    Args:
        schema: A pydantic model whose fields have defaults; its name says which form of the namespace it is.
        namespace: Whose memory.

    Returns None if nothing was said yet that it could be filled from.

    Raises:
        ConfigurationError: There is no language model, or `schema` is none, cannot be empty, or does not read what it
            writes.
        ModelReplyError: The model gave no usable answer twice; what was filled before stays.
        ModelUnavailableError: The model did not answer; what was filled before stays.
        BudgetExceededError: A limit of the day is reached.
    """
    space = check_namespace(namespace)
    if runtime.model_name == RULES:
        raise ConfigurationError("fill needs a language model: AgenticMemory.open(model=…)")
    if not isinstance(schema, type) or not issubclass(schema, BaseModel):
        raise ConfigurationError(
            f"schema={schema!r} must be a class made from pydantic's BaseModel"
        )
    try:
        schema.model_validate({})
        schema.model_json_schema()
    except (PydanticUserError, ValidationError) as error:
        raise ConfigurationError(
            f"every field of {schema.__name__} needs a default, since a form begins empty, and a JSON schema: {error}"
        ) from error
    await finish(runtime, space)  # what was filled is asked of no model again
    form = await _read(runtime, space, schema)
    while notes := await _unread(runtime, space, form):
        call = OpenCall(runtime, space)
        async with charged([call]):
            await _fill_from(call, form, notes)
        form = await _read(runtime, space, schema)
    return form.value()


async def profile(runtime: Runtime, *, namespace: Sequence[str]) -> Profile | None:
    """Return the profile of the user, as the last `evolve` of a memory with `MemoryConfig(profile=True)` wrote it.

    The profile is a form (see `fill`), written from the statements that are new by a call of the model, or one for
    twenty of them. It is None before anything was written, in a memory without a language model, and after a note that
    all of it was filled from was corrected or deleted or has expired, until the next `evolve` that finishes a note.

    Raises:
        NamespaceError: The namespace is missing or malformed.
    """
    space = check_namespace(namespace)
    return None if runtime.model_name == RULES else (await _read(runtime, space, Profile)).value()


async def write_profile(runtime: Runtime, namespace: Namespace) -> None:
    """Bring the profile up to date, if the settings want one.

    Raises:
        ModelUnavailableError: Only with `on_model_error="raise"`; what was said before stays as it is.
    """
    if not runtime.config.profile or runtime.model_name == RULES:
        return
    try:
        await fill(runtime, Profile, namespace=namespace)
    except (ModelReplyError, ModelUnavailableError) as error:
        is_down = not isinstance(error, ModelReplyError | BudgetExceededError)
        if is_down and runtime.config.on_model_error == "raise":
            raise
        log.warning("the profile of %r waits for a later evolve: %s", namespace, error)


@dataclass(frozen=True, slots=True)
class _Form(Generic[M]):
    """A form as it stands.

    Attributes:
        schema: The model that the form is a value of.
        id: The id that the form is read by.
        attempt: The number of the next try to fill it.
        read_to: The seq of the last note that was read for it.
        item: What was filled last and stands; None: the form is empty.
    """

    schema: type[M]
    id: str
    attempt: int
    read_to: int
    item: Item | None

    @property
    def held(self) -> dict[str, Any]:
        """The fields that are filled."""
        return dict(json.loads(self.item.text)) if self.item else {}

    def value(self) -> M | None:
        """Return the filled fields, or None if no field is filled."""
        return self.schema.model_validate(self.held) if self.held else None

    def filled(self, reply: FillReply) -> dict[str, Any]:
        """Return the fields as a reply changes them; a `ValidationError` says that they do not fit the schema."""
        merged = {**self.held, **reply.value}
        given = {name: value for name, value in merged.items() if value is not None}
        form = self.schema.model_validate(given)
        held = form.model_dump(mode="json", exclude_unset=True, by_alias=True, round_trip=True)
        # A form that the schema could not read would make every fill ask about the same notes again.
        read = self.schema.model_validate(held)
        if read.model_dump(exclude_unset=True) != form.model_dump(exclude_unset=True):
            raise ConfigurationError(
                f"{self.schema.__name__} reads something else than it writes: a field of a form has one alias for "
                "both, holds no secret, and a validator leaves alone what it has returned"
            )
        return held

    def problem(self, reply: FillReply) -> str | None:
        """Return why a reply does not fit the schema; None: it fits."""
        try:
            self.filled(reply)
        except ValidationError as error:
            return "; ".join(f"{e['loc']}: {e['msg']}" for e in error.errors()[:3])
        return None


async def _read(runtime: Runtime, namespace: Namespace, schema: type[M]) -> _Form[M]:
    """Return a form as it stands: the newest attempt that is switched on, and whose text and sources are still there.

    An attempt that was undone has read its notes all the same; one that is void has not, so they are read again.
    """
    identity = form_id(namespace, _name(schema))
    found = await writer_of(runtime, namespace).decisions(RecordQuery(note=identity))
    made = sorted(found.values(), key=lambda one: one.attempt)
    items = [item for one in made if one.shows for item in one.items if _stands(item, schema)]
    return _Form(
        schema,
        identity,
        attempt=made[-1].attempt + 1 if made else 0,
        read_to=max((item.data["read_to"] for item in items), default=-1),
        item=next((item for item in reversed(items) if item.is_on), None),
    )


def _stands(item: Item, schema: type[BaseModel]) -> bool:
    """Return whether what was filled has not expired, and fits the schema, which may be another one by now."""
    try:
        schema.model_validate_json(item.text)
    except ValidationError:
        return False
    ends = item.data.get("expires_at")
    return ends is None or datetime.fromisoformat(ends) > now()


def _name(schema: type[BaseModel]) -> str:
    return "profile" if schema is Profile else f"schema:{schema.__name__}"


async def _unread(runtime: Runtime, namespace: Namespace, form: _Form[M]) -> list[Note]:
    """Return the next statements that a form was not filled from yet, oldest first."""
    where = {"kind": "statement", "origin": "conversation", "seq": {"$gt": form.read_to}}
    pages = note_pages(runtime.store, namespace, parse(where), size=PAGE, expired=False)
    return await anext(pages, [])


async def _fill_from(call: OpenCall, form: _Form[M], notes: Sequence[Note]) -> None:
    """Have notes read by one call, and write what they change in a form, and how far was read."""
    alias, schema, before = aliases(notes, "n"), form.schema, form.held
    question = Question(
        task="profile" if schema is Profile else "fill",
        reply=FillReply,
        template="fill",
        shown=notes,
        inputs={"notes": [raw(note, alias[note.id]) for note in notes], "value": before},
        values={
            "schema": json.dumps(schema.model_json_schema(), ensure_ascii=False),
            "value": json.dumps(before, ensure_ascii=False),
            "notes": turns(notes, alias),
        },
        problem_with=form.problem,
        contexts=False,
    )
    reply = await ask(call, question)
    model = call.runtime.model_name
    if problem := form.problem(reply):
        raise ModelReplyError(f"{model} filled {schema.__name__} wrongly: {problem}")
    held, data = form.filled(reply), {"form": _name(schema), "read_to": notes[-1].seq}
    text = json.dumps(held, ensure_ascii=False)
    sources = set(form.item.sources) if form.item else set[Wording]()
    ends = [form.item.data["expires_at"]] if form.item and "expires_at" in form.item.data else []
    if held != before:
        shows = [note for note in notes if alias[note.id] in reply.of] or notes
        made_of = {*call.seen.sources_of([text], shows)}
        sources |= made_of
        ends += [
            note.expires_at.isoformat()
            for note in notes
            if note.expires_at and Wording(note.id, note.rev) in made_of
        ]
    if ends:
        data["expires_at"] = min(ends, key=datetime.fromisoformat)
    made = tuple(sorted(sources))
    item = Item(kind="form", to=form.id, by=model, text=text, sources=made, data=data)
    call.decisions = [call.decide(Wording(form.id, 0), "form", [item], form.attempt)]
    async with writing(call.runtime, call.namespace, model) as writer:
        await write_call(call, writer)
