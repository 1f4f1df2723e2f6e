"""Runs an evaluation of any data set: builds the memory of each conversation and asks it the questions.

For a question in the middle, the memory is searched when the turns before it have been added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from amem_integrations.config import MemoryConfig
from amem_integrations.errors import InvalidInputError
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder
from amem_integrations.texts import count_tokens

from .answering import Examiner
from .building import Built, kept_memory
from .cache import Cache, CachedEmbedder, key_of
from .data import Conversation, Outcome, Result
from .locomo import Annotations
from .models import Models, Writer
from .provenance import code_digest
from .systems import (
    BASELINES,
    FULL,
    MAIN,
    WITHOUT_DIGESTS,
    WITHOUT_LINKS,
    Finder,
    Found,
    Settings,
    baseline_finders,
    budget_finder,
    conditions,
    memory_finder,
    searched_variant,
    whole,
    within,
)

_InBudgets = Mapping[int, Found]  # by tokens
Progress = Callable[[str, str, int, int], None]  # conversation, stage, done, total
OnNotes = Callable[[Sequence[Note], Embedder], None]

_UNSAFE = re.compile(r"[^\w-]")  # in the name of a folder


def evaluate(
    conversations: Sequence[Conversation],
    settings: Settings,
    *,
    embedder: Embedder,
    models: Models | None = None,
    annotations: Mapping[str, Annotations] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    on_notes: OnNotes | None = None,
) -> Iterator[Result]:
    """Yield a result for each conversation, one after the other.

    Args:
        conversations: What to remember and to ask.
        settings: What to run.
        embedder: Encodes notes and questions.
        models: Write notes, answer, and judge; by default notes are written by rules.
        annotations: By conversation, what a language model wrote about it, which then makes its notes.
        cache: Folder of memories, replies and vectors, from which a run that was stopped goes on.
        progress: Called now and then with conversation, stage, done and total.
        on_notes: Called with the notes of each conversation, once it is complete, and the embedder.

    Raises:
        InvalidInputError: Questions are to be answered, or digests to be written, and there is no model to do so.
        ModelUnavailableError: A model gave no answer. What was answered before is in the cache.
    """
    chosen = models or Models()
    with ExitStack() as opened:
        folder = cache or Path(opened.enter_context(TemporaryDirectory(prefix="amem-eval-")))
        kept = opened.enter_context(closing(Cache(folder)))
        run = _Run(
            settings=settings,
            folder=folder / "memories",
            embedder=CachedEmbedder(embedder, kept),
            examiner=_examiner(settings, chosen, kept),
            progress=progress or (lambda *_: None),
            on_notes=on_notes or (lambda *_: None),
        )
        for conversation in conversations:
            written = (annotations or {}).get(conversation.id)
            writer = chosen.writer_of(written, kept, digests=settings.digests)
            yield run.evaluate(conversation, writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    settings: Settings
    folder: Path
    embedder: CachedEmbedder
    examiner: Examiner | None
    progress: Progress
    on_notes: OnNotes

    def evaluate(self, conversation: Conversation, writer: Writer) -> Result:
        with ExitStack() as opened:
            memories = {
                variant: opened.enter_context(self._opened(conversation, variant, config, writer))
                for variant, config in self.settings.variants.items()
            }
            found, shown, times = self._converse(conversation, memories)
            notes = memories[MAIN].notes()
            self.on_notes(notes, self.embedder)
            writes = {variant: built.writes() for variant, built in memories.items()}
        progress = partial(self.progress, conversation.id)
        answers, spent = (
            self.examiner.answers(
                conversation.questions, _answering(found, shown), self.settings, progress
            )
            if self.examiner
            else ({}, {})
        )
        return Result(
            conversation=conversation.id,
            written_by=writer.name,
            notes=len(notes),
            outcomes=_outcomes(
                conversation, found, shown, self.settings.ks, {n.id: n.key or "" for n in notes}
            ),
            writes=writes,
            search_ms=tuple(search for search, _ in times),
            embed_query_ms=tuple(encoding for _, encoding in times),
            answers=answers,
            spent=spent,
            full_tokens=count_tokens(whole(notes)),
        )

    def _opened(
        self, conversation: Conversation, variant: str, config: MemoryConfig, writer: Writer
    ) -> AbstractContextManager[Built]:
        """Return the memory of a conversation: built, if all questions come at the end, else empty."""
        stage = "build" if variant == MAIN else f"build {variant}"
        progress = partial(self.progress, conversation.id, stage)
        turns = [asdict(turn.as_input()) for turn in conversation.turns]
        identities = writer.identity, self.embedder.identity, asdict(config), code_digest()
        name = _UNSAFE.sub("_", conversation.id)[:40]
        kept = self.folder / f"{name}-{key_of(conversation.id, turns, *identities)[:16]}"
        return kept_memory(
            kept if conversation.asked_at_the_end else None,
            lambda built: built.add(conversation.turns, progress),
            namespace=conversation.namespace,
            embedder=self.embedder,
            model=writer.make(),
            config=config,
        )

    def _converse(
        self, conversation: Conversation, memories: Mapping[str, Built]
    ) -> tuple[dict[str, list[Found]], dict[str, list[_InBudgets]], list[tuple[float, float]]]:
        """Add the turns and search where a question is asked.

        Returns what was found by system, what the memory shows in each budget (with digests also without them),
        and its times.
        """
        found: dict[str, dict[int, Found]] = {system: {} for system in self.settings.chosen}
        times: dict[int, tuple[float, float]] = {}
        recalls = self._recalls(memories[MAIN].memory, conversation.namespace)
        shown: dict[str, dict[int, _InBudgets]] = {system: {} for system in recalls}
        heard = 0
        for turns, asked in conversation.stages():
            for built in memories.values():
                built.add(turns)
            heard += len(turns)
            if not conversation.asked_at_the_end:
                self.progress(conversation.id, "hear", heard, len(conversation.turns))
            for system, n in product(recalls, asked):
                shown[system][n] = recalls[system](conversation.questions[n].text)
            for system, find in self._finders(conversation, memories).items():
                for n in asked:
                    search = partial(find, conversation.questions[n].text)
                    found[system][n], *spent = self.embedder.timed(search)
                    if system == MAIN:
                        times[n] = (spent[0], spent[1])
        order = range(len(conversation.questions))
        every = {system: [hits[n] for n in order] for system, hits in found.items()}
        in_budgets = {system: [one[n] for n in order] for system, one in shown.items()}
        return every, in_budgets, [times[n] for n in order]

    def _recalls(
        self, memory: AgenticMemory, namespace: tuple[str, ...]
    ) -> dict[str, Callable[[str], _InBudgets]]:
        budgets = self.settings.budgets
        return {
            system: budget_finder(memory, namespace, budgets, conditions(system))
            for system in ((MAIN, WITHOUT_DIGESTS) if budgets else ())
            if system in self.settings.chosen
        }

    def _finders(
        self, conversation: Conversation, memories: Mapping[str, Built]
    ) -> dict[str, Finder]:
        chosen, depth = self.settings.chosen, self.settings.depth
        finders: dict[str, Finder] = {}
        if set(chosen) & set(BASELINES):
            finders = baseline_finders(memories[MAIN].notes(), self.embedder, depth)
        for system in set(chosen) - finders.keys():
            memory, links = memories[searched_variant(system)].memory, system != WITHOUT_LINKS
            finders[system] = memory_finder(
                memory, conversation.namespace, depth, links=links, where=conditions(system)
            )
        return {system: finders[system] for system in chosen}


def _examiner(settings: Settings, models: Models, cache: Cache) -> Examiner | None:
    if not settings.answer_ks:
        return None
    if models.answerer is None:
        raise InvalidInputError("questions are answered by a chat model: name one")
    return Examiner(
        answerer=models.answerer.cached(cache),
        judge=models.judge.cached(cache) if models.judge else None,
        concurrency=settings.concurrency,
    )


def _answering(
    found: Mapping[str, Sequence[Found]], shown: Mapping[str, Sequence[_InBudgets]]
) -> dict[str, Sequence[Found]]:
    """Return what questions are answered from: with budgets, what the memory shows in each, not its first hits."""
    others = {name: every for name, every in found.items() if not shown.get(name)}
    recalled = {
        within(budget, system): [one[budget] for one in every]
        for system, every in shown.items()
        for budget in (every[0] if every else ())
    }
    return recalled | others


def _outcomes(
    conversation: Conversation,
    found: Mapping[str, Sequence[Found]],
    in_budgets: Mapping[str, Sequence[_InBudgets]],
    ks: Sequence[int],
    keys: Mapping[str, str],
) -> tuple[Outcome, ...]:
    outcomes = []
    for n, question in enumerate(conversation.questions):
        hits = {name: every[n] for name, every in found.items() if name != FULL}
        shown = {name: {k: count_tokens(one.context(k)) for k in ks} for name, one in hits.items()}
        ids = {name: one.ids for name, one in hits.items()}
        recalled = in_budgets[MAIN][n] if MAIN in in_budgets else {}
        fitting = {budget: one.ids for budget, one in recalled.items()}
        every = {
            i: told
            for one in (*hits.values(), *recalled.values())
            for i, told in one.digests.items()
        }
        digests = {i: tuple(keys.get(source, "") for source in told) for i, told in every.items()}
        outcomes.append(
            Outcome(question=question, found=ids, shown=shown, within=fitting, digests=digests)
        )
    return tuple(outcomes)
