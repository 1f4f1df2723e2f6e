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

import json
import pickle
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import islice, pairwise
from os import PathLike
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from amem_integrations.errors import InvalidInputError

from ..data import Turn
from ..locomo import MONTHS, checked

Source = Literal["graph", "quiz"]

# A pickle is a program that can run anything; one that names more than Python's containers is refused.
_CONTAINERS: Mapping[str, type] = {
    f"{one.__module__}.{one.__name__}": one
    for one in (dict, list, set, frozenset, tuple, OrderedDict, defaultdict)
}

AGENTS = {"friends": "Ross", "bigbang": "Sheldon", "theoffice": "Michael"}
EVERYONE = "default"  # the wording for an asker who has none of their own
LETTERS = ascii_uppercase  # of the options
UNKNOWN = "I don't know."  # the right answer, in words, where there is none to know

_FEWEST = 2  # options; all published questions have five
_SOURCES: Mapping[str, Source] = {"hard_q": "graph", "easy_q": "quiz"}
_CREDITS = ("Teleplay: ", "Story: ")
_LONGEST_NAME = 60  # what is longer before a colon is a sentence, such as a stage direction
_DATE = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowQuestion:
    """A question that can be asked in a session, in the words of each character, and of `default`.

    `source` and `kind` (`past`, `fu_cur`, `dont_know_unans`, …) are as in the file. The last option is not to know.
    """

    id: str  # its position in the session, such as graph/past/3
    source: Source
    kind: str
    wordings: Mapping[str, str]
    options: tuple[str, ...]
    right: int  # the index of the right option

    @property
    def answerable(self) -> bool:
        """Whether the dialogue so far has the answer."""
        return self.right < len(self.options) - 1

    @property
    def gold(self) -> str:
        """The right answer in words; `UNKNOWN` where there is none, as in the published simulator."""
        return self.options[self.right] if self.answerable else UNKNOWN

    def wording(self, asker: str) -> str | None:
        """Return the question as this character puts it, if there is a wording for them."""
        return self.wordings.get(asker) or self.wordings.get(EVERYONE)


@dataclass(frozen=True, slots=True)
class Session:
    """A scene: what was said, on which day (00:00 UTC), and what can be asked in it."""

    id: str
    date: str
    at: datetime
    turns: tuple[Turn, ...]
    questions: tuple[ShowQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """A show in the order of the file; `agent` is asked, `left_out` counts unusable questions by the reason."""

    name: str
    agent: str
    sessions: tuple[Session, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def dated_back(self) -> int:
        """How many sessions are dated before the one they follow; the file's order is the show's."""
        return sum(later.at < earlier.at for earlier, later in pairwise(self.sessions))


class _RawQuestion(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    questions: dict[str, str | None] = {}
    options: list[str] = []
    answer: str = ""


def _numbered(kinds: object) -> object:
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
    """Return the show of a file, which is named after it; of so many `sessions`, from the first one.

    `agent` is who is asked; of the published shows it is known. A file of another form is an `InvalidInputError`.
    """
    file = Path(path)
    name = file.stem.removesuffix("_dialsim")
    played = agent or AGENTS.get(name)
    if not played:
        raise InvalidInputError(
            f"who is asked in {name!r}? It is known of {', '.join(AGENTS)}; name the character (agent)"
        )
    left_out: Counter[str] = Counter()
    raw = islice(_raw_sessions(read(file), file), sessions)
    found = tuple(_session(session_id, one, left_out) for session_id, one in raw)
    if not any(session.questions for session in found):
        raise InvalidInputError(
            f"{str(file)!r} has no question that can be asked: {dict(left_out)}"
        )
    return Show(name=name, agent=played, sessions=found, left_out=dict(left_out))


class _ContainerUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        full = f"{module}.{name}".replace("__builtin__.", "builtins.")  # its name in Python 2
        if full not in _CONTAINERS:
            raise InvalidInputError(
                f"is a pickle that builds {full}, and so could run code: it was not loaded. "
                "If you trust who made it, write it as JSON yourself and give that file"
            )
        return _CONTAINERS[full]


def read(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the contents of a JSON file or a pickle; one that builds more than containers is an `InvalidInputError`."""
    with path.open("rb") as file:
        is_json = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
        file.seek(0)
        try:
            return json.loads(file.read()) if is_json else _ContainerUnpickler(file).load()
        except InvalidInputError as error:
            raise InvalidInputError(f"{str(path)!r} {error}") from None
        except OSError:
            raise
        except Exception as error:  # a broken pickle can end in nearly any error, as its docs say
            form = "not a JSON file" if is_json else "neither a JSON file nor a whole pickle"
            raise InvalidInputError(f"{str(path)!r} is {form}: {error!r}") from error


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
    with checked(f"session {session_id!r} is not in the form of DialSim"):
        raw = _RawSession.model_validate(item)
    try:
        at = parse_date(raw.date)
    except InvalidInputError as error:
        raise InvalidInputError(f"session {session_id!r}: {error}") from error
    turns, questions = script_turns(raw.script, session_id, at), _questions(raw, left_out)
    return Session(session_id, raw.date.strip(), at, tuple(turns), tuple(questions))


def _questions(raw: _RawSession, left_out: Counter[str]) -> Iterator[ShowQuestion]:
    for name, source in _SOURCES.items():
        for kind, numbered in getattr(raw, name).items():
            for number, one in numbered.items():
                right = _right(one)
                if isinstance(right, str):
                    left_out[right] += 1
                    continue
                yield ShowQuestion(
                    id=f"{source}/{kind}/{number}",
                    source=source,
                    kind=kind,
                    wordings={who: text for who, text in one.questions.items() if text},
                    options=tuple(option.strip() for option in one.options),
                    right=right,
                )


def _right(raw: _RawQuestion) -> int | str:
    if not any(raw.questions.values()):
        return "no wording"
    if not _FEWEST <= len(raw.options) <= len(LETTERS):
        return f"{len(raw.options)} options"
    options = [option.strip().casefold() for option in raw.options]
    try:
        return options.index(raw.answer.strip().casefold())
    except ValueError:
        return "the answer is none of the options"


def script_turns(script: str, session_id: str, at: datetime) -> Iterator[Turn]:
    """Yield the utterances of a script, divided at lines with a colon as the published simulator divides it."""
    lines = (line.strip() for line in script.split("\n"))
    kept = [line for line in lines if line and not any(credit in line for credit in _CREDITS)]
    spoken = re.split(r"\n(?=.*:)", "\n".join(kept))
    texts = [(speaker, text) for speaker, text in map(_speaker_and_text, spoken) if text]
    for number, (speaker, text) in enumerate(texts):
        turn_id = f"{session_id}#{number}"
        yield Turn(id=turn_id, thread=session_id, speaker=speaker, text=text, at=at)


def _speaker_and_text(text: str) -> tuple[str | None, str]:
    speaker, colon, rest = text.partition(":")
    named = colon and 0 < len(speaker.strip()) <= _LONGEST_NAME and speaker[0] not in "[("
    return (speaker.strip(), rest.strip()) if named else (None, text)


def parse_date(text: str) -> datetime:
    """Return the day of a text such as `September 22, 1994` or `1994-09-22`, as 00:00 UTC."""
    found = _DATE.fullmatch(text.strip())
    try:
        if not found:
            day = date.fromisoformat(text.strip())
        else:  # by hand: what `strptime` takes for a month depends on the locale
            day = date(int(found[3]), MONTHS.index(found[1][:3].lower()) + 1, int(found[2]))
    except ValueError as error:
        raise InvalidInputError(f"date {text!r} is not written as 'September 22, 1994'") from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def renamed(show: Show, names: Mapping[str, str]) -> Show:
    """Return a show with other names, replaced all at once and as whole words, so that they may be swapped."""
    if not names:
        return show
    any_name = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")

    def new(text: str) -> str:
        return any_name.sub(lambda found: names[found[0]], text)

    def question(one: ShowQuestion) -> ShowQuestion:
        wordings = {new(asker): new(text) for asker, text in one.wordings.items()}
        return replace(one, wordings=wordings, options=tuple(map(new, one.options)))

    def turn(one: Turn) -> Turn:
        return replace(one, speaker=one.speaker and new(one.speaker), text=new(one.text))

    sessions = (
        replace(
            one, turns=tuple(map(turn, one.turns)), questions=tuple(map(question, one.questions))
        )
        for one in show.sessions
    )
    return replace(show, agent=new(show.agent), sessions=tuple(sessions))
