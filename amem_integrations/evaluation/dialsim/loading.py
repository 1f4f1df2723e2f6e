r"""DialSim (Kim et al., 2024, arXiv 2406.13144): the file of a show, as published or as JSON.

`friends_dialsim.pickle`, `bigbang_dialsim.pickle` and `theoffice_dialsim.pickle` each hold

::

    {episode: {number: {"date": "September 22, 1994",
                        "script": "Ann: Hello.\nBen: Good morning.\n…",
                        "hard_q": {kind: [question, …]},
                        "easy_q": {kind: {number: question}}}}}

with questions `{"questions": {asker or "default": wording}, "options": [five], "answer": one of them}`.
The files are the user's own; nothing of them is part of this package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ...errors import InvalidInputError
from . import containers, scripts
from .values import LETTERS, Question, Session, Show, Source

AGENTS = {"friends": "Ross", "bigbang": "Sheldon", "theoffice": "Michael"}

_SUFFIX = "_dialsim"
_FEWEST = 2  # options; all published questions have five
_SOURCES: Mapping[str, Source] = {"hard_q": "graph", "easy_q": "quiz"}


class _RawQuestion(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    questions: dict[str, str | None] = {}
    options: list[str] = []
    answer: str = ""


def _numbered(kinds: object) -> object:
    """Return questions by number whether they are listed or numbered already."""
    if not isinstance(kinds, Mapping):
        return kinds or {}
    return {
        kind: dict(enumerate(some)) if isinstance(some, list) else some or {}
        for kind, some in kinds.items()
    }


_Kinds = Annotated[dict[str, dict[int | str, _RawQuestion]], BeforeValidator(_numbered)]


class _RawSession(BaseModel):
    date: str
    script: str
    hard_q: _Kinds = {}
    easy_q: _Kinds = {}


def load(
    path: str | PathLike[str], *, agent: str | None = None, sessions: int | None = None
) -> Show:
    """Return the show of a file.

    Args:
        path: The file; it is named after the show.
        agent: Who is asked; for the three published shows it is known.
        sessions: How many to take, from the first one; all by default.

    Raises:
        InvalidInputError: The file holds something else, or nobody knows who is asked.
        OSError: It cannot be read.
    """
    file = Path(path)
    name = file.stem.removesuffix(_SUFFIX)
    played = agent or AGENTS.get(name)
    if not played:
        raise InvalidInputError(
            f"who is asked in {name!r}? It is known of {', '.join(AGENTS)}; name the character (agent)"
        )
    left_out: Counter[str] = Counter()
    raw = islice(_raw_sessions(containers.read(file), file), sessions)
    found = tuple(_session(session_id, one, left_out) for session_id, one in raw)
    if not any(session.questions for session in found):
        raise InvalidInputError(
            f"{str(file)!r} has no question that can be asked: {dict(left_out)}"
        )
    return Show(name=name, agent=played, sessions=found, left_out=dict(left_out))


def _raw_sessions(data: object, file: Path) -> Iterator[tuple[str, object]]:
    if not isinstance(data, Mapping) or not data:
        raise InvalidInputError(
            f"{str(file)!r} must hold a dict of episodes, as friends_dialsim.pickle; an oracle file or a "
            "table of the dataset is another form"
        )
    for episode, numbered in data.items():
        if not isinstance(numbered, Mapping):
            raise InvalidInputError(
                f"episode {episode!r} of {str(file)!r} must be a dict of sessions, not {numbered!r:.60}"
            )
        for number, one in numbered.items():
            yield f"{episode}/{number}", one


def _session(session_id: str, item: Any, left_out: Counter[str]) -> Session:  # noqa: ANN401 - checked here
    try:
        raw = _RawSession.model_validate(item)
        at = scripts.parse_date(raw.date)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInputError(
            f"session {session_id!r} is not in the form of DialSim: "
            f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
        ) from error
    except InvalidInputError as error:
        raise InvalidInputError(f"session {session_id!r}: {error}") from error
    return Session(
        id=session_id,
        date=raw.date.strip(),
        at=at,
        turns=scripts.turns(raw.script),
        questions=tuple(_questions(raw, left_out)),
    )


def _questions(raw: _RawSession, left_out: Counter[str]) -> Iterator[Question]:
    for field, source in _SOURCES.items():
        for kind, numbered in getattr(raw, field).items():
            for number, one in numbered.items():
                right = _right(one)
                if isinstance(right, str):
                    left_out[right] += 1
                    continue
                yield Question(
                    id=f"{source}/{kind}/{number}",
                    source=source,
                    kind=kind,
                    wordings={who: text for who, text in one.questions.items() if text},
                    options=tuple(option.strip() for option in one.options),
                    right=right,
                )


def _right(raw: _RawQuestion) -> int | str:
    """Return the place of the right option, or why there is none."""
    if not any(raw.questions.values()):
        return "no wording"
    if not _FEWEST <= len(raw.options) <= len(LETTERS):
        return f"{len(raw.options)} options"
    options = [option.strip().casefold() for option in raw.options]
    try:
        return options.index(raw.answer.strip().casefold())
    except ValueError:
        return "the answer is none of the options"
