"""Runs a simulation: the memory hears the show from its beginning, and is asked as it goes along.

A question is put to what has been said by then, and to nothing later: notes are added up to the turn that
it follows, the memory is searched, and only then does the show go on. Questions and answers are no part of
the show and are not remembered, so all answers can be given afterwards, from what was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ...context import render_notes
from ...errors import InvalidInputError
from ...memory import AgenticMemory
from ...notes import NoteInput
from ...ports import ChatModel, Embedder
from ..building import count_writes
from ..cache import Kept, KeptEmbedder
from ..models import Models
from ..results import Writes
from ..systems import ALL_TOKENS
from .choosing import Asked, choose
from .examining import examine
from .results import Recalled, Result
from .settings import Settings
from .values import Show

Progress = Callable[[str, str, int, int], None]  # show, stage, done, total

_ALL_NOTES = 1_000_000


def simulate(
    show: Show,
    settings: Settings,
    *,
    embedder: Embedder,
    models: Models,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Return what was asked in a show, found and answered.

    Args:
        show: What to hear.
        settings: What to run.
        embedder: Encodes notes and questions.
        models: Write notes (by default they are written by rules), answer, and judge open answers.
        cache: Folder in which replies and vectors are kept, so that a run that was stopped goes on
            without paying again; without one nothing is kept.
        progress: Told now and then how far it has got.

    Raises:
        InvalidInputError: There is no model to answer, or nothing to ask.
        ModelUnavailableError: A model gave no answer. What was answered before is kept in `cache`.
    """
    if models.answerer is None:
        raise InvalidInputError("DialSim's questions are answered by a chat model; name one")
    choice = choose(show, seed=settings.seed, questions=settings.questions)
    if not choice.asked:
        raise InvalidInputError(
            f"nothing can be asked of {show.agent!r} in {show.name!r}: {dict(choice.left_out)}"
        )
    tell = partial(progress or _silence, show.name)
    with (
        TemporaryDirectory(prefix="amem-eval-") as folder,
        closing(Kept(cache or Path(folder))) as kept,
    ):
        writer = models.writer_of(None, kept)
        embedder = KeptEmbedder(embedder, kept)
        model = writer.make()
        with AgenticMemory.open(
            Path(folder) / "memory", model=model, embedder=embedder, config=settings.config
        ) as memory:
            stream = _Stream(show, choice.asked, memory, embedder, settings.k, model)
            recalled = tuple(stream.recalled(tell))
            writes = stream.writes()
        answers, spent = examine(
            recalled,
            show.agent,
            settings,
            answerer=models.answerer.kept(kept),
            judge=models.judge.kept(kept) if models.judge else None,
            tell=tell,
        )
    return Result(
        show=show,
        written_by=writer.name,
        recalled=recalled,
        left_out=choice.left_out,
        writes=writes,
        answers=answers,
        spent=spent,
    )


class _Stream:
    """A show as a memory hears it."""

    def __init__(
        self,
        show: Show,
        asked: Sequence[Asked],
        memory: AgenticMemory,
        embedder: KeptEmbedder,
        k: int,
        model: ChatModel | None,
    ) -> None:
        self._model = model
        self._show = show
        self._asked = {one.session.id: one for one in asked}
        self._last = asked[-1].session.id
        self._memory = memory
        self._embedder = embedder
        self._k = k
        self._heard = 0
        self._seconds = 0.0

    def recalled(self, tell: Callable[[str, int, int], None]) -> Iterator[Recalled]:
        """Return what is found for each question, when it is asked; nothing is heard after the last one."""
        waiting: list[NoteInput] = []
        for done, session in enumerate(self._show.sessions, start=1):
            asked = self._asked.get(session.id)
            if asked is None:
                waiting += session.notes()
                continue
            self._hear([*waiting, *session.notes(stop=asked.turn + 1)])
            yield self._recall(asked)
            tell("hear", done, len(self._show.sessions))
            if session.id == self._last:
                return
            waiting = session.notes(start=asked.turn + 1)

    def writes(self) -> Writes:
        """Return what the memory took so far."""
        notes = self._memory.get_all(namespace=self._show.namespace, limit=_ALL_NOTES)
        return count_writes(self._memory, notes, self._model, seconds=self._seconds)

    def _hear(self, items: Sequence[NoteInput]) -> None:
        start = time.perf_counter()
        self._heard += len(self._memory.add_many(items, namespace=self._show.namespace))
        self._seconds += time.perf_counter() - start

    def _recall(self, asked: Asked) -> Recalled:
        hits, search_ms, embed_ms = self._embedder.timed(
            lambda: self._memory.search(asked.line, namespace=self._show.namespace, k=self._k)
        )
        return Recalled(
            asked=asked,
            keys=tuple(hit.note.key or "" for hit in hits),
            context=render_notes(hits, max_tokens=ALL_TOKENS),
            turns=self._heard,
            search_ms=search_ms,
            embed_ms=embed_ms,
        )


def _silence(*_: object) -> None:
    """Tell nobody."""
