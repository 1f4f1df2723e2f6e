"""Building the memory of a conversation, or opening the one that is kept."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial

from ..config import MemoryConfig
from ..memory import AgenticMemory
from ..notes import Note
from ..ports import ChatModel
from ..testing import RecordedModel
from .cache import KeptEmbedder, Memories
from .cache.kept import key_of
from .locomo import Conversation
from .provenance import code_digest
from .results import Writes

Progress = Callable[[str, str, int, int], None]  # conversation, stage, done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who makes the notes of a conversation.

    Attributes:
        name: For the report.
        identity: What decides what it writes; memories by another one are built anew.
        make: Returns the chat model; None is the mode without one.
    """

    name: str
    identity: str
    make: Callable[[], ChatModel | None]


_UNSAFE = re.compile(r"[^\w-]")  # in the name of a folder

RULES = Writer(name="rules", identity="rules", make=lambda: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds memories and keeps them."""

    memories: Memories
    embedder: KeptEmbedder
    progress: Progress | None = None

    @contextmanager
    def memory(
        self, conversation: Conversation, variant: str, config: MemoryConfig, writer: Writer
    ) -> Iterator[tuple[AgenticMemory, Writes]]:
        """Give the memory of a conversation, and what building it took."""
        model = writer.make()
        key = key_of(
            conversation.id,
            [asdict(turn.as_input()) for turn in conversation.turns],
            writer.identity,
            self.embedder.identity,
            asdict(config),
            code_digest(),
        )
        stage = "build" if variant == "amem" else f"build {variant}"
        tell = partial(self.progress, conversation.id, stage) if self.progress else False
        build = partial(_build, conversation=conversation, model=model, tell=tell)
        with self.memories.opened(
            f"{_UNSAFE.sub('_', conversation.id)[:40]}-{key[:16]}",
            build,
            embedder=self.embedder,
            model=model,
            config=config,
        ) as (memory, writes):
            yield memory, writes


def _build(
    memory: AgenticMemory,
    *,
    conversation: Conversation,
    model: ChatModel | None,
    tell: Callable[[int, int], None] | bool,
) -> Writes:
    items = [turn.as_input() for turn in conversation.turns]
    start = time.perf_counter()
    notes = memory.add_many(items, namespace=conversation.namespace, progress=tell)
    return count_writes(memory, notes, model, seconds=time.perf_counter() - start)


def count_writes(
    memory: AgenticMemory, notes: Sequence[Note], model: ChatModel | None, *, seconds: float
) -> Writes:
    """Return what making these notes took; without a model its own rules are not counted as calls."""
    spent = memory.usage()["total"] if model else {}
    recorded = model if isinstance(model, RecordedModel) else None
    return Writes(
        notes=len(notes),
        model_calls=spent.get("calls", 0),
        input_tokens=spent.get("input_tokens", 0),
        output_tokens=spent.get("output_tokens", 0),
        rejected_replies=spent.get("rejected_replies", 0),
        links=sum(link.direction == "out" for note in notes for link in note.links.values()),
        updates=sum(entry.cause != note.id for note in notes for entry in note.contexts),
        unfinished=sum(note.state != "done" for note in notes),
        annotated_links=recorded.annotated_links if recorded else 0,
        offered_links=recorded.offered_links if recorded else 0,
        seconds=seconds,
    )
