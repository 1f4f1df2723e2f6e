r"""Asks a memory on its way through a DialSim show (Kim et al., 2024, arXiv 2406.13144); needs --model.

Every utterance becomes a note, in the order of the show. In each session one question is asked, and the model answers
it from what the memory finds by then. A run that was stopped adds the notes again, but replies are kept. This has not
been run on the published files yet. `friends_dialsim.pickle`, `bigbang_dialsim.pickle` and `theoffice_dialsim.pickle`
each hold, like a JSON file of the same shape,

    {episode: {number: {"date": "September 22, 1994", "script": "Ann: Hello.\nBen: Good morning.\n…",
                        "hard_q": {kind: [question, …]}, "easy_q": {kind: {number: question}}}}}

with questions `{"questions": {asker or "default": wording}, "options": [five], "answer": one of them}`.
"""

from __future__ import annotations

import json
import pickle
import random
import re
import sys
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, TypeAdapter

from amem_integrations import NoteInput
from amem_integrations.errors import InvalidInputError

from .command import command, count, numbers, option
from .data import AS_IT_STANDS, Conversation, Question, checked, date_in
from .experiment import measure_types, shared_options
from .systems import Settings

CAUTION = "This has not been run on the published files yet, but on a small show in their form."
AGENTS = {"friends": "Ross", "bigbang": "Sheldon", "theoffice": "Michael"}
EVERYONE = "default"  # the wording for an asker who has none of their own
UNKNOWN = "I don't know."  # the right answer, in words, where there is none to know

# As the published simulator has them.
GRAPH_SHARE = 0.7
RARE = {"graph": ("fu", 0.215), "quiz": ("unans", 0.27)}  # kinds held to a share of the kinds
DRAWS = 20  # questions drawn until one can be asked
NEARBY = 3  # turns before the agent's and up to it, or after and including it

# A pickle is a program that can run anything; one that names more than Python's containers is refused.
_CONTAINERS: Mapping[str, type] = {
    f"{one.__module__}.{one.__name__}": one
    for one in (dict, list, set, frozenset, tuple, OrderedDict, defaultdict)
}
_CREDITS = ("Teleplay: ", "Story: ")
_LONGEST_NAME = 60  # what is longer before a colon is a sentence, such as a stage direction


class ShowQuestion(BaseModel):
    """A question that can be asked in a session, in the words of each character, and of `default`.

    `source` and `kind` (`past`, `fu_cur`, `dont_know_unans`, …) are as in the file. The last option is not to know.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True, frozen=True)

    questions: dict[str, str | None] = {}
    options: list[str] = []
    answer: str = ""
    source: str = ""
    kind: str = ""

    @property
    def right(self) -> int | None:
        """The index of the right option."""
        options = [option.strip().casefold() for option in self.options]
        answer = self.answer.strip().casefold()
        return options.index(answer) if answer in options else None

    @property
    def answerable(self) -> bool:
        """Whether the dialogue so far has the answer."""
        return self.right != len(self.options) - 1

    def wording(self, asker: str) -> str | None:
        """Return the question as this character puts it, if there is a wording for them."""
        return self.questions.get(asker) or self.questions.get(EVERYONE)


def _listed(some: object) -> object:
    return list(some.values()) if isinstance(some, Mapping) else some or []


_Kinds = Annotated[
    dict[str, Annotated[list[ShowQuestion], BeforeValidator(_listed)]],
    BeforeValidator(lambda kinds: kinds or {}),
]


class Session(BaseModel):
    """A scene as in the file: the day on which it is, what was said, and what can be asked in it."""

    date: Annotated[str, AfterValidator(lambda text: date_in(text) and text.strip())]
    script: str
    hard_q: _Kinds = {}
    easy_q: _Kinds = {}
    id: str = ""

    @cached_property
    def at(self) -> datetime:
        """The day, at 00:00 UTC."""
        return date_in(self.date)

    @cached_property
    def questions(self) -> list[ShowQuestion]:
        """The questions of the knowledge graph and of the quiz that have a wording, and an answer among the options."""
        return [
            one.model_copy(update={"source": source, "kind": kind})
            for source, kinds in (("graph", self.hard_q), ("quiz", self.easy_q))
            for kind, some in kinds.items()
            for one in some
            if any(one.questions.values()) and one.right is not None
        ]

    @cached_property
    def turns(self) -> list[NoteInput]:
        """The utterances of the script, divided at lines with a colon as the published simulator divides it."""
        lines = (line.strip() for line in self.script.split("\n"))
        kept = [line for line in lines if line and not any(credit in line for credit in _CREDITS)]
        turns: list[NoteInput] = []
        for said in re.split(r"\n(?=.*:)", "\n".join(kept)):
            speaker, colon, rest = (part.strip() for part in said.partition(":"))
            named = colon and 0 < len(speaker) <= _LONGEST_NAME and speaker[0] not in "[("
            if text := rest if named else said:
                key, who = f"{self.id}#{len(turns)}", speaker if named else None
                turn = NoteInput(content=text, at=self.at, key=key, thread=self.id, speaker=who)
                turns.append(turn)
        return turns


_EPISODES = TypeAdapter(dict[int | str, dict[int | str, Session]])


class Show(NamedTuple):
    """A show in the order of the file; `agent` is asked."""

    name: str
    agent: str
    sessions: tuple[Session, ...]


class _ContainerUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        full = f"{module}.{name}".replace("__builtin__.", "builtins.")  # its name in Python 2
        if full not in _CONTAINERS:
            raise InvalidInputError(
                f"a pickle that builds {full}, and so could run code: it was not loaded. "
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
        except Exception as error:  # a broken pickle can end in nearly any error, as its docs say
            raise InvalidInputError(
                f"{str(path)!r} is neither JSON nor a whole pickle: {error}"
            ) from error


def load(path: Path, agent: str | None = None, sessions: int | None = None) -> Show:
    """Return the show in a file, or its first `sessions`; `agent` is asked, who is known of the published shows.

    Raises:
        InvalidInputError: The file holds something else, or it is not known who is asked.
        OSError: The file cannot be read.
    """
    name = path.name.partition(".")[0].removesuffix("_dialsim")
    played = agent or AGENTS.get(name)
    if played is None:
        raise InvalidInputError(
            f"who is asked in {name!r}? It is known of {', '.join(AGENTS)}; name the character: --agent"
        )
    with checked(f"{str(path)!r} is not in the form of DialSim, a dict of episodes"):
        episodes = _EPISODES.validate_python(read(path))
    every = (
        one.model_copy(update={"id": f"{episode}/{number}"})
        for episode, numbered in episodes.items()
        for number, one in numbered.items()
    )
    return Show(name, played, tuple(islice(every, sessions)))


def choose(show: Show, seed: int = 0) -> tuple[Conversation, dict[str, int]]:
    """Return a show with what is asked on the way, and how often nothing can be, by the reason.

    It is chosen as the published simulator chooses, but the same in every run: each session has a random stream of its
    own, decided by the seed and the session. In each session at most one question is asked, just after a random
    utterance of the agent, by someone who speaks nearby.

    Raises:
        InvalidInputError: Nothing can be asked.
    """
    turns: list[NoteInput] = []
    asked: list[Question] = []
    left_out: Counter[str] = Counter()
    for session in show.sessions:
        match _ask(session, show.agent, random.Random(f"{seed}/{session.id}")):
            case Question() as one:
                asked.append(replace(one, after=len(turns) + (one.after or 0)))
            case reason:
                left_out[reason] += 1
        turns += session.turns
    if not asked:
        raise InvalidInputError(
            f"nothing can be asked of {show.agent!r} in {show.name!r}: {dict(left_out)}"
        )
    names = {"id": show.name, "dataset": "dialsim"}
    return Conversation(turns=tuple(turns), questions=tuple(asked), **names), dict(left_out)


def _ask(session: Session, agent: str, chance: random.Random) -> Question | str:
    """Return the question of a session after so many of its turns, or why there can be none."""
    if not session.questions:
        return "no question"
    name = agent.casefold()
    speakers = [turn.speaker or "" for turn in session.turns]
    spoken = [place for place, who in enumerate(speakers) if who.casefold() == name]
    if not spoken:
        return "the agent says nothing"
    turn = chance.choice(spoken[1:] or spoken)
    # Neither everyone nor a choir with the agent in it. The order of a set would not be the same in every run.
    near = dict.fromkeys(speakers[max(0, turn - NEARBY) : turn + NEARBY])
    others = [one for one in near if one.casefold() not in {"", "all"} and name not in one.casefold()]  # fmt: skip
    if not others:
        return "nobody else is near"
    asker = chance.choice(others)
    for one in _draws(session, chance):
        if text := one.wording(asker):
            known = "answerable" if one.answerable else "unanswerable"
            return Question(
                text=f"{asker}: {text}",
                put=f"On {session.date}, {asker} asks {agent}: {text}",
                category=AS_IT_STANDS,
                answer=one.options[one.right or 0].strip() if one.answerable else UNKNOWN,
                after=turn + 1,
                types=(known, f"{one.source}/{one.kind}"),
            )
    return "no question for who is near"


def _draws(session: Session, chance: random.Random) -> Iterator[ShowQuestion]:
    preferred = "graph" if chance.random() < GRAPH_SHARE else "quiz"
    questions = [one for one in session.questions if one.source == preferred] or session.questions
    rare, share = RARE[questions[0].source]
    kinds = list(dict.fromkeys(one.kind for one in questions))
    others = [kind for kind in kinds if rare not in kind]
    rarely = len(kinds) - len(others)
    chance.shuffle(others)
    more = cycle(others)
    while others and rarely / len(kinds) >= share:
        kinds.append(next(more))
    kind = chance.choice(kinds)
    of_kind = [one for one in questions if one.kind == kind]
    month, year = session.date.split()[0], session.at.year
    for _ in range(DRAWS):
        question = chance.choice(of_kind)
        first = next(filter(None, question.questions.values()))
        # What was true "in 1994" cannot be asked before 1994 is over. Only the first wording is looked at.
        if question.source == "quiz" or not (f"n {year}" in first or f"{month} {year}" in first):
            yield question


def _dialsim(given: Namespace) -> None:
    ks = numbers(given.k)
    show = load(given.dataset, given.agent, given.sessions)
    whole, left_out = choose(show, given.seed)
    about = {"agent": show.agent, "sessions": given.sessions, "seed": given.seed}
    measure_types(
        given,
        "dialsim",
        f"{CAUTION} {show.agent} is asked {len(whole.questions)} questions on the way, each from what has been said by "
        "then; to say that unanswerable ones have no answer is right. Answers by a judge and by F1",
        Settings(ks=ks, concurrency=given.concurrency, answer_k=ks[-1], prompt="dialsim"),
        [whole],
        {**about, "sessions_left_out": left_out},
    )


# fmt: off
main = command(
    "dialsim", __doc__, _dialsim, *shared_options("20"),
    option("--agent", help="who is asked; known for friends, bigbang and theoffice"),
    option("--sessions", type=count, help="how many sessions, from the first one"),
    option("--seed", type=int, default=0, help="decides which questions are asked, when and by whom"),
)
# fmt: on

if __name__ == "__main__":
    sys.exit(main())
