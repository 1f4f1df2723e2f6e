"""Runs an evaluation: builds the memory of each conversation, and asks it the questions.

It measures nothing itself but time: what was found and what it cost is handed over as plain values,
from which `report` makes the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import TemporaryDirectory

from .._sync import resolve, run
from ..memory import AgenticMemory
from ..ports import Embedder, Vector
from ..testing import RecordedModel
from .baselines import Baselines
from .locomo import Conversation
from .recordings import Recording
from .results import Outcome, Result, Writes
from .settings import Ablation, Settings

MAIN = "amem"
WITHOUT_LINKS = "amem_without_links"  # the same memory, searched without following links
WITHOUT_EVOLUTION = "amem_without_evolution"  # built again, with no note updated by a later one

Search = Callable[[str], Sequence[str]]
Progress = Callable[[str, str, int, int], None]  # conversation, stage, done, total


@dataclass(slots=True)
class Stopwatch:
    """An encoder that notes how long each query takes it."""

    embedder: Embedder
    query_ms: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The encoder's name."""
        return self.embedder.name

    @property
    def dimensions(self) -> int:
        """The encoder's dimensions."""
        return self.embedder.dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return what the encoder gives."""
        return run(resolve(self.embedder.embed_documents(texts)))

    def embed_query(self, text: str) -> Vector:
        """Return what the encoder gives, and note the time."""
        start = time.perf_counter()
        vector = run(resolve(self.embedder.embed_query(text)))
        self.query_ms.append(_ms_since(start))
        return vector


def evaluate(
    conversations: Sequence[Conversation],
    settings: Settings,
    *,
    embedder: Embedder,
    recordings: Mapping[str, Recording] | None = None,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Return a result for each conversation, one after the other.

    Args:
        conversations: What to remember and to ask.
        settings: What to run.
        embedder: Encodes notes and questions.
        recordings: By conversation, what a language model wrote about it; conversations without are
            remembered offline.
        progress: Told now and then how far it has got.
    """
    for conversation in conversations:
        recording = (recordings or {}).get(conversation.id)
        yield _evaluate_one(conversation, settings, embedder, recording, progress)


def _evaluate_one(
    conversation: Conversation,
    settings: Settings,
    embedder: Embedder,
    recording: Recording | None,
    progress: Progress | None,
) -> Result:
    timed = Stopwatch(embedder)
    model = _model(recording)
    with _opened(timed, model, settings) as memory:
        writes = _build(memory, conversation, model, progress)
        timed.query_ms.clear()
        # First of all systems: an encoder that remembers queries would make it look faster than it is.
        asked = list(_ask(memory, conversation, settings, progress))
        embed_query_ms = tuple(timed.query_ms)
        found = {MAIN: [hits for hits, _ in asked]}
        if settings.baselines:
            found |= _compared(memory, conversation, settings, embedder)
    if settings.baselines:
        found[WITHOUT_EVOLUTION] = (
            _without_evolution(conversation, settings, embedder, recording)
            if writes.updates
            else found[MAIN]  # it would be built the same
        )
    outcomes = tuple(
        Outcome(question=question, found={name: hits[place] for name, hits in found.items()})
        for place, question in enumerate(conversation.questions)
    )
    return Result(
        conversation=conversation.id,
        annotated=recording is not None,
        notes=len(conversation.turns),
        outcomes=outcomes,
        writes=writes,
        search_ms=tuple(spent for _, spent in asked),
        embed_query_ms=embed_query_ms,
    )


def _build(
    memory: AgenticMemory,
    conversation: Conversation,
    model: RecordedModel | None,
    progress: Progress | None,
) -> Writes:
    items = [turn.as_input() for turn in conversation.turns]
    tell = partial(progress, conversation.id, "build") if progress else False
    start = time.perf_counter()
    notes = memory.add_many(items, namespace=conversation.namespace, progress=tell)
    seconds = time.perf_counter() - start
    spent = memory.usage()["total"] if model else {}
    return Writes(
        model_calls=spent.get("calls", 0),
        input_tokens=spent.get("input_tokens", 0),
        output_tokens=spent.get("output_tokens", 0),
        rejected_replies=spent.get("rejected_replies", 0),
        links=sum(link.direction == "out" for note in notes for link in note.links.values()),
        updates=sum(entry.cause != note.id for note in notes for entry in note.contexts),
        unfinished=sum(note.state != "done" for note in notes),
        annotated_links=model.annotated_links if model else 0,
        offered_links=model.offered_links if model else 0,
        seconds=seconds,
    )


def _ask(
    memory: AgenticMemory,
    conversation: Conversation,
    settings: Settings,
    progress: Progress | None,
) -> Iterator[tuple[Sequence[str], float]]:
    """Return for each question what the memory found, and the milliseconds it took."""
    search = _search(memory, conversation, settings)
    for done, question in enumerate(conversation.questions, start=1):
        start = time.perf_counter()
        found = search(question.text)
        yield found, _ms_since(start)
        if progress is not None:
            progress(conversation.id, "ask", done, len(conversation.questions))


def _search(
    memory: AgenticMemory, conversation: Conversation, settings: Settings, *, links: bool = True
) -> Search:
    def search(query: str) -> list[str]:
        hits = memory.search(
            query, namespace=conversation.namespace, k=max(settings.ks), links=links
        )
        return [hit.note.key or "" for hit in hits]

    return search


def _compared(
    memory: AgenticMemory, conversation: Conversation, settings: Settings, embedder: Embedder
) -> dict[str, list[Sequence[str]]]:
    """Return what the same memory finds without links, and what the plain rankings find."""
    plain = Baselines([f"{turn.speaker}: {turn.content}" for turn in conversation.turns], embedder)
    depth = max(settings.ks)

    def ids(rank: Callable[[str], Sequence[int]]) -> Search:
        return lambda query: [conversation.turns[place].id for place in rank(query)[:depth]]

    systems = {
        WITHOUT_LINKS: _search(memory, conversation, settings, links=False),
        "dense": ids(plain.dense),
        "bm25": ids(plain.bm25),
        "rrf": ids(plain.rrf),
    }
    questions = conversation.questions
    return {name: [ask(question.text) for question in questions] for name, ask in systems.items()}


def _without_evolution(
    conversation: Conversation,
    settings: Settings,
    embedder: Embedder,
    recording: Recording | None,
) -> list[Sequence[str]]:
    """Return what a memory finds in which notes are linked and never updated."""
    ablated = replace(settings, ablation=Ablation.EVOLUTION)
    model = _model(recording)
    with _opened(embedder, model, ablated) as memory:
        _build(memory, conversation, model, None)
        search = _search(memory, conversation, settings)
        return [search(question.text) for question in conversation.questions]


def _model(recording: Recording | None) -> RecordedModel | None:
    return RecordedModel(recording.as_records()) if recording else None


@contextmanager
def _opened(
    embedder: Embedder, model: RecordedModel | None, settings: Settings
) -> Iterator[AgenticMemory]:
    """Give an empty memory in a folder that is gone afterwards."""
    with (
        TemporaryDirectory(prefix="amem-eval-") as folder,
        AgenticMemory.open(
            folder, model=model, embedder=embedder, config=settings.config
        ) as opened,
    ):
        yield opened


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
