"""Ask a chat model: the one place where a model is called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any, Generic, TypeVar

from .. import texts
from ..config import MemoryConfig
from ..decisions import ModelCall
from ..errors import AmemError, ModelReplyError, model_error
from ..notes import Note, Wording, storable
from ..ports import Completion, ModelRequest
from ..prompts import PARTED, TEMPLATES
from ..prompts.parse import parse
from ..prompts.replies import Reply
from ..runtime import RULES, Runtime, resolve
from .call import OpenCall

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
        smaller = _smaller(part, level, question_of)
        try:
            if smaller and not _fits(call.runtime, question):
                raise RefusedError(f"the request to {question.task} is too long")
            reply = await ask(call, question)
        except ModelReplyError as error:
            is_refused = isinstance(error, RefusedError)
            if is_refused and smaller:
                waiting[:0] = smaller
                continue
            failing, refused_alone = [part], refused_alone + is_refused
            if refused_alone == MOST_REFUSED:
                failing += [rest for rest, _ in waiting]
                waiting = []
            call.failed |= {note.id: str(error) for notes in failing for note in notes}
        else:
            refused_alone, named = 0, {*reply.named}
            strange = len(reply.named) - len(named & {question.alias.get(n.id) for n in part})
            call.runtime.usage.count(question.task, dropped=strange)
            yield part, reply
            left = [note for note in part if question.alias.get(note.id) not in named]
            if reply.is_cut and len(left) < len(part):
                waiting[:0] = [(left, level)] if left else []


def _smaller(
    part: Sequence[Note],
    level: int,
    question_of: Callable[[Sequence[Note], int], Question[M] | None],
) -> list[tuple[Sequence[Note], int]]:
    """Return the halves of a part, or a single note at the next level, if there is a question about it."""
    if half := len(part) // 2:
        return [(part[:half], level), (part[half:], level)]
    return [] if question_of(part, level + 1) is None else [(part, level + 1)]


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
