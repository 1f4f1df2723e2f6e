"""How long `MiniLmEmbedder` takes, as a share of what sentence-transformers takes with the same weights.

Both encode the same texts by turns in one process. Needs the extra `sentence-transformers`:
`make bench-embedder`, or `python -m benchmarks.embedder`.
"""

from __future__ import annotations

import sys

import numpy as np

from amem_integrations import MiniLmEmbedder, SentenceTransformerEmbedder

from .command import script
from .timing import Operation, by_turns, print_ratio

QUERY = "What crafts does Melanie like to do?"
SPEECH = "we went to the pottery class by train last week and it was late again but so much fun"
TURNS = 256
AIM_QUERY, AIM_TURNS = 0.5, 1.0


def measure(rounds: int) -> None:
    """Measure and print."""
    theirs = SentenceTransformerEmbedder(cache_size=0, device="cpu")
    ours = MiniLmEmbedder(cache_size=0, threads=None)  # as many as theirs takes
    print(f"{'':36}{'theirs':>12}{'ours':>12}{'ratio':>8}")
    for name, texts, times, aim in (
        ("a query", [QUERY], 6 * rounds, AIM_QUERY),
        (f"{TURNS} turns", turns(), rounds, AIM_TURNS),
    ):
        both: dict[str, Operation] = {
            "theirs": lambda _, some=texts: theirs.embed_documents(some),  # type: ignore[misc]
            "ours": lambda _, some=texts: ours.embed_documents(some),  # type: ignore[misc]
        }
        by_turns(both, 1)  # what is made once is made
        base, own = by_turns(both, times).values()
        print_ratio(name, base, own, aim)


def turns() -> list[str]:
    """Return texts as long as the turns of a conversation: 5 to 60 words, 25 on average."""
    random, words = np.random.default_rng(0), SPEECH.split()
    lengths = np.clip(random.gamma(3, 8.3, TURNS), 5, 60).astype(int)
    return [" ".join(random.choice(words, length)) for length in lengths]


main = script("embedder", __doc__, measure, rounds=5)

if __name__ == "__main__":
    sys.exit(main())
