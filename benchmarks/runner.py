"""Runs an evaluation of any data set: builds the memories of each conversation and asks the questions on the way.

A memory is built anew in every run, from the replies and vectors that are kept, so a run that was stopped goes on where
it was, and ends as in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import product
from tempfile import TemporaryDirectory

from amem_integrations import AgenticMemory
from amem_integrations.ports import Embedder
from amem_integrations.testing import RecordedModel
from amem_integrations.texts import count_tokens

from .answering import Models, examine
from .cache import Cache, CachedEmbedder
from .data import Annotations, Conversation, Found, Result
from .rivals import Maker, Rival
from .systems import BASELINES, MAIN, WITHOUT_LINKS, Ours, Settings, in_budget

Progress = Callable[[str, str, int, int], None]  # conversation, stage, done, total
Finder = Callable[[Sequence[str]], list[Found]]


def evaluate(
    conversations: Sequence[Conversation],
    settings: Settings,
    *,
    embedder: Embedder,
    models: Models | None = None,
    annotations: Mapping[str, Annotations] | None = None,
    rivals: Mapping[str, Maker] | None = None,
    kept: Cache | None = None,
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
        kept: Vectors, and replies to other memories, from which a run that was stopped goes on; closed in the end.
        progress: Called now and then with conversation, stage, done and total.

    Raises:
        ModelUnavailableError: A model gave no answer. What was answered before is in the cache.
    """
    models, makers = models or Models(), rivals or {}
    with closing(kept or Cache()) as cache:
        encoder = CachedEmbedder(embedder, cache)
        for one in conversations:
            written, tell = (annotations or {}).get(one.id), partial(progress, one.id)
            with ExitStack() as opened:
                memories = dict[str, Ours]()
                for variant, config in settings.variants.items():
                    place = opened.enter_context(TemporaryDirectory(prefix="amem-"))
                    model = RecordedModel(written.records) if written else models.writer
                    memory = AgenticMemory.open(place, model=model, embedder=encoder, config=config)
                    opened.enter_context(memory)
                    memories[variant] = Ours(memory, model, one.namespace, settings.depth)
                others = dict[str, Rival]()
                for name, make in makers.items():
                    records = written.records if written else ()
                    assert models.answerer  # noqa: S101 - they are compared by answers
                    tools = (models.answerer, encoder, cache, records, settings.concurrency)
                    others[name] = Rival(make, *tools)
                    opened.callback(others[name].close)
                finders = _finders(settings, memories, encoder)
                finders |= {name: rival.find for name, rival in others.items()}
                found = _heard(one, {**memories, **others}, finders, tell)
                answered = {
                    n: some for n, some in found.items() if n != MAIN or not settings.budgets
                }
                spent = examine(models, one.questions, answered, settings, tell)
                for stage, (name, rival) in product(("build", "recall"), others.items()):
                    spent[f"{stage} {name}"] = rival.spent(stage)
                main, writer = memories[MAIN], getattr(models.writer, "name", "rules")
                yield Result(
                    conversation=one,
                    written_by="annotations" if written else writer,
                    notes=len(main.notes()),
                    found=found,
                    writes={variant: memory.writes() for variant, memory in memories.items()},
                    spent=spent,
                    full_tokens=count_tokens(main.whole()),
                )


def _finders(
    settings: Settings, memories: Mapping[str, Ours], embedder: Embedder
) -> dict[str, Finder]:
    """Return what finds something for questions, by the name of the system."""
    main, largest = memories[MAIN], max(settings.budgets, default=0)
    finders: dict[str, Finder] = {
        in_budget(budget): partial(main.recall, budget=budget, largest=largest)
        for budget in settings.budgets
    }
    for name in settings.chosen:
        if name in BASELINES:
            finders[name] = partial(main.ranked, name=name, embedder=embedder)
        else:
            links = name != WITHOUT_LINKS
            finders[name] = partial(memories.get(name, main).find, links=links)
    return finders


def _heard(
    conversation: Conversation,
    hearing: Mapping[str, Ours | Rival],
    finders: Mapping[str, Finder],
    progress: Callable[[str, int, int], None],
) -> dict[str, list[Found]]:
    """Add the turns, search where questions are asked, and return what each system found, question for question."""
    found: dict[str, list[Found]] = {name: [] for name in finders}
    start, every = 0, conversation.turns
    for end, asked in conversation.stages():
        for name, one in hearing.items():
            stage = "build" if name == MAIN else f"build {name}"
            tell = partial(progress, stage)
            one.add(every[start:end], lambda n: tell(start + n, len(every)))  # noqa: B023 - called at once
        for name, find in finders.items():
            found[name] += find([question.text for question in asked])
        start = end
    return found
