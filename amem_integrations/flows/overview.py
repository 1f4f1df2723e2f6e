"""Overview: what is in a memory, how well it is, what it works with, and what chat models have cost."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ..budget import LedgerEntry
from ..decisions import Call
from ..errors import ConfigurationError, needed
from ..fetch import living, note_pages, recorded_namespaces
from ..filters import WITHOUT_VECTOR, check_count, conditions_of
from ..ids import first_seq, now, time_of
from ..journal.projection import differing
from ..notes import Namespace, Note, check_namespace
from ..ports import RecordQuery
from ..retrieval.current_facts import CurrentFacts, named
from ..runtime import COSTS, Runtime, resolve
from ..thresholds import gate, relevance_floor
from .history import proposals
from .writing import writer_of

if TYPE_CHECKING:
    import networkx as nx  # type: ignore[import-untyped,unused-ignore]

PACKAGES = ("amem-integrations", "qdrant-client", "qdrant-edge-py")


async def namespaces(
    runtime: Runtime, *, where: Mapping[str, Any] | None = None
) -> list[Namespace]:
    """Return the namespaces that hold notes, or notes which meet conditions (see `search`), sorted.

    Raises:
        InvalidInputError: A bad `where`.
    """
    return await resolve(runtime.store.namespaces(conditions_of(where)))


async def stats(runtime: Runtime, *, namespace: Sequence[str] | None = None) -> dict[str, Any]:
    """Return counts over one namespace, or (None) over all.

    Keys:

    - `namespaces`, `notes`, `states` (by state), `threads`, `links` (each pair once), `evolved` (notes with
      context from a later note), `without_links`
    - `superseded`: notes whose place another takes now; `superseded_share`: of all notes
    - `duplicates`: notes that say, but for case, punctuation and spacing, what an earlier one of their
      namespace says; what says the same in other words is not counted
    - `proposals`: those that wait for an answer, by the model that made them
    - `rejected_replies`: answers that could not be used, by model, since this memory was opened
    - `usage`: what models were asked since this memory was opened: by task (`construct`, `evolve`, …), in `total`, and in
      `models` by the name that notes and history know a model by: `calls`, `input_tokens`, `output_tokens`,
      `rejected_replies`, `dropped` (links and updates that named no note shown), `refused` (requests that the endpoint
      does not take, too long ones for example), `unavailable` (calls that got no answer); a counter is there once
      something was counted
    - `cost`: what chat models have cost on all days, as `usage` has it by day: `calls`, `input_tokens`, `output_tokens`,
      `tokens_per_note`
    - `stopped`: sentences that say which namespaces have reached a limit of today
    """
    spaces = await namespaces(runtime) if namespace is None else [check_namespace(namespace)]
    costs, counts, states, waiting = (Counter[Any]() for _ in range(4))
    stopped = list[str]()
    # Namespaces of which all notes are gone have cost something too.
    for space in await recorded_namespaces(runtime.store, namespace):
        spent = await spent_by(runtime, space)
        costs.update({name: sum(getattr(entry, name) for entry in spent) for name in COSTS})
        runtime.budget.take_over(space, spent)
        stopped += filter(None, [runtime.budget.refusal(space)])
    for space in spaces:
        said, threads, outdated = set[str](), set[str](), dict[str, Note]()
        async for page in note_pages(runtime.store, space):
            for note in page:
                words = _normalised(note.content)
                states[note.state] += 1
                counts["without_links"] += not note.links
                counts["links"] += sum(link.direction == "out" for link in note.links.values())
                counts["evolved"] += any(entry.cause != note.id for entry in note.contexts)
                counts["duplicates"] += words in said
                said.add(words)
                threads |= {note.thread} if note.thread is not None else set()
                outdated |= {note.id: note} if note.supersessions else {}
        counts["threads"] += len(threads)
        known = outdated | await living(runtime.store, space, named(outdated.values()))
        current = CurrentFacts(known, runtime.clock.now(), now=now())
        counts["superseded"] += sum(bool(current.successors(note)) for note in outdated.values())
        waiting.update(made.by for made in await proposals(runtime, namespace=space))
    notes, asked = states.total(), runtime.usage.snapshot()
    rejected = {name: count.get("rejected_replies", 0) for name, count in asked["models"].items()}
    tokens = costs["input_tokens"] + costs["output_tokens"]
    return {
        "namespaces": len(spaces),
        "notes": notes,
        "states": dict(states),
        **{name: counts[name] for name in ("threads", "links", "evolved", "without_links")},
        "superseded": counts["superseded"],
        "superseded_share": round(counts["superseded"] / notes, 4) if notes else 0.0,
        "duplicates": counts["duplicates"],
        "proposals": dict(waiting),
        "rejected_replies": {model: count for model, count in rejected.items() if count},
        "usage": asked,
        "cost": {
            **{name: costs[name] for name in COSTS},
            "tokens_per_note": round(tokens / notes, 1) if notes else 0,
        },
        "stopped": stopped,
    }


async def info(runtime: Runtime) -> dict[str, Any]:
    """Return the parts and settings that this memory was made with; worth adding to the report of a fault.

    Keys: `embedder` and `dimensions` (of the vectors in it), `model`, `versions` (by package) and, of what
    is stored, `format`, `schema`, `template`, `bm25` and `created_at` as far as the store tells them. `min_relevance`
    and `min_gate_similarity` are those in force: of the settings, or of the embedder, as they were measured before or are
    found now and kept with the memory, by one call of it. While the embedder does not answer, `min_relevance` is None, as
    whatever is found is shown, and `min_gate_similarity` .5; both are None if there is no embedder to ask and no setting.
    """
    least: float | None
    try:
        floor, least = await relevance_floor(runtime), await gate(runtime)
    except ConfigurationError:  # `amem doctor` loads none
        floor, least = runtime.config.min_relevance, runtime.config.min_gate_similarity
    made: dict[str, Any] = dict(runtime.store.made_with)
    made.pop("cosines", None)
    return {
        "embedder": made.pop("embedder", "") or runtime.embedder.name,
        "dimensions": made.pop("dimensions", runtime.embedder.dimensions),
        "model": runtime.model_name,
        "min_relevance": floor,
        "min_gate_similarity": least,
        "versions": {package: _version(package) for package in PACKAGES},
        **made,
    }


async def graph(runtime: Runtime, *, namespace: Sequence[str]) -> nx.DiGraph:
    """Return the notes as nodes and the links as edges, from the newer note to the older.

    A node carries `content`, `speaker`, `thread`, `at`, `state`, `keywords` and `tags`; an edge
    `relation`, `reason` and `strength`.

    Raises:
        MissingExtraError: networkx is not installed.
    """
    graph = needed("networkx", "cli").DiGraph()
    names = ("content", "speaker", "thread", "at", "state", "keywords", "tags")
    space = check_namespace(namespace)
    pages = note_pages(runtime.store, space, expired=False)
    notes = [note async for page in pages for note in page]
    for note in notes:
        graph.add_node(note.id, **{name: getattr(note, name) for name in names})
    for note in notes:
        for target, link in note.links.items():
            if link.direction == "out" and target in graph:
                values = {"relation": link.relation, "reason": link.reason}
                graph.add_edge(note.id, target, **values, strength=link.strength)
    return graph


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from a checkout"


def _normalised(text: str) -> str:
    """Return the words of a text: without case, punctuation and spacing."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if unicodedata.category(c)[0] in "LNMS" else " " for c in folded)
    return " ".join("".join(kept).split()) or folded


async def unsound(runtime: Runtime) -> tuple[list[str], list[str], list[Note]]:
    """Return the ids of the notes without vectors, and of those whose views are not what was decided; and what failed."""
    bare, differ, failed = list[str](), list[str](), list[Note]()
    for space in await namespaces(runtime):
        writer = writer_of(runtime, space)
        async for page in note_pages(runtime.store, space):
            differ += await differing(writer, [note.id for note in page])
            failed += [note for note in page if note.state == "failed"]
        async for page in note_pages(runtime.store, space, (WITHOUT_VECTOR,)):
            bare += [note.id for note in page]
    return bare, differ, failed


async def usage(
    runtime: Runtime, *, namespace: Sequence[str] | None = None, days: int | None = None
) -> list[LedgerEntry]:
    """Return the costs of chat models, by day (UTC), namespace, task and model; the oldest day first.

    It is kept in the store, so it holds the calls of all processes, and what was spent on notes that were deleted
    since. A call counts for the day on which its operation began, and is written together with what the operation
    brought: the calls of a plan with its `commit`. What this memory asked since it was opened is in `stats`.

    Args:
        namespace: Whose memory; None takes all.
        days: How many days back, of which today is the first; None goes back to the start.

    Raises:
        InvalidInputError: `days` is no whole number of at least 1.
    """
    check_count("days", 1 if days is None else days)
    today = now().date()
    since = None if days is None else today - timedelta(days=min(days, today.toordinal()) - 1)
    spaces = await recorded_namespaces(runtime.store, namespace)
    entries = [entry for space in spaces for entry in await spent_by(runtime, space, since)]
    return sorted(entries, key=lambda entry: (entry.day, entry.namespace, entry.model, entry.task))


async def spent_by(
    runtime: Runtime, namespace: Namespace, since: date | None = None
) -> list[LedgerEntry]:
    """Return the costs of one namespace, from a day on."""
    after = 0 if since is None else first_seq(datetime.combine(since, time(), UTC))
    query = RecordQuery(calls_only=True, since=after)
    found = await resolve(runtime.store.find_records(namespace, query))
    sums: defaultdict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    for call in (one for one in found.values() if isinstance(one, Call)):
        for one in call.cost:
            tokens = {"input_tokens": one.input_tokens, "output_tokens": one.output_tokens}
            sums[time_of(call.seq).date(), one.task, call.by].update(calls=1, **tokens)
    return [
        LedgerEntry(day=day, namespace=namespace, task=task, model=model, **counts)
        for (day, task, model), counts in sums.items()
    ]


async def read_budget(runtime: Runtime, namespace: Namespace) -> str | None:
    """Let the budget know what the ledger says of today, by one query; return why it allows no more, if so."""
    budget = runtime.budget
    if budget.is_limited and budget.refusal(namespace, 1) is None:
        budget.take_over(namespace, await spent_by(runtime, namespace, now().date()))
    return budget.refusal(namespace, 1)
