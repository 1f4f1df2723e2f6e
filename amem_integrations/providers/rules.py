"""A `ChatModel` that needs no language model: deterministic, free, and plain about what it is.

It answers from `ModelRequest.inputs`. A note's context says who spoke when, and quotes the turn before:
that quote is what makes "yes, last week" findable. Notes are linked to the turn before and to the most
similar note of another conversation, which then takes over tags and learns that it was taken up again. What says the
same again is linked as a repetition instead. Rules never say that a note is outdated or until when it holds: nobody can
know that without understanding the text.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from .. import texts
from ..kinds import is_bare, is_question, kind_of
from ..plans import ANSWERS, FOLLOWS, REPEATS
from ..ports import Completion, ModelRequest

# Words of the turn before that are quoted in a note's context.
QUOTED_WORDS = 25
QUOTED_CHARS = 500  # in scripts without spaces

# From this cosine on a note of another conversation is about the same thing. On LoCoMo this links 2 to 12 %
# of the notes; lower values link more, and cost recall among the first five (.64 at .80, .68 at .85).
SAME_TOPIC = 0.85

# A turn follows the one before whatever it says; this ranks below any link by similarity.
FOLLOWED = 0.5
ANSWERED = 0.7

SAID_AGAIN = "says the same again"

KEYWORDS = 5
TAGS = 3
REASON_WORDS = 3

Shown = Mapping[str, Any]


class RuleModel:
    """Makes, links and evolves notes by rules.

    Args:
        language: Two-letter code of the language that keywords are extracted in.
    """

    name = "rules"

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._lock = threading.Lock()

    def generate(self, request: ModelRequest) -> Completion:
        """Return the answer to a task, as JSON; it costs no tokens.

        Raises:
            ValueError: The task is none of this memory's.
        """
        answers = {"construct": self._construct, "evolve": _evolve}
        if request.task not in answers:
            raise ValueError(f"the rule model knows no task {request.task!r}")
        return Completion(text=json.dumps(answers[request.task](request.inputs)))

    def _construct(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        before: Shown | None = next(iter(inputs["before"][-1:]), None)
        made = []
        for note in inputs["notes"]:
            is_filler = kind_of(note["content"]) == "filler"
            words = {"keywords": [], "tags": []} if is_filler else self._words(note)
            context = "" if is_filler else _context(note, before)
            made.append({"id": note["alias"], "context": context, **words})
            before = note
        return {"notes": made}

    def _words(self, note: Shown) -> dict[str, list[str]]:
        speaker = (note["speaker"] or "").lower()
        # The extractor keeps state while it works.
        with self._lock:
            found = self._extractor.extract_keywords(note["content"])
        keywords = [word for word, _ in found if word.lower() != speaker]
        single = [word.lower() for word in keywords if " " not in word]
        return {"keywords": keywords[:KEYWORDS], "tags": list(dict.fromkeys(single))[:TAGS]}

    @cached_property
    def _extractor(self) -> Any:  # noqa: ANN401 - the library has no types
        import yake  # noqa: PLC0415 - takes longer to import than all the rest

        return yake.KeywordExtractor(lan=self._language, n=2, top=2 * KEYWORDS, dedupLim=0.7)


def _context(note: Shown, before: Shown | None) -> str:
    said = _said(note)
    if before is None or note["thread"] is None:  # texts without a thread are no conversation
        return said
    words = before["content"].split()
    quote = ("… " if len(words) > QUOTED_WORDS else "") + _joined(words[-QUOTED_WORDS:])
    return f'{said}, replying to "{quote}"' if said else f'In reply to "{quote}"'


def _said(note: Shown) -> str:
    """Return the speaker and the day, as far as they are known."""
    day = texts.day(datetime.fromisoformat(note["at"])) if note["at"] else None
    return " on ".join(part for part in (note["speaker"], day) if part)


def _joined(words: Sequence[str]) -> str:
    return " ".join(words)[:QUOTED_CHARS]


def _evolve(inputs: Mapping[str, Any]) -> dict[str, Any]:
    shown = {note["alias"]: note for note in [*inputs["candidates"], *inputs["notes"]]}
    return {"notes": [_evolution(note, shown) for note in inputs["notes"]]}


def _evolution(note: Shown, shown: Mapping[str, Shown]) -> dict[str, Any]:
    links, updates = list[dict[str, Any]](), list[dict[str, Any]]()
    if kind_of(note["content"]) != "filler":
        near = [(candidate, shown[candidate["alias"]]) for candidate in note["candidates"]]
        before = [t for one, t in near if one["previous"] and kind_of(t["content"]) != "filler"]
        says_nothing = is_bare(note["content"]) and any(is_question(t["content"]) for t in before)
        same = [other for one, other in near if one["same"] and not says_nothing]
        links += [_link(other, REPEATS, SAID_AGAIN, 1.0) for other in same]
        links += [_to_before(turn) for turn in before if turn not in same]
        alike = [
            (candidate, other)
            for candidate, other in near
            if not candidate["same_thread"] and (candidate["similarity"] or 0.0) >= SAME_TOPIC
        ]
        best = max(alike, key=lambda one: (one[0]["similarity"], -one[0]["rank"]), default=None)
        if best is not None and not best[0]["same"]:
            links.append(_about(note, best[1], best[0]["similarity"]))
            updates.append(_update(note, best[1]))
    return {"id": note["alias"], "links": links, "updates": updates}


def _link(other: Shown, relation: str, reason: str, strength: float) -> dict[str, Any]:
    return {"to": other["alias"], "relation": relation, "reason": reason, "strength": strength}


def _to_before(turn: Shown) -> dict[str, Any]:
    if is_question(turn["content"]):
        return _link(turn, ANSWERS, "answers the question before", ANSWERED)
    return _link(turn, FOLLOWS, "comes next in the conversation", FOLLOWED)


def _about(note: Shown, target: Shown, similarity: float) -> dict[str, Any]:
    words = {word.lower() for word in [*note["tags"], *note["keywords"]]}
    shared = [word for word in target["tags"] if word in words][:REASON_WORDS]
    about = f"both speak of {', '.join(shared)}" if shared else "says much the same"
    reason = f"{about} (similarity {similarity:.2f})"
    return _link(target, "same_topic", reason, min(similarity, 1.0))


def _update(note: Shown, target: Shown) -> dict[str, Any]:
    words, who = note["content"].split(), _said(note)
    quote = _joined(words[:QUOTED_WORDS]) + (" …" if len(words) > QUOTED_WORDS else "")
    return {
        "to": target["alias"],
        "context": f'Taken up again{f" by {who}" if who else ""}: "{quote}"',
        "tags": [tag for tag in note["tags"] if tag not in target["tags"]],
    }
