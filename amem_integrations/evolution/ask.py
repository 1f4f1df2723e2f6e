"""Ask a chat model about notes: how they are shown to it, and the typed reply; its error is shown to it once.

A prompt never shows an id: notes have short aliases, and a reply is resolved against the closed set shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any, TypeVar

from pydantic import BaseModel

from .. import texts
from ..errors import AmemError, ModelReplyError, ModelUnavailableError
from ..notes import Note
from ..plans import Candidate
from ..ports import ModelRequest, Vector
from ..prompts import TEMPLATES
from ..prompts.parse import parse
from ..runtime import Runtime, resolve

M = TypeVar("M", bound=BaseModel)

AGAIN = """

Your previous answer could not be used: {problem}
Answer again, with one JSON object of the form asked for and nothing else."""

# Longest part of one note in a prompt; a page of text says what it is about long before its end.
CONTENT_CHARS = 2000
CANDIDATE_CHARS = 400
CONTEXT_CHARS = 1200
TAGS_CHARS = 200

Shown = dict[str, Any]


def no_problem(_reply: object) -> str | None:
    """Accept every reply."""
    return None


async def ask(
    runtime: Runtime,
    task: str,
    wanted: type[M],
    *,
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
    """
    system, prompt = render(task, **values)
    request = ModelRequest(task=task, system=system, prompt=prompt, reply=wanted, inputs=inputs)
    reply, problem = await _attempt(runtime, request, wanted, problem_with)
    if problem and attempts > 1:
        again = replace(request, prompt=prompt + AGAIN.format(problem=problem))
        second, problem = await _attempt(runtime, again, wanted, problem_with)
        reply = second if second is not None else reply
    if reply is None:
        raise ModelReplyError(f"{runtime.model_name} gave no usable answer to {task!r}: {problem}")
    return reply


async def _attempt(
    runtime: Runtime,
    request: ModelRequest,
    wanted: type[M],
    problem_with: Callable[[M], str | None],
) -> tuple[M | None, str | None]:
    text = await _generate(runtime, request)
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


async def _generate(runtime: Runtime, request: ModelRequest) -> str:
    try:
        completion = await resolve(runtime.model.generate(request))
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
    runtime.usage.completed(request.task, completion)
    return completion.text


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

    def target(self, note: Note, alias: str) -> str | None:
        """Return the id behind an alias, if that note was shown and came before `note`."""
        ids = {shown: note_id for note_id, shown in self.alias.items()}
        known = self.notes.get(ids.get(alias.strip().strip("[]"), ""))
        return known.id if known is not None and known.seq < note.seq else None

    def _same_thread(self, note: Note, other: str) -> bool:
        return note.thread is not None and self.notes[other].thread == note.thread
