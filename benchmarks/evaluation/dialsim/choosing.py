"""Which question is asked where, chosen as the published simulator chooses, but the same in every run.

In each session at most one question is asked, just after a random utterance of the agent, by someone who speaks
nearby. Each session has a random stream of its own, decided by the seed and the session.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from amem_integrations.errors import InvalidInputError
from amem_integrations.filters import check_count

from ..data import AS_IT_STANDS, Conversation, Question, Task, Turn
from .tv_show import LETTERS, Session, Show, ShowQuestion, Source

GRAPH_SHARE = 0.7
FUTURE_SHARE = 0.215  # of the kinds drawn from; other kinds are repeated to reach it
UNANSWERABLE_SHARE = 0.27
DRAWS = 20  # questions drawn until one can be asked
NEARBY = 3  # turns before the agent's and up to it, or after and including it

CONSTANTS = {
    "graph_share": GRAPH_SHARE,
    "future_share": FUTURE_SHARE,
    "unanswerable_share": UNANSWERABLE_SHARE,
    "draws": DRAWS,
    "nearby": NEARBY,
}


class Format(StrEnum):
    """How an answer is asked for: as one of the options, or in the model's own words."""

    CHOICE = "choice"
    OPEN = "open"

    @property
    def task(self) -> Task:
        """How questions are put to a model. A choice is right or wrong by itself and needs no judge."""
        return Task(prompt=f"dialsim_{self}", judged=self is Format.OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, in the words of the character who asks it, just after turn number `turn` of a session."""

    session: Session
    question: ShowQuestion
    text: str
    asker: str
    turn: int

    def as_question(self, agent: str, after: int) -> Question:
        """Return the question as it is searched for, put to a model, and compared with its gold."""
        asked = f"On {self.session.date}, {self.asker} asks {agent}: {self.text}"
        options = zip(LETTERS, self.question.options, strict=False)
        lines = [asked, *(f"({letter}) {option}" for letter, option in options)]
        return Question(
            text=f"{self.asker}: {self.text}",
            category=AS_IT_STANDS,
            answer=self.question.gold,
            after=after,
            wordings={Format.OPEN.task.prompt: asked, Format.CHOICE.task.prompt: "\n".join(lines)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is asked, in the order of the show, and how often nothing could be, by the reason."""

    asked: tuple[Asked, ...]
    left_out: Mapping[str, int]

    def conversation(self, show: Show) -> Conversation:
        """Return the show as a conversation with these questions on the way; with none it is an `InvalidInputError`."""
        if not self.asked:
            raise InvalidInputError(
                f"nothing can be asked of {show.agent!r} in {show.name!r}: {dict(self.left_out)}"
            )
        by_session = {one.session.id: one for one in self.asked}
        turns: list[Turn] = []
        questions: list[Question] = []
        for session in show.sessions:
            if one := by_session.get(session.id):
                questions.append(one.as_question(show.agent, len(turns) + one.turn + 1))
            turns += session.turns
        return Conversation(
            id=show.name, turns=tuple(turns), questions=tuple(questions), dataset="dialsim"
        )


def choose(show: Show, *, seed: int = 0, questions: int | None = None) -> Choice:
    """Return what is asked in a show: at most so many `questions`, from the first one; all by default."""
    if questions is not None:
        check_count("questions", questions)
    asked: list[Asked] = []
    left_out: Counter[str] = Counter()
    for session in show.sessions:
        if len(asked) == questions:
            break
        found = _ask(session, show.agent, random.Random(f"{seed}/{session.id}"))
        if isinstance(found, Asked):
            asked.append(found)
        else:
            left_out[found] += 1
    return Choice(asked=tuple(asked), left_out=dict(left_out))


def _ask(session: Session, agent: str, chance: random.Random) -> Asked | str:
    if not session.questions:
        return "no question"
    spoken = [index for index, turn in enumerate(session.turns) if _is(turn.speaker, agent)]
    if not spoken:
        return "the agent says nothing"
    turn = chance.choice(spoken[1:] or spoken)
    if (asker := _asker(session.turns, turn, agent, chance)) is None:
        return "nobody else is near"
    for question in _draws(session, chance):
        if text := question.wording(asker):
            return Asked(session=session, question=question, text=text, asker=asker, turn=turn)
    return "no question for who is near"


def _asker(turns: Sequence[Turn], index: int, agent: str, chance: random.Random) -> str | None:
    near = turns[max(0, index - NEARBY) : index + NEARBY]
    speakers = [turn.speaker for turn in near if turn.speaker and not _is(turn.speaker, "all")]
    # Nor a choir with the agent in it. The order of a set would not be the same in every run.
    others = [one for one in dict.fromkeys(speakers) if agent.casefold() not in one.casefold()]
    return chance.choice(others) if others else None


def _draws(session: Session, chance: random.Random) -> Iterator[ShowQuestion]:
    preferred = "graph" if chance.random() < GRAPH_SHARE else "quiz"
    questions = [one for one in session.questions if one.source == preferred] or session.questions
    rare, share = _RARE[questions[0].source]
    kind = _kind(list(dict.fromkeys(one.kind for one in questions)), rare, share, chance)
    of_kind = [one for one in questions if one.kind == kind]
    for question in (chance.choice(of_kind) for _ in range(DRAWS)):
        if question.source == "quiz" or not _names_its_own_date(question, session):
            yield question


# By source, what marks the kinds that are held to a share.
_RARE: Mapping[Source, tuple[str, float]] = {
    "graph": ("fu", FUTURE_SHARE),
    "quiz": ("unans", UNANSWERABLE_SHARE),
}


def _kind(kinds: Sequence[str], rare: str, share: float, chance: random.Random) -> str:
    others = [kind for kind in kinds if rare not in kind]
    rarely = len(kinds) - len(others)
    chance.shuffle(others)
    pool, more = list(kinds), cycle(others)
    while others and rarely / len(pool) >= share:
        pool.append(next(more))
    return chance.choice(pool)


def _names_its_own_date(question: ShowQuestion, session: Session) -> bool:
    # What was true "in 1994" cannot be asked before 1994 is over. Only the first wording is looked at.
    first = next(iter(question.wordings.values()))
    month, year = session.date.split()[0], str(session.at.year)
    return f"n {year}" in first or f"{month} {year}" in first


def _is(speaker: str | None, name: str) -> bool:
    return (speaker or "").casefold() == name.casefold()
