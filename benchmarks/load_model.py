"""What a memory of very many users would take: shards, nodes, memory, disk, and tokens, as a table.

Measured here, with a few notes and the stand-in for a server: requests an operation, bytes and changes a note, tokens
of the prompts. Taken from a run on a real server: its own time for an operation. Published by Qdrant: what
a vector takes. Everything else is an argument, and the rest is arithmetic.

    python benchmarks/load_model.py [--users 1000000] [--notes 1000] [--turns 10000] [--replicas 2]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.qdrant_server import FakeQdrant, serving  # noqa: E402

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput  # noqa: E402
from amem_integrations.stores.payloads import encode_change, encode_note  # noqa: E402
from amem_integrations.testing import HashEmbedder, ScriptedModel  # noqa: E402

ANN = ("ann",)
TURNS = [
    f"On day {n} I went to the {place} with {who}, and we talked about the {thing} that she wants to buy next year"
    for n in range(8)
    for place, who, thing in (
        ("market", "Mia", "boat"),
        ("lake", "Lena", "piano"),
        ("museum", "Nora", "kiln"),
    )
]
SPARSE_BYTES = 8  # an index and a weight
POSTINGS = 60  # words of a note
# Core-milliseconds of a Qdrant 1.19 with 5,000 notes on two cores, for 3 and for 30 requests; see docs/scale.md.
SEARCH_MS, ADD_MS, ADD_REQUESTS = 2.8, 19.0, 30
OVERHEAD = 1.5  # memory of vectors to their size, by Qdrant's capacity planning
SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked of it, and what the machines are like."""

    users: int
    notes: int  # of one user
    turns: int  # a second, at the peak: one search, and one note added and evolved
    replicas: int
    dimensions: int
    node_memory: int  # GiB
    node_cores: int
    active: float  # share of the users whose notes are to be in memory
    busy: float  # share of a core's time that is used at the peak
    average: float  # turns of the day to those at the peak
    prices: tuple[float, float]  # of a million tokens in, and out


@dataclass(frozen=True, slots=True)
class Measured:
    """What a note is and costs, as measured with a few."""

    search_requests: int
    add_requests: float
    note_bytes: float
    changes: float
    change_bytes: float
    tokens_alone: tuple[float, float]  # in and out, of a note that evolves alone
    tokens_together: tuple[float, float]  # in batches of 8


def reply(request: Any) -> dict[str, Any]:  # noqa: ANN401 - a request
    """Answer as a small model does: a sentence, some words, a link, and now and then an update."""
    if request.task == "construct":
        return {"notes": [_attributes(note) for note in request.inputs["notes"]]}
    return {"notes": [_evolution(note, n) for n, note in enumerate(request.inputs["notes"])]}


def _attributes(note: dict[str, Any]) -> dict[str, Any]:
    words = note["content"].split()
    context = f"The speaker tells of a day out with a friend and of plans: {note['content'][:60]}"
    return {
        "id": note["alias"],
        "context": context,
        "keywords": words[-5:],
        "tags": ["trip", "plans"],
    }


def _evolution(note: dict[str, Any], number: int) -> dict[str, Any]:
    near = note["candidates"][:2]
    links = [
        {"to": c["alias"], "relation": "continues", "reason": "the same friend", "strength": 0.7}
        for c in near
    ]
    updates = (
        [{"to": near[0]["alias"], "context": "She still wants to buy it."}]
        if near and number % 8 == 0
        else []
    )
    return {"id": note["alias"], "links": links, "updates": updates}


def measure() -> Measured:
    """Run a few notes through the stand-in for a server."""
    with serving(FakeQdrant()) as fake:
        config = MemoryConfig(min_gate_similarity=-1.0)
        together = _tokens(fake.url, "together", config)
        options: dict[str, Any] = {"model": ScriptedModel(reply), "config": config}
        with AgenticMemory.open(fake.url, embedder=HashEmbedder(), **options) as memory:
            start = len(fake.requests)
            for text in TURNS:
                memory.add(text, namespace=ANN, thread="t", speaker="Ann")
            added = len(fake.requests) - start
            start = len(fake.requests)
            memory.search("What does she want to buy?", namespace=ANN)
            searched = len(fake.requests) - start
            notes, changes = (
                memory.get_all(namespace=ANN, limit=1000),
                memory.history(None, namespace=ANN),
            )
            alone = _a_note(memory)
    return Measured(
        searched,
        added / len(TURNS),
        sum(len(json.dumps(encode_note(note, ANN))) for note in notes) / len(notes),
        len(changes) / len(notes),
        sum(len(json.dumps(encode_change(made, ANN))) for made in changes) / len(changes),
        alone,
        together,
    )


def _tokens(url: str, collection: str, config: MemoryConfig) -> tuple[float, float]:
    with AgenticMemory.open(
        url,
        embedder=HashEmbedder(),
        model=ScriptedModel(reply),
        config=config,
        collection=collection,
    ) as memory:
        memory.add_many([NoteInput(content=text, thread="t") for text in TURNS], namespace=ANN)
        return _a_note(memory)


def _a_note(memory: AgenticMemory) -> tuple[float, float]:
    total = memory.stats()["usage"]["total"]
    return total["input_tokens"] / len(TURNS), total["output_tokens"] / len(TURNS)


def table(load: Load, found: Measured) -> list[tuple[str, str, str]]:
    """Return what it takes: the name, the value, and how it comes about."""
    notes, gib = load.users * load.notes, 2**30
    vector = 4 * load.dimensions
    words = SPARSE_BYTES * POSTINGS
    full = notes * vector * OVERHEAD / gib
    small = notes * (load.dimensions * OVERHEAD + words) / gib
    hot = load.active * notes * (vector * OVERHEAD + words + found.note_bytes) / gib
    disk = notes * (vector + words + found.note_bytes + found.changes * found.change_bytes) / gib
    request = ADD_MS / ADD_REQUESTS
    written = found.add_requests * request
    cores = load.turns * (SEARCH_MS + written * load.replicas) / 1000 / load.busy
    by_memory, by_cores = (
        ceil(hot * load.replicas / load.node_memory),
        ceil(cores / load.node_cores),
    )
    nodes = max(by_memory, by_cores, load.replicas + 1)
    daily = load.turns * load.average * SECONDS_A_DAY
    return [
        ("notes", f"{notes:.0e}", f"{load.users:,} users of {load.notes:,}"),
        ("requests of a turn", f"{found.search_requests} + {found.add_requests:.1f}", "measured: search + add that evolves"),
        ("requests a second", f"{load.turns * (found.search_requests + found.add_requests):,.0f}", "computed"),
        ("a note", f"{found.note_bytes / 1024:.1f} KiB + {found.changes:.1f} changes of {found.change_bytes / 1024:.1f} KiB", "measured"),
        ("vectors in memory, float32", f"{full:,.0f} GiB", f"computed, for one copy: 4 · {load.dimensions} bytes · {OVERHEAD}"),
        ("vectors in memory, int8, full ones on disk", f"{small:,.0f} GiB", "computed, for one copy, with the words"),
        ("all of the active users' notes in memory", f"{hot:,.0f} GiB", f"computed, for one copy: {load.active:.0%} of the users"),
        ("disk", f"{disk * load.replicas / 1024:,.1f} TiB", f"computed, {load.replicas} copies, without logs and snapshots"),
        ("cores of the servers", f"{cores:,.0f}", f"computed from {SEARCH_MS} ms a search and {written:.1f} ms an add, {load.busy:.0%} busy"),
        ("nodes", f"{nodes:,}", f"computed: {by_memory} by memory, {by_cores} by cores ({load.node_memory} GiB, {load.node_cores} cores)"),
        ("shard keys", f"{2 * nodes:,}", f"two a node; {notes / nodes / 2:,.0f} notes in each"),
        ("tokens of a note, evolved alone", f"{found.tokens_alone[0]:,.0f} in, {found.tokens_alone[1]:,.0f} out", "measured, by the estimate for endpoints that count none"),
        ("tokens of a note, in batches of 8", f"{found.tokens_together[0]:,.0f} in, {found.tokens_together[1]:,.0f} out", "measured"),
        *(
            (f"a day of evolution, {how}", f"{daily * sum(t) / 1e9:,.0f} billion tokens, {_cost(daily, t, load):,.0f}", f"computed: {daily:.1e} notes a day")
            for how, t in (("alone", found.tokens_alone), ("in batches of 8", found.tokens_together))
        ),
        ("a day of evolution, by rules", "0", "no model"),
    ]  # fmt: skip


def _cost(notes: float, tokens: tuple[float, float], load: Load) -> float:
    return notes * sum(t * price for t, price in zip(tokens, load.prices, strict=True)) / 1e6


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=10**6)
    parser.add_argument("--notes", type=int, default=1000, help="of one user")
    parser.add_argument("--turns", type=int, default=10**4, help="a second, at the peak")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--node-memory", type=int, default=128, help="GiB")
    parser.add_argument("--node-cores", type=int, default=32)
    parser.add_argument("--active", type=float, default=0.1, help="share of users in memory")
    parser.add_argument("--busy", type=float, default=0.6, help="share of a core's time")
    parser.add_argument("--average", type=float, default=0.4, help="turns of the day to the peak")
    parser.add_argument("--prices", type=float, nargs=2, default=(0.1, 0.4), help="of 10^6 tokens")
    given = vars(parser.parse_args())
    load = Load(**{**given, "prices": tuple(given["prices"])})
    print("| | value | how |\n| --- | --- | --- |")
    for row in table(load, measure()):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
