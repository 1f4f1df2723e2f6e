"""Ask a chat model about notes: how they are shown to it, and the typed reply; its error is shown to it once.

A prompt never shows an id: notes have short aliases, and a reply is resolved against the closed set shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import permutations
from string import Template
from typing import Any, TypeVar

from pydantic import BaseModel

from .. import texts
from ..changes.edits import usage_records
from ..errors import AmemError, ModelReplyError, ModelUnavailableError, StoreError
from ..notes import Link, Namespace, Note
from ..plans import Candidate
from ..ports import Completion, ModelRequest, Vector
from ..prompts import TEMPLATES
from ..prompts.parse import parse
from ..runtime import RULES, Runtime, resolve

M = TypeVar("M", bound=BaseModel)

AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""

# Longest part of one note in a prompt; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
CANDIDATE_CHARS = 400
CONTEXT_CHARS = 1200
TAGS_CHARS = 200
RELATION_CHARS = 40

Shown = dict[str, Any]


@asynccontextmanager
async def counting(
    runtime: Runtime, namespace: Namespace, op: str, at: datetime
) -> AsyncIterator[Runtime]:
    """Yield a runtime that counts what this operation costs, to be written with the rest of it.

    Where the operation fails, what it has cost is written alone.
    """
    asking = runtime.counting()
    try:
        yield asking
    except AmemError:
        if records := usage_records(op, namespace, asking.usage.cost(), at):
            with suppress(StoreError):  # the caller is told what failed first
                await resolve(runtime.store.replace(namespace, [], records))
        raise


def no_problem(_reply: object) -> str | None:
    """Accept every reply."""
    return None


async def ask(
    runtime: Runtime,
    task: str,
    wanted: type[M],
    *,
    namespace: Namespace,
    inputs: Mapping[str, Any],
    values: Mapping[str, str],
    problem_with: Callable[[M], str | None] = no_problem,
    attempts: int = 2,
) -> M:
    """Return the model's reply to the prompt of `task`, filled with `values`.

    A reply that cannot be read, or with which `problem_with` finds a problem, is asked for once more, unless only
    one of the `attempts` is allowed. If neither is complete, the last one that can be read is returned: what it has is worth keeping.

    Raises:
        ModelReplyError: No reply could be read.
        ModelUnavailableError: The model gave no answer.
        BudgetExceededError: The call would go over a limit of the namespace.
    """
    system, prompt = render(task, **values)
    request = ModelRequest(task=task, system=system, prompt=prompt, reply=wanted, inputs=inputs)
    reply, problem = await _attempt(runtime, namespace, request, wanted, problem_with)
    if problem and attempts > 1:
        again = replace(request, prompt=prompt + AGAIN.format(problem=problem))
        second, problem = await _attempt(runtime, namespace, again, wanted, problem_with)
        reply = second if second is not None else reply
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


async def _attempt(
    runtime: Runtime,
    namespace: Namespace,
    request: ModelRequest,
    wanted: type[M],
    problem_with: Callable[[M], str | None],
) -> tuple[M | None, str | None]:
    text = await _generate(runtime, namespace, request)
    reply: M | None = None
    try:
        reply = parse(text, wanted)
    except ModelReplyError as error:
        problem: str | None = str(error)
    else:
        problem = problem_with(reply)
    if problem:
        runtime.usage.count(request.task, rejected_replies=1)
    return reply, problem


async def _generate(runtime: Runtime, namespace: Namespace, request: ModelRequest) -> str:
    asked = texts.count_tokens(request.system) + texts.count_tokens(request.prompt)
    budget = runtime.budget
    costs: list[int] = []
    with nullcontext() if budget is None else budget.call(namespace, asked, costs):
        completion = await _completion(runtime, request)
        if runtime.model_name != RULES:
            completion = _with_tokens(completion, asked)
        costs.append(completion.input_tokens + completion.output_tokens)
    runtime.usage.completed(request.task, completion)
    return completion.text


def _with_tokens(completion: Completion, asked: int) -> Completion:
    """Return the completion; where the endpoint reports no tokens, with an estimate, so that limits hold."""
    if completion.input_tokens or completion.output_tokens:
        return completion
    output = texts.count_tokens(completion.text)
    return replace(completion, input_tokens=asked, output_tokens=output)


async def _completion(runtime: Runtime, request: ModelRequest) -> Completion:
    try:
        return await resolve(runtime.model.generate(request))
    except ModelReplyError:
        runtime.usage.count(request.task, refused=1)
        raise
    except AmemError:
        runtime.usage.count(request.task, unavailable=1)
        raise
    except Exception as error:
        # A model is anybody's code: whatever it raises means that there is no answer now.
        runtime.usage.count(request.task, unavailable=1)
        raise ModelUnavailableError(
            f"the model {runtime.model_name} raised {error!r} on {request.task!r}; try again later"
        ) from error


def render(task: str, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    Raises:
        KeyError: There is no template for the task, or a placeholder of it has no value.
    """
    system, _, prompt = TEMPLATES[task].partition("\n---\n")
    return Template(system.strip()).substitute(), Template(prompt.strip()).substitute(values)


def aliases(notes: Iterable[Note], letter: str) -> dict[str, str]:
    """Return alias by note id: n1, n2 and so on."""
    return {note.id: f"{letter}{number}" for number, note in enumerate(notes, start=1)}


def raw(note: Note, alias: str | None = None) -> Shown:
    """Return what is known of a note before any model has read it."""
    shown: Shown = {
        "key": note.key,
        "content": note.content,
        "speaker": note.speaker,
        "source": note.source,
        "at": note.at.isoformat() if note.at else None,
        "when": note.when.isoformat(),
        "thread": note.thread,
    }
    return {"alias": alias, **shown} if alias else shown


def enriched(note: Note, alias: str) -> Shown:
    """Return a note with its attributes."""
    return {
        **raw(note, alias),
        "context": texts.context(note),
        "keywords": list(note.keywords),
        "tags": list(note.tags),
        "superseded": note.superseded_by is not None,
    }


def line(shown: Mapping[str, Any], note: Note) -> str:
    """Return one line for a note that the model is to work on: its content in full."""
    context = texts.inline(shown.get("context") or "", CONTEXT_CHARS)
    extra = f"\n    (context: {context})" if context else ""
    return f"{_head(shown, note)} {texts.inline(note.content, CONTENT_CHARS)}{extra}"


def brief(shown: Mapping[str, Any], note: Note) -> str:
    """Return one line for a candidate: its context rather than its content, which is longer."""
    tags = texts.inline(", ".join(note.tags), TAGS_CHARS)
    text = texts.inline(shown["context"] or note.content, CANDIDATE_CHARS)
    outdated = " (outdated)" if shown["superseded"] else ""
    return f"{_head(shown, note)} {text}{f' ({tags})' if tags else ''}{outdated}"


def lines(rows: Sequence[str]) -> str:
    """Return the rows as a block of text; an empty one says so."""
    return "\n".join(rows) or "(none)"


def briefs(shown: Sequence[Shown], notes: Sequence[Note]) -> str:
    """Return a block of text with a line for each candidate."""
    return lines([brief(s, n) for s, n in zip(shown, notes, strict=True)])


def linked(link: Mapping[str, Any]) -> str:
    """Return one line for a link between two notes."""
    relation = texts.inline(link["relation"], RELATION_CHARS)
    return f"{' - '.join(link['between'])}: {relation} ({link['strength']:.2f})"


def _head(shown: Mapping[str, Any], note: Note) -> str:
    return f"[{', '.join(part for part in (shown.get('alias'), texts.header(note)) if part)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is shown for a batch of new notes.

    Attributes:
        batch: The new notes, in order of seq.
        others: The candidates that are not of the batch themselves.
        candidates: The earlier notes shown for each, best first, by its id.
        notes: The candidates by id; notes of the batch may be among them.
        vectors: The vectors of all of them that have one.
        alias: What each is called, by id: n1… for the batch, c1… for the others.
    """

    batch: Sequence[Note]
    others: Sequence[Note]
    candidates: Mapping[str, Sequence[Candidate]]
    notes: Mapping[str, Note]
    vectors: Mapping[str, Vector]
    alias: Mapping[str, str]

    @classmethod
    def of(
        cls,
        batch: Sequence[Note],
        candidates: Mapping[str, Sequence[Candidate]],
        notes: Mapping[str, Note],
        vectors: Mapping[str, Vector],
    ) -> Offer:
        """Return the offer, in which every note has an alias."""
        alias = aliases(batch, "n")
        others = [note for note in notes.values() if note.id not in alias]
        return cls(
            batch=batch,
            others=others,
            candidates=candidates,
            notes=notes,
            vectors=vectors,
            alias={**aliases(others, "c"), **alias},
        )

    @property
    def namespace(self) -> Namespace:
        """Whose notes they are."""
        return self.batch[0].namespace

    def near(self, note: Note) -> list[Note]:
        """Return the candidates of a new note, best first."""
        return [self.notes[candidate.id] for candidate in self.candidates[note.id]]

    def enriched(self, notes: Iterable[Note]) -> list[Shown]:
        """Return notes as plain data with their attributes."""
        return [enriched(note, self.alias[note.id]) for note in notes]

    def data(self, note: Note) -> Shown:
        """Return a new note as plain data, with its candidates in order of rank."""
        candidates = [
            {
                "alias": self.alias[candidate.id],
                "similarity": candidate.similarity,
                "rank": rank,
                "previous": candidate.previous,
                "same_thread": self._same_thread(note, candidate.id),
            }
            for rank, candidate in enumerate(self.candidates[note.id], start=1)
        ]
        return {**enriched(note, self.alias[note.id]), "candidates": candidates}

    def text(self, note: Note) -> str:
        """Return a new note as text, with the aliases of its candidates."""
        listed = [self.alias[candidate.id] for candidate in self.candidates[note.id]]
        row = line(enriched(note, self.alias[note.id]), note)
        return f"{row}\n    (candidates: {', '.join(listed) or 'none'})"

    def links(self, time: datetime, half_life: timedelta | None) -> list[Shown]:
        """Return the links between notes that are shown for one new note, each once, as plain data.

        Their strength is that of the given time.
        """
        notes = {**{note.id: note for note in self.batch}, **self.notes}
        found: dict[tuple[str, str], Link] = {}
        for note in self.batch:
            shown = [note.id, *(candidate.id for candidate in self.candidates[note.id])]
            for one, other in permutations(shown, 2):
                link = notes[one].links.get(other)
                if link is not None and link.direction == "out":
                    found[one, other] = link
        return [
            {
                "between": [self.alias[one], self.alias[other]],
                "relation": link.relation,
                "strength": round(link.strength_at(time, half_life), 2),
            }
            for (one, other), link in found.items()
        ]

    def end(self, note: Note, alias: str) -> Note | None:
        """Return the note behind an alias: the new one itself, or an earlier one that was shown."""
        if alias.strip().strip("[]") == self.alias[note.id]:
            return note
        target = self.target(note, alias)
        return None if target is None else self.notes[target]

    def target(self, note: Note, alias: str) -> str | None:
        """Return the id behind an alias, if that note was shown and came before `note`."""
        ids = {shown: note_id for note_id, shown in self.alias.items()}
        known = self.notes.get(ids.get(alias.strip().strip("[]"), ""))
        return known.id if known is not None and known.seq < note.seq else None

    def _same_thread(self, note: Note, other: str) -> bool:
        return note.thread is not None and self.notes[other].thread == note.thread
