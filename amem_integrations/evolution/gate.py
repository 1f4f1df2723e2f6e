"""Gate: which proposals of a model are written at once, and which ones wait until a reviewer decides.

A sentence for an earlier note is judged by its text and its vector, a new strength of a link by the author of the link, a
supersession by the speakers of both notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import texts
from ..config import MemoryConfig
from ..decisions import Item
from ..embedding import embed
from ..errors import InvalidInputError
from ..journal.writer import Writer
from ..notes import USER, Note
from ..plans import HELD, MAX_CHARS, PlannedNote
from ..ports import RecordQuery
from ..runtime import Runtime
from ..thresholds import gate

MAX_WORDS = 60
PASSAGES_JUDGED = 8  # of a long note whose sentence goes through the gate

# Id of an item of a plan → True (approve), False (reject), or, of a sentence, {"context": …, "keywords": …, "tags": …}.
Answers = Mapping[str, bool | Mapping[str, Any]]
BY_A_PERSON = "a person approved this link or brought it back, so a person has to agree"
NOT_BY_USER = "what the {source} said takes the place of what a user said only if a person agrees"


async def judge(
    runtime: Runtime,
    writer: Writer,
    drafts: Mapping[str, Sequence[Item | None]],
    notes: Mapping[str, Note],
) -> dict[str, list[Item]]:
    """Return the proposals by note, each item with the reason why it waits for a person, if it does.

    What makes no sense (None) is left out. The embedder is called once at most.

    The cosine of a sentence with its note tells an update of the right note from an update of a note that happened to be
    shown; of a long note the nearest passage counts. A sentence without a vector is not held back. A person has to agree
    before notes are parted that a person has linked.
    """
    items = [item for drafted in drafts.values() for item in drafted if item is not None]
    sentences = [item for item in items if item.kind == "sentence"]
    targets = {one.to: texts.embedding_texts(notes[one.to])[:PASSAGES_JUDGED] for one in sentences}
    wanted = [item.text for item in sentences] + [text for one in targets.values() for text in one]
    vectors = dict(zip(wanted, await embed(runtime, wanted), strict=True))
    floor = await gate(runtime) if sentences else 0.0
    parting = [item for item in items if item.data.get("change") in ("weaken", "remove")]
    linked = await _linked_by_a_person(writer, frozenset(item.other for item in parting))

    def judged(item: Item) -> Item:
        why = item.data.get("why")
        if item.kind == "sentence":
            entry, rows = vectors[item.text], [vectors[text] for text in targets[item.to]]
            near = [float(entry @ row) for row in rows if entry is not None and row is not None]
            if near:
                item = replace(item, data={**item.data, "similarity": max(near)})
            if near and max(near) < floor:
                why = why or f"similarity {max(near):.2f} to the note is under {floor:.2f}"
            why = form_problem(item.text) or why
        elif item in parting and (item.other, item.to) in linked:
            why = BY_A_PERSON
        return item.judged(why or (HELD if runtime.config.review else None))

    return {i: [judged(item) for item in some if item is not None] for i, some in drafts.items()}


async def _linked_by_a_person(writer: Writer, ids: frozenset[str]) -> set[tuple[str, str]]:
    """Return the ends of the links that start at some notes and that a person has made, approved or brought back."""
    # The notes' own decisions made the links; they come whatever `newest` says.
    found = await writer.decisions(RecordQuery(about=ids, newest=1)) if ids else {}
    return {
        (decision.note, item.to)
        for decision in found.values()
        for item in decision.items
        if item.kind == "link" and USER in (item.by, *(flip.by for flip in item.log))
    }


def form_problem(text: str) -> str | None:
    """Return the fault of a sentence's text, whoever wrote the text."""
    words = len(text.split())
    if not words:
        return "the entry is empty"
    if words > MAX_WORDS:
        return f"the entry has {words} words, more than {MAX_WORDS}"
    return f"the entry has more than {MAX_CHARS} characters" if len(text) > MAX_CHARS else None


def objection_to(newer: Note, older: Note, config: MemoryConfig) -> str | None:
    """Return why a supersession has to wait for a person.

    Whether what was said by an assistant or a tool may take the place of a user's words is for the settings to say;
    without it, a person has to agree.
    """
    is_theirs = newer.source in ("user", "import") or older.source in ("assistant", "tool")
    if config.assistant_supersedes or is_theirs:
        return None
    return NOT_BY_USER.format(source=newer.source)


def decide(plans: Sequence[PlannedNote], answers: Answers) -> list[PlannedNote]:
    """Return the plans with a reviewer's answers applied; the rest stays as the gate left it.

    Raises:
        InvalidInputError: An answer is about nothing in this plan, or is of no known form.
    """
    if not isinstance(answers, Mapping):
        raise InvalidInputError(f"answers={answers!r} must be a dict by the ids of a plan")
    known = {key for plan in plans for key in plan.items}
    if unknown := answers.keys() - known:
        raise InvalidInputError(f"answers name nothing in this plan: {sorted(map(str, unknown))}")
    return [
        replace(plan, items={k: _decided(k, one, answers.get(k)) for k, one in plan.items.items()})
        for plan in plans
    ]


def _decided(key: str, item: Item, answer: object) -> Item:
    if answer is None:
        return item
    if isinstance(answer, bool):
        return item.judged(None) if answer else item.judged("rejected by a reviewer", "rejected")
    if not isinstance(answer, Mapping) or not answer:
        raise InvalidInputError(
            f"the answer {answer!r} about {key!r} must be True, False, or a dict with context, keywords or tags"
        )
    return replace(item, **edited(key, item, answer)).judged(None)


def edited(key: str, item: Item, edits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item as a reviewer has them: `context`, `keywords` and `tags` of a sentence.

    Raises:
        InvalidInputError: The item is no sentence, or what was given is no text or words for one.
    """
    if item.kind != "sentence":
        raise InvalidInputError(
            f"{key!r} is a {item.kind}, and no sentence for a note; give no context, keywords or tags"
        )
    if unknown := sorted(map(str, edits.keys() - {"context", "keywords", "tags"})):
        raise InvalidInputError(
            f"{', '.join(unknown)} of {key!r} cannot be given; give context, keywords or tags"
        )
    data, text = dict(item.data), edits.get("context", item.text)
    problem = form_problem(text) if isinstance(text, str) else f"context={text!r} is no text"
    if problem:
        raise InvalidInputError(f"{key!r} cannot be written: {problem}; give context= a sentence")
    for name, most in (("keywords", texts.MAX_KEYWORDS), ("tags", texts.MAX_TAGS)):
        words = edits.get(name, data.get(name, []))
        if not isinstance(words, list | tuple) or not all(isinstance(one, str) for one in words):
            raise InvalidInputError(f"{name}={words!r} for {key!r} must be a list of texts")
        data[name] = list(texts.clean_words(words, most))
    return {"text": " ".join(text.split()), "data": data, "by": USER}
