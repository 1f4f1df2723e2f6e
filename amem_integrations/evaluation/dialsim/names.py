"""Other names for the characters, so that a model cannot answer from what it knows of the show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from .values import Question, Session, Show, Turn

Rename = Callable[[str], str]


def renamed(show: Show, names: Mapping[str, str]) -> Show:
    """Return a show in which every name of `names` is replaced, all at once and as whole words.

    Names may be swapped (`{"Ann": "Ben", "Ben": "Ann"}`), as in the published simulator's shuffled mode.
    """
    if not names:
        return show
    any_name = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")

    def rename(text: str) -> str:
        return any_name.sub(lambda found: names[found[0]], text)

    return replace(
        show,
        agent=rename(show.agent),
        sessions=tuple(_session(session, rename) for session in show.sessions),
    )


def _session(session: Session, rename: Rename) -> Session:
    return replace(
        session,
        turns=tuple(_turn(turn, rename) for turn in session.turns),
        questions=tuple(_question(question, rename) for question in session.questions),
    )


def _turn(turn: Turn, rename: Rename) -> Turn:
    return Turn(speaker=turn.speaker and rename(turn.speaker), text=rename(turn.text))


def _question(question: Question, rename: Rename) -> Question:
    return replace(
        question,
        wordings={rename(who): rename(text) for who, text in question.wordings.items()},
        options=tuple(rename(option) for option in question.options),
    )
