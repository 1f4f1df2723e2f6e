"""Runs an evaluation of any data set: builds the memories of each conversation and asks the questions on the way.

A memory is built anew in every run, from the replies and vectors that are kept, so a run that was stopped goes on where
it was, and ends as in one go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from amem_integrations.errors import InvalidInputError
from amem_integrations.notes import Note
from amem_integrations.ports import ChatModel, Embedder
from amem_integrations.texts import count_tokens

from . import systems
from .answering import Maker, Models, examine
from .cache import Cache, CachedEmbedder
from .data import Annotations, Conversation, Outcome, Result, Spent
from .rivals import Maker as RivalMaker
from .rivals.base import Memory, Workshop
from .systems import MAIN, Found, Settings

Progress = Callable[[str, str, int, int], None]  # conversation, stage, done, total


def evaluate(
    conversations: Sequence[Conversation],
    settings: Settings,
    *,
    embedder: Embedder,
    models: Models | None = None,
    annotations: Mapping[str, Annotations] | None = None,
    rivals: Mapping[str, RivalMaker] | None = None,
    cache: Path | None = None,
    progress: Progress = lambda *_: None,
) -> Iterator[Result]:
    """Yield a result for each conversation, one after the other.

    Args:
        conversations: What to remember and to ask.
        settings: What to run.
        embedder: Encodes notes and questions.
        models: Write notes, answer, and judge; by default notes are written by rules.
        annotations: By conversation, what a language model wrote about it, which then makes its notes.
        rivals: What makes each other memory that answers are compared with, by name.
        cache: Folder of replies and vectors, from which a run that was stopped goes on.
        progress: Called now and then with conversation, stage, done and total.

    Raises:
        InvalidInputError: Questions are to be answered, and there is no model to answer them.
        ModelUnavailableError: A model gave no answer. What was answered before is in the cache.
    """
    models = models or Models()
    if rivals and settings.answer_k is None:
        raise InvalidInputError("other memories are compared by answers: have questions answered")
    if settings.answer_k is not None and models.answerer is None:
        raise InvalidInputError("questions are answered by a chat model: name one")
    with (
        TemporaryDirectory(prefix="amem-") as passing,
        closing(Cache(cache or Path(passing))) as kept,
    ):
        encoder = CachedEmbedder(embedder, kept)
        for one in conversations:
            written = (annotations or {}).get(one.id)
            writer, make = models.writer_of(written, kept)
            tell = partial(progress, one.id)
            with ExitStack() as opened:
                heard = _Heard(one, settings, encoder, make, opened)
                for name, rival in (rivals or {}).items():
                    model = models.answerer.cached(kept)  # type: ignore[union-attr] - checked
                    shop = Workshop(model, encoder, written.records if written else (), kept)
                    memory = rival(shop)
                    opened.callback(getattr(memory, "close", lambda: None))
                    heard.rivals[name] = memory, shop
                heard.converse(tell)
                notes = heard.main.notes()
                writes = {variant: built.writes() for variant, built in heard.memories.items()}
            answers, spent = examine(models, kept, one.questions, heard.answering(), settings, tell)
            yield Result(
                conversation=one.id,
                written_by=writer,
                notes=len(notes),
                outcomes=heard.outcomes(),
                writes=writes,
                answers=answers,
                spent={**spent, **heard.spent()},
                full_tokens=count_tokens(systems.whole(notes)),
            )


class _Heard:
    """The memories of a conversation, and what they and the baselines find, by system, question for question."""

    def __init__(
        self,
        conversation: Conversation,
        settings: Settings,
        embedder: CachedEmbedder,
        make: Maker,
        opened: ExitStack,
    ) -> None:
        self.conversation, self.settings, self.embedder = conversation, settings, embedder
        self.memories: dict[str, Built] = {}
        for variant, config in settings.variants.items():
            place = opened.enter_context(TemporaryDirectory(prefix="amem-"))
            model = make()
            memory = AgenticMemory.open(place, model=model, embedder=embedder, config=config)
            opened.enter_context(memory)
            self.memories[variant] = Built(memory, conversation.namespace, model)
        self.main = self.memories[MAIN]
        self.rivals: dict[str, tuple[Memory, Workshop]] = {}
        self.recalled: defaultdict[str, list[Found]] = defaultdict(list)  # by rival
        self.found: dict[str, list[Found]] = {system: [] for system in settings.chosen}
        self.within: list[Mapping[int, Found]] = []

    def converse(self, progress: Callable[[str, int, int], None]) -> None:
        """Add the turns, and search where questions are asked, which are in the order of the conversation."""
        namespace, settings = self.conversation.namespace, self.settings
        recall = systems.budget_finder(self.main.memory, namespace, settings.budgets)
        start, every = 0, self.conversation.turns
        for end, asked in self.conversation.stages():
            for variant, built in self.memories.items():
                stage = "build" if variant == MAIN else f"build {variant}"
                told = partial(_told, progress, stage, start, len(every))
                built.memory.add_many(every[start:end], namespace=namespace, progress=told)
            for name, (memory, shop) in self.rivals.items():
                progress(f"build {name}", start, len(every))
                memory.add(every[start:end])
                texts = [question.text for question in asked]
                self.recalled[name] += shop.recalled(memory, texts, settings.concurrency)
            start = end
            finders = {}
            if set(settings.chosen) & set(systems.BASELINES):
                finders = systems.baseline_finders(self.main.notes(), self.embedder, settings.depth)
            for system in set(settings.chosen) - finders.keys():
                ours = self.memories.get(system, self.main).memory
                links, depth = system != systems.WITHOUT_LINKS, settings.depth
                finders[system] = systems.memory_finder(ours, namespace, depth, links=links)
            self.within += [recall(question.text) for question in asked]
            for system, found in self.found.items():
                found += [finders[system](question.text) for question in asked]

    def answering(self) -> dict[str, list[Found]]:
        """Return what questions are answered from: with budgets, what the memory shows in each, not its first hits."""
        recalled = {
            f"{MAIN} in {budget} tokens": [one[budget] for one in self.within]
            for budget in self.settings.budgets
        }
        searched = {n: one for n, one in self.found.items() if not recalled or n != MAIN}
        return recalled | searched | self.recalled

    def spent(self) -> dict[str, Spent]:
        """Return what the other memories asked of the model, to be built and to recall."""
        return {
            f"{stage} {name}": shop.spent(stage)
            for name, (_, shop) in self.rivals.items()
            for stage in ("build", "recall")
        }

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what was found for each question, as ids."""
        ks, names = self.settings.ks, [name for name in self.found if name != systems.FULL]
        return tuple(
            Outcome(
                question=question,
                found={name: self.found[name][n].ids for name in names},
                shown={
                    name: {k: count_tokens(self.found[name][n].context(k)) for k in ks}
                    for name in names
                },
                within={budget: one.ids for budget, one in self.within[n].items()},
            )
            for n, question in enumerate(self.conversation.questions)
        )


def _told(told: Callable[..., None], stage: str, start: int, total: int, done: int, _: int) -> None:
    told(stage, start + done, total)


@dataclass(slots=True)
class Built:
    """A memory, and the model that makes its notes."""

    memory: AgenticMemory
    namespace: tuple[str, ...]
    model: ChatModel | None

    def notes(self) -> list[Note]:
        """Return all notes."""
        return self.memory.get_all(namespace=self.namespace, limit=1_000_000)

    def writes(self) -> dict[str, float]:
        """Return what building took and gave so far.

        Calls, tokens and `rejected_replies` are a language model's, so they are 0 without one. Of the
        `annotated_links` in recorded annotations, `offered_links` had their target among the candidates. `unfinished`
        notes are not linked.
        """
        notes = self.notes()
        spent = Counter(self.memory.stats()["usage"]["total"] if self.model else {})
        tokens = ("input_tokens", "output_tokens", "rejected_replies")
        nothing: dict[str, tuple[()]] = {"links": ()}
        return {
            "notes": len(notes),
            "model_calls": spent["calls"],
            **{name: spent[name] for name in tokens},
            "links": sum(link.direction == "out" for note in notes for link in note.links.values()),
            "updates": sum(entry.cause != note.id for note in notes for entry in note.contexts),
            "unfinished": sum(note.state != "done" for note in notes),
            "annotated_links": len(getattr(self.model, "annotated", nothing)["links"]),
            "offered_links": len(getattr(self.model, "offered", nothing)["links"]),
        }
