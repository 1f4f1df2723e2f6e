"""Ask a chat model: the one place where a model is called, with what it was shown and what it cost."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from string import Template
from typing import Any, TypeVar

from pydantic import BaseModel

from .. import texts
from ..config import PARTED, MemoryConfig
from ..decisions import Call, Decision, Item, Source, Stage, slot_id
from ..errors import (
    AmemError,
    ConfigurationError,
    ModelReplyError,
    ModelUnavailableError,
    StoreError,
    model_error,
)
from ..ids import new_operation, new_token
from ..journal.commit import commit as write
from ..journal.writer import Writer
from ..notes import Namespace, Note, storable
from ..plans import EvolutionReport, ModelCall
from ..ports import Completion, ModelRequest
from ..prompts import TEMPLATES
from ..prompts.parse import parse
from ..runtime import RULES, Runtime, resolve
from .sources import SourceFinder

M = TypeVar("M", bound=BaseModel)

log = logging.getLogger("amem_integrations")

OWN = """

The user of this memory asks for this as well; follow it, but for the form of the answer:
<instructions>
{}
</instructions>"""
MARGIN = (
    1.2  # tokens are estimated from the length of the text, and a second try says what was wrong
)
AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""
TRIES = 2


@dataclass(slots=True)
class OpenCall:
    """The work on one batch while it goes on: what the model was shown, what its answers cost, and what went wrong.

    Attributes:
        shown: The wordings that the model was shown.
        seen: Finds among what the model was shown the texts that an answer was made of.
        failed: By note id, why the model gave nothing usable about a note.
        error: Why the model did not answer about all notes, if it did not.
    """

    runtime: Runtime
    namespace: Namespace
    id: str = field(default_factory=new_operation)
    seq: int = 0
    shown: set[Source] = field(default_factory=set)
    seen: SourceFinder = field(default_factory=SourceFinder)
    model_calls: list[ModelCall] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | ConfigurationError | None = None
    is_written: bool = False

    def __post_init__(self) -> None:
        """Begin at the present of the memory, if no other instant is given."""
        self.seq = self.seq or self.runtime.clock.tick()

    def record(self) -> Call:
        """Return the call as it is written with its decisions."""
        costs = [{name: v for name, v in asdict(one).items() if v} for one in self.model_calls]
        return Call(
            id=self.id,
            token=new_token(),
            namespace=self.namespace,
            by=self.runtime.model_name,
            seq=self.seq,
            shown=tuple(sorted(self.shown)),
            data={"model_calls": costs} if costs else {},
        )

    def decide(
        self, note: Note | Source, stage: Stage, items: Iterable[Item], attempt: int | None = None
    ) -> Decision:
        """Return one decision: the items that the call gives a wording of a note, or a form.

        `attempt` is that of a form; a note knows its own.
        """
        if isinstance(note, Note):
            attempt = getattr(note.next_attempts, stage)
        return Decision(
            id=slot_id(note.id, stage, note.rev, attempt or 0),
            token=new_token(),
            namespace=self.namespace,
            call=self.id,
            note=note.id,
            rev=note.rev,
            stage=stage,
            attempt=attempt or 0,
            seq=self.runtime.clock.tick(),
            at=note.when if isinstance(note, Note) else self.runtime.clock.now(),
            items=tuple(items),
        )

    @contextmanager
    def noting_errors(self) -> Iterator[None]:
        """Note in `error` that the model does not answer, such as with a key that was revoked, and go on after the block."""
        try:
            yield
        except (ModelUnavailableError, ConfigurationError) as error:
            self.error = error


@asynccontextmanager
async def open_calls(
    runtime: Runtime, namespace: Namespace, count: int = 1
) -> AsyncIterator[list[OpenCall]]:
    """Yield so many calls; in the end, what one has cost that nobody has written is written alone, also after an error."""
    calls = [OpenCall(runtime, namespace) for _ in range(count)]
    try:
        yield calls
    except AmemError:
        with suppress(StoreError):  # the caller is told what failed first
            await write_costs(calls)
        raise
    await write_costs(calls)


async def write_costs(calls: Iterable[OpenCall]) -> None:
    """Write what calls have cost of which nothing else came."""
    for call in calls:
        if call.model_calls and not call.is_written:
            call.is_written = True
            store = call.runtime.store
            await resolve(store.insert_records(call.namespace, [call.record()]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of work on some notes: the notes as they are now, the report, and the reason of a stop."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    error: ModelUnavailableError | ConfigurationError | None = None

    def __add__(self, other: Outcome) -> Outcome:
        """Return the outcome of this work followed by the other's."""
        notes, report = {**self.notes, **other.notes}, self.report + other.report
        return Outcome(notes=notes, report=report, error=self.error or other.error)


async def commit(call: OpenCall, writer: Writer, decisions: Sequence[Decision]) -> Outcome:
    """Write what a call decided; what was decided before, or was made of a text that is gone, is left out."""
    if not decisions:
        return Outcome()
    call.is_written = True
    made = await write(writer, call.record(), decisions)
    notes = {i: one.note for i, one in made.notes.items() if one.note is not None}
    inserted = sorted(made.decisions.values(), key=lambda one: one.seq)
    standing = [one for one in inserted if not one.void]
    for one in standing:
        if one.stage == "failure":
            log.warning("note %s could not be finished: %s", one.note, one.items[0].text)
            times = notes[one.note].attempts if one.note in notes else 0
            if times >= call.runtime.config.max_attempts:
                log.warning("it failed %d times; only evolve(retry=True) tries it again", times)
    return Outcome(notes=notes, report=_report(standing))


def _report(decisions: Sequence[Decision]) -> EvolutionReport:
    """Return the report of the changes that decisions made."""
    items = [(one, item) for one in decisions for item in one.items]
    on = [item for _, item in items if item.is_on]
    targets = {
        kind: [item.to for item in on if item.kind == kind]
        for kind in ("link", "relink", "sentence", "supersession")
    }
    return EvolutionReport(
        constructed=tuple(one.note for one in decisions if one.stage == "construct"),
        done=tuple(one.note for one in decisions if one.stage == "link"),
        links=len(targets["link"]),
        relinked=len(targets["relink"]),
        evolved=tuple(dict.fromkeys(targets["sentence"])),
        superseded=tuple(dict.fromkeys(targets["supersession"])),
        proposals=tuple(f"{o.id}:{i.number}" for o, i in items if i.switch == "waiting"),
        failed={one.note: item.text for one, item in items if item.kind == "failure"},
    )


def failures(call: OpenCall, notes: Sequence[Note]) -> list[Decision]:
    """Return the decisions that say why notes could not be finished; a reason may quote what was shown."""
    made = []
    for note in notes:
        if note.id in call.failed:
            text = storable(call.failed[note.id])
            item = Item(
                kind="failure",
                to=note.id,
                by=call.runtime.model_name,
                text=text,
                sources=call.seen.sources_of([text], [note]),
                data={"stage": "construct" if note.own_entry is None else "link"},
            )
            made.append(call.decide(note, "failure", [item]))
    return made


class RefusedError(ModelReplyError):
    """The model does not take a request: it is too long, or some text of it is not allowed."""


async def ask(
    call: OpenCall,
    task: str,
    wanted: type[M],
    *,
    shown: Iterable[Note],
    inputs: Mapping[str, Any],
    values: Mapping[str, str],
    problem_with: Callable[[M], str | None] = lambda _: None,
    template: str = "",
    contexts: bool = True,
) -> M:
    """Return the model's reply to the prompt of `task` (or of another, `template`), filled with `values`.

    A reply that cannot be read, or with which `problem_with` finds a problem, is asked for once more. If neither is
    complete, the last one that can be read is returned: what it has is worth keeping. `shown` are the notes that stand
    in the prompt, with their `contexts` or without.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model gave no answer.
        BudgetExceededError: The call would go over a limit of the namespace.
    """
    notes, runtime = list(shown), call.runtime
    call.shown.update(Source(note.id, note.rev) for note in notes)
    call.seen.show(notes, contexts=contexts)
    system, prompt = render(runtime.config, template or task, **values)
    request = ModelRequest(task=task, system=system, prompt=prompt, reply=wanted, inputs=inputs)
    reply, problem = None, None
    for _ in range(TRIES):
        completion = await _generate(call, request)
        try:
            latest = parse(completion.text, wanted)
        except ModelReplyError as error:
            problem = str(error)
        else:
            reply, problem = latest, problem_with(latest)
        _count(call, task, completion, is_rejected=bool(problem))
        if not problem:
            break
        request = replace(request, prompt=prompt + AGAIN.format(problem=problem))
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


def _count(call: OpenCall, task: str, completion: Completion, *, is_rejected: bool) -> None:
    tokens = completion.input_tokens, completion.output_tokens
    usage = call.runtime.usage
    usage.count(task, calls=1, input_tokens=tokens[0], output_tokens=tokens[1])
    if is_rejected:
        usage.count(task, rejected_replies=1)
    if call.runtime.model_name != RULES:
        call.model_calls.append(ModelCall(task, *tokens, is_rejected=is_rejected))


async def _generate(call: OpenCall, request: ModelRequest) -> Completion:
    """Return the model's answer, within the limits of the day; this is the only place where a model is called."""
    asked = texts.count_tokens(request.system) + texts.count_tokens(request.prompt)
    runtime, costs = call.runtime, list[int]()
    budget = runtime.budget
    with nullcontext() if budget is None else budget.call(call.namespace, asked, costs):
        async with runtime.calling():
            completion = _checked(await _completion(runtime, request))
        if not (completion.input_tokens or completion.output_tokens or runtime.model_name == RULES):
            # The endpoint reports no tokens; with an estimate limits hold.
            answered = texts.count_tokens(completion.text)
            completion = replace(completion, input_tokens=asked, output_tokens=answered)
        costs.append(completion.input_tokens + completion.output_tokens)
    return completion


def _checked(given: object) -> Completion:
    """Return what a model gave as a completion: empty if it holds no text, without tokens if it counts badly.

    The text is as it can be stored: see `storable`.
    """
    text, *counts = (
        getattr(given, name, None) for name in ("text", "input_tokens", "output_tokens")
    )
    asked, answered = (n if isinstance(n, int) and n > 0 else 0 for n in counts)
    text = storable(text) if isinstance(text, str) else ""
    return Completion(text=text, input_tokens=asked, output_tokens=answered)


async def _completion(runtime: Runtime, request: ModelRequest) -> object:
    try:
        return await resolve(runtime.model.generate(request))
    except Exception as raised:
        error = raised
        if not isinstance(raised, AmemError):  # a model is anybody's code
            error = model_error(f"the model {runtime.model_name} (asked to {request.task})", raised)
        if isinstance(error, ModelReplyError):
            runtime.usage.count(request.task, refused=1)
            raise RefusedError(str(error)) from raised
        runtime.usage.count(request.task, unavailable=1)
        if error is raised:
            raise
        raise error from raised


def render(config: MemoryConfig, task: str, /, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    The system message is the same for all calls of a task, so that endpoints which keep the beginning of a prompt
    can do so.

    Raises:
        KeyError: There is no template for the task, or a placeholder of it has no value.
    """
    system, _, prompt = (config.prompts.get(task) or TEMPLATES[task]).partition(PARTED)
    own = OWN.format(config.instructions.strip()) if config.instructions else ""
    return Template(system.strip()).substitute() + own, Template(prompt.strip()).substitute(values)


def fits(runtime: Runtime, task: str, values: Mapping[str, str], reply: int) -> bool:
    """Return whether the prompt of a task and a reply of so many tokens have room in what the model can take."""
    most = runtime.config.context_tokens or getattr(runtime.model, "context_tokens", None)
    if not most:
        return True
    asked = sum(map(texts.count_tokens, render(runtime.config, task, **values)))
    return asked * MARGIN + reply <= most
