"""How long MiniLmEmbedder takes, as a share of what sentence-transformers takes with the same weights.

Both encode the same texts by turns in one process, so the ratio holds on a busy machine too. CPU time is that
of all threads. Needs the extra `sentence-transformers`: `make bench-embedder`.

    python benchmarks/embedder.py
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time

import numpy as np

from amem_integrations import Embedder, MiniLmEmbedder, SentenceTransformerEmbedder

QUERY = "What crafts does Melanie like to do?"
SPEECH = "we went to the pottery class by train last week and it was late again but so much fun"
TURNS = 256

AIM_QUERY, AIM_TURNS = 0.5, 1.0


def main() -> None:
    """Measure and print."""
    ours = MiniLmEmbedder(cache_size=0)
    theirs = SentenceTransformerEmbedder(cache_size=0, device="cpu")
    print(f"{'':22}{'wall':>8}{'min-max':>14}{'CPU':>8}")
    _report("a query", [QUERY], 30, ours, theirs)
    _report(f"{TURNS} turns", _turns(), 5, ours, theirs)
    print(f"\nAim: a query at most {AIM_QUERY}, {TURNS} turns at most {AIM_TURNS} times.")


def _turns() -> list[str]:
    """Return texts as long as the turns of a conversation: 5 to 60 words, 25 on average."""
    random, words = np.random.default_rng(0), SPEECH.split()
    lengths = np.clip(random.gamma(3, 8.3, TURNS), 5, 60).astype(int)
    return [" ".join(random.choice(words, length)) for length in lengths]


def _report(name: str, texts: list[str], rounds: int, ours: Embedder, theirs: Embedder) -> None:
    for embedder in (ours, theirs):
        embedder.embed_documents(texts)  # what is made once is made
    wall, cpu = [], []
    for _ in range(rounds):
        one = _time(lambda: ours.embed_documents(texts))
        other = _time(lambda: theirs.embed_documents(texts))
        wall.append(one[0] / other[0])
        cpu.append(one[1] / other[1])
    spread = f"{min(wall):.2f}-{max(wall):.2f}"
    print(f"{name:22}{median(wall):8.2f}{spread:>14}{median(cpu):8.2f}")


def _time(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = perf_counter(), process_time()
    work()
    return perf_counter() - wall, process_time() - cpu


if __name__ == "__main__":
    main()
