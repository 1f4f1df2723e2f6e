"""Ask a chat model: the one place where a model is called, with what it was shown and what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any, Generic, TypeVar

from .. import texts
from ..config import MemoryConfig
from ..decisions import Call, Decision, Item, ItemKind, ModelCall, Stage, slot_id
from ..errors import (
    AmemError,
    ConfigurationError,
    ModelReplyError,
    ModelUnavailableError,
    StoreError,
    model_error,
)
from ..ids import new_operation, new_token
from ..journal.commit import commit
from ..journal.writer import Writer
from ..notes import Namespace, Note, Wording, storable
from ..plans import EvolutionReport, PlannedNote
from ..ports import Completion, ModelRequest
from ..prompts import PARTED, TEMPLATES
from ..prompts.parse import parse
from ..prompts.replies import Reply
from ..runtime import RULES, Runtime, log, resolve
from .sources import SourceFinder

M = TypeVar("M", bound=Reply)

OWN = """

The user of this memory asks for this as well; follow it, but for the form of the answer:
<instructions>
{}
</instructions>"""
# Tokens are estimated from the length of the text, and a second try says what was wrong.
MARGIN = 1.2
MOST_REFUSED = 3  # notes in a row that were refused alone, after which the rest of a batch is left
AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""
TRIES = 2


@dataclass(slots=True)
class OpenCall:
    """The work on one batch while it goes on: what the model was shown, what its answers cost, and what went wrong.

    Attributes:
        notes: The new notes that are worked on, of one thread, in order of seq, with their entries as soon as they have
            some; none for a form.
        before: The turns before them, oldest first.
        shown: The wordings that the model was shown.
        seen: Finds among what the model was shown the texts that an answer was made of.
        cost: The calls of the model that were answered.
        failed: By note id, why the model gave nothing usable about a note.
        error: Why the model or the embedder did not answer about all notes, if it did not.
        plans: The links and updates that are proposed for the notes.
        about: By id, the notes that the plans are about.
        decisions: What was decided so far, and is to be written.
        report: What of that was written.
        written: By id, the notes as they are then.
    """

    runtime: Runtime
    namespace: Namespace
    notes: Sequence[Note] = ()
    before: Sequence[Note] = ()
    id: str = field(default_factory=new_operation)
    seq: int = 0
    shown: set[Wording] = field(default_factory=set)
    seen: SourceFinder = field(default_factory=SourceFinder)
    cost: list[ModelCall] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    error: ModelUnavailableError | ConfigurationError | None = None
    plans: Sequence[PlannedNote] = ()
    about: Mapping[str, Note] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    report: EvolutionReport = field(default_factory=EvolutionReport)
    written: Mapping[str, Note] = field(default_factory=dict)
    is_written: bool = False

    def __post_init__(self) -> None:
        """Begin at the present of the memory, if no other instant is given."""
        self.seq = self.seq or self.runtime.clock.tick()

    def record(self) -> Call:
        """Return the call as it is written with its decisions."""
        return Call(
            id=self.id,
            token=new_token(),
            namespace=self.namespace,
            by=self.runtime.model_name,
            seq=self.seq,
            shown=tuple(sorted(self.shown)),
            cost=tuple(self.cost),
        )

    def decide(
        self, note: Note | Wording, stage: Stage, items: Iterable[Item], attempt: int = 0
    ) -> Decision:
        """Return one decision: the items that the call gives a wording of a note, or a form.

        `attempt` is that of a form; a note knows its own.
        """
        if isinstance(note, Note):
            attempt = getattr(note.next_attempts, stage)
        return Decision(
            id=slot_id(note.id, stage, note.rev, attempt),
            token=new_token(),
            namespace=self.namespace,
            call=self.id,
            note=note.id,
            rev=note.rev,
            stage=stage,
            attempt=attempt,
            seq=self.runtime.clock.tick(),
            at=note.when if isinstance(note, Note) else self.runtime.clock.now(),
            items=tuple(items),
        )

    async def take(self, step: Callable[..., Awaitable[object]], *given: object) -> None:
        """Take a step; if the model does not answer, such as with a key that was revoked, take no further ones."""
        if self.error is None:
            try:
                await step(self, *given)
            except (ModelUnavailableError, ConfigurationError) as error:
                self.error = error


@asynccontextmanager
async def charged(calls: Sequence[OpenCall]) -> AsyncIterator[None]:
    """After an error, write alone the cost of each call that was not committed."""
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt):
        with suppress(StoreError):  # the caller is told what failed first
            for call in calls:
                await _write_cost(call)
        raise


async def _write_cost(call: OpenCall) -> None:
    """Write the cost of a call from which no decision came."""
    if call.cost and not call.is_written:
        await resolve(call.runtime.store.insert_records(call.namespace, [call.record()]))


async def write_call(call: OpenCall, writer: Writer) -> None:
    """Write the decisions of a call, but those that were made before or that rest on a text that is gone."""
    if not call.decisions:
        await _write_cost(call)
        return
    call.is_written = True
    made = await commit(writer, call.record(), call.decisions)
    call.written = {i: one.note for i, one in made.notes.items() if one.note is not None}
    inserted = sorted(made.decisions.values(), key=lambda one: one.seq)
    standing = [one for one in inserted if not one.void]
    call.report += _report(standing)
    for note_id, why in _report(standing).failed.items():
        log.warning("note %s could not be finished: %s", note_id, why)
        times = call.written[note_id].attempts if note_id in call.written else 0
        if times >= call.runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", times)


def _report(decisions: Sequence[Decision]) -> EvolutionReport:
    """Return the report of the changes that decisions made."""
    items = [(one, item) for one in decisions for item in one.items]

    def ends(kind: ItemKind) -> list[str]:
        return [item.to for _, item in items if item.is_on and item.kind == kind]

    return EvolutionReport(
        constructed=tuple(one.note for one in decisions if one.stage == "construct"),
        done=tuple(one.note for one in decisions if one.stage == "link"),
        links=len(ends("link")),
        relinked=len(ends("relink")),
        evolved=tuple(dict.fromkeys(ends("sentence"))),
        superseded=tuple(dict.fromkeys(ends("supersession"))),
        proposals=tuple(f"{o.id}:{i.number}" for o, i in items if i.switch == "waiting"),
        failed={one.note: item.text for one, item in items if item.kind == "failure"},
    )


def decide_failures(call: OpenCall, notes: Iterable[Note]) -> None:
    """Decide that notes could not be finished, and why; a reason may quote what was shown."""
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
            call.decisions.append(call.decide(note, "failure", [item]))


class RefusedError(ModelReplyError):
    """The model does not take a request: it is too long, or some text of it is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[M]):
    """A question to a model.

    Attributes:
        task: The task, under which calls and tokens are counted.
        reply: The form of the reply.
        shown: The notes that stand in the prompt.
        inputs: The plain data that the prompt is made of.
        values: The texts that fill the template of the task.
        alias: What the new notes are called in the prompt, by id; a reply may have something about each.
        problem_with: Says why a reply has to be given again; None: the reply can be used.
        template: The task whose template is filled, if that is another one.
        contexts: Whether the notes are shown with their contexts.
        room: How many tokens the reply may have.
    """

    task: str
    reply: type[M]
    shown: Sequence[Note]
    inputs: Mapping[str, Any]
    values: Mapping[str, str]
    alias: Mapping[str, str] = field(default_factory=dict)
    problem_with: Callable[[M], str | None] = lambda _: None
    template: str = ""
    contexts: bool = True
    room: int = 0


async def ask(call: OpenCall, question: Question[M]) -> M:
    """Return the model's reply to a question.

    The model is asked once more if its reply cannot be read, or if there is a problem with the reply. What only the first
    reply says of some notes is kept, and a reply with a problem is returned, since a part of an answer is worth keeping.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model gave no answer.
        BudgetExceededError: The call would go over a limit of the namespace.
    """
    runtime, task = call.runtime, question.task
    call.shown.update(Wording(note.id, note.rev) for note in question.shown)
    call.seen.show(question.shown, contexts=question.contexts)
    system, prompt = render(runtime.config, question.template or task, **question.values)
    request = ModelRequest(
        task=task, system=system, prompt=prompt, reply=question.reply, inputs=question.inputs
    )
    reply, problem = None, None
    for _ in range(TRIES):
        completion = await _generate(call, request)
        try:
            latest = parse(completion.text, question.reply)
        except ModelReplyError as error:
            problem = str(error)
        else:
            reply = latest.after(reply) if reply else latest
            problem = question.problem_with(reply)
        tokens = completion.input_tokens, completion.output_tokens
        runtime.usage.count(task, calls=1, input_tokens=tokens[0], output_tokens=tokens[1])
        if runtime.model_name != RULES:
            call.cost.append(ModelCall(task, *tokens))
        if not problem:
            break
        runtime.usage.count(task, rejected_replies=1)
        request = replace(request, prompt=prompt + AGAIN.format(problem=problem))
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


async def ask_in_parts(
    call: OpenCall,
    parts: Iterable[Sequence[Note]],
    question_of: Callable[[Sequence[Note], int], Question[M] | None],
) -> AsyncIterator[tuple[Sequence[Note], M]]:
    """Yield new notes that the model was asked about, each part with the reply.

    A part that is too long is asked about in halves, and a single note with less beside it. What an answer that broke off
    did not come to is asked about next. The call knows the notes of the parts without a usable reply. After `MOST_REFUSED`
    notes in a row were refused alone, the model is asked about no more of the parts.

    Args:
        call: The work on the batch.
        parts: The new notes that the model is to be asked about.
        question_of: Gives the question about some notes; at each higher level with less beside them. None: there is none.

    Raises:
        ModelUnavailableError: The model gave no answer.
        BudgetExceededError: A call would go over a limit of the namespace.
    """
    waiting, refused_alone = [(part, 0) for part in parts], 0
    while waiting:
        part, level = waiting.pop(0)
        if (question := question_of(part, level)) is None:
            continue
        half = len(part) // 2
        smaller = [(part[:half], level), (part[half:], level)] if half else [(part, level + 1)]
        if not half and question_of(part, level + 1) is None:
            smaller = []
        try:
            if smaller and not _fits(call.runtime, question):
                raise RefusedError(f"the request to {question.task} is too long")
            reply = await ask(call, question)
        except ModelReplyError as error:
            is_refused = isinstance(error, RefusedError)
            if is_refused and smaller:
                waiting[:0] = smaller
                continue
            refused_alone += is_refused
            failing = [(part, level), *(waiting if refused_alone == MOST_REFUSED else ())]
            call.failed |= {note.id: str(error) for notes, _ in failing for note in notes}
            waiting = [] if refused_alone == MOST_REFUSED else waiting
        else:
            refused_alone, named = 0, {*reply.named}
            strange = len(reply.named) - len(named & {question.alias.get(n.id) for n in part})
            call.runtime.usage.count(question.task, dropped=strange)
            yield part, reply
            left = [note for note in part if question.alias.get(note.id) not in named]
            if reply.is_cut and len(left) < len(part):
                waiting[:0] = [(left, level)] if left else []


async def _generate(call: OpenCall, request: ModelRequest) -> Completion:
    """Return the model's answer, within the limits of the day; this is the only place where a model is called.

    The answer is empty if the model gave no text, and has no tokens if the model counts badly.
    """
    asked = texts.count_tokens(request.system) + texts.count_tokens(request.prompt)
    runtime = call.runtime
    with runtime.budget.call(call.namespace, asked) as costs:
        async with runtime.calling():
            given = await _answer(runtime, request)
        said = getattr(given, "text", None)
        text = storable(said) if isinstance(said, str) else ""
        counts = [getattr(given, name, 0) for name in ("input_tokens", "output_tokens")]
        tokens = [n if isinstance(n, int) and n > 0 else 0 for n in counts]
        if not any(tokens) and runtime.model_name != RULES:
            # The endpoint reports no tokens; with an estimate limits hold.
            tokens = [asked, texts.count_tokens(text)]
        costs.append(sum(tokens))
    return Completion(text=text, input_tokens=tokens[0], output_tokens=tokens[1])


async def _answer(runtime: Runtime, request: ModelRequest) -> object:
    try:
        return await resolve(runtime.model.generate(request))
    except Exception as raised:
        error = raised
        if not isinstance(raised, AmemError):  # a model is anybody's code
            error = model_error(f"the model {runtime.model_name} (asked to {request.task})", raised)
        is_refused = isinstance(error, ModelReplyError)
        runtime.usage.count(request.task, **{"refused" if is_refused else "unavailable": 1})
        if is_refused:
            error = RefusedError(str(error))
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


def _fits(runtime: Runtime, question: Question[M]) -> bool:
    """Return whether the prompt of a question and its reply have room in what the model can take."""
    most = runtime.config.context_tokens or getattr(runtime.model, "context_tokens", None)
    if not most:
        return True
    task = question.template or question.task
    asked = sum(map(texts.count_tokens, render(runtime.config, task, **question.values)))
    return asked * MARGIN + question.room <= most
