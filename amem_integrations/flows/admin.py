"""Admin: what is in a memory, and what it works with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, MissingExtraError
from ..fetch import note_pages
from ..notes import Namespace, check_namespace
from ..runtime import Runtime, resolve
from ..thresholds import gate, relevance_floor
from .health import Health, examine
from .usage import spent_by

if TYPE_CHECKING:
    import networkx as nx  # type: ignore[import-untyped,unused-ignore]

COSTS = ("calls", "input_tokens", "output_tokens")
PACKAGES = ("amem-integrations", "qdrant-client", "qdrant-edge-py")


async def namespaces(runtime: Runtime) -> list[Namespace]:
    """Return the namespaces that hold notes, sorted."""
    return await resolve(runtime.store.namespaces())


async def stats(runtime: Runtime, *, namespace: Sequence[str] | None = None) -> dict[str, Any]:
    """Return counts over one namespace, or (None) over all.

    Keys:

    - `namespaces`, `notes`, `states` (by state), `threads`, `links` (each pair once), `evolved` (notes with
      context from a later note), `without_links`
    - `degree`: how many links notes have, as `min`, `median`, `p90`, `max` and `histogram` (the number of notes
      with no link, with one, and so on)
    - `superseded`: notes whose place another takes now; `superseded_share`: of all notes
    - `duplicates`: notes that say, but for case, punctuation and spacing, what an earlier one of their
      namespace says; what says the same in other words is not counted
    - `proposals`: those that wait for an answer, by the model that made them
    - `rejected_replies`: answers that could not be used, by model, since this memory was opened
    - `usage`: what models were asked since this memory was opened: by task (`construct`, `evolve`, …), in `total`, and in
      `models` by the name that notes and history know a model by: `calls`, `input_tokens`, `output_tokens`,
      `rejected_replies`, `dropped` (links and updates that named no note shown), `refused` (requests that the endpoint
      does not take, too long ones for example), `unavailable` (calls that got no answer)
    - `cost`: what chat models have cost on all days, as `usage` has it by day: `calls`, `input_tokens`, `output_tokens`, `tokens_per_note`
    - `stopped`: sentences that say which namespaces have reached a limit of today
    """
    spaces = await namespaces(runtime) if namespace is None else [check_namespace(namespace)]
    health, costs, stopped = Health(), Counter[str](), list[str]()
    for space in spaces:
        spent = await spent_by(runtime, space)
        costs.update({name: sum(getattr(entry, name) for entry in spent) for name in COSTS})
        if runtime.budget is not None:
            runtime.budget.take_over(space, spent)
            stopped += [refusal] if (refusal := runtime.budget.refusal(space)) else []
        await examine(runtime, space, health)
    asked = runtime.usage.snapshot()
    rejected = {name: counts.get("rejected_replies", 0) for name, counts in asked["models"].items()}
    return {
        "namespaces": len(spaces),
        **health.values(),
        "rejected_replies": {model: count for model, count in rejected.items() if count},
        "usage": asked,
        "cost": _cost(costs, health.states.total()),
        "stopped": stopped,
    }


def _cost(counts: Mapping[str, int], notes: int) -> dict[str, float]:
    tokens = counts["input_tokens"] + counts["output_tokens"]
    return {
        **{name: counts[name] for name in COSTS},
        "tokens_per_note": round(tokens / notes, 1) if notes else 0,
    }


async def info(runtime: Runtime) -> dict[str, Any]:
    """Return what this memory was made with and works with; worth adding to the report of a fault.

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
    made: dict[str, Any] = dict(getattr(runtime.store, "made_with", {}))
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
    try:
        import networkx as nx  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("networkx", "cli") from error
    graph = nx.DiGraph()
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
