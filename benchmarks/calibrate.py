"""Which cosines count with an embedder, found on pairs of texts.

Prints the settings for a memory, and the row for the table in `amem_integrations/config.py`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from amem_integrations import Embedder
from amem_integrations.opening import embedder_named
from amem_integrations.stored_note import Vector
from amem_integrations.thresholds import floor_of, gate_of, questions, texts

from .command import EMBEDDER_HELP, command, option


def gate(embedder: Embedder) -> tuple[float, float]:
    """Return what `gate_of` does, for a synchronous embedder."""
    return gate_of(_embedded(embedder, texts()))


def relevance_floor(embedder: Embedder) -> tuple[float, float]:
    """Return what `floor_of` does, for a synchronous embedder."""
    asked = np.stack([np.asarray(embedder.embed_query(one)) for one in questions()])
    return floor_of(_embedded(embedder, texts()), asked)


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vector:
    return np.asarray(embedder.embed_documents(texts))


def _calibrate(given: Namespace) -> None:
    embedder = embedder_named(given.embedder, given.base_url)
    floor, hidden = relevance_floor(embedder)
    least, stopped = gate(embedder)
    print(
        f"With {floor:.2f} a question hides {hidden:.0%} of the notes that answer nothing, and with {least:.2f} the gate "
        f"stops {stopped:.0%} of the sentences about something else.\n",
        f"MemoryConfig(min_relevance={floor:.2f}, min_gate_similarity={least:.2f})",
        f'"{embedder.name}": Cosines(relevance={floor:.2f}, gate={least:.2f}),',
        sep="\n",
    )


main = command(
    "calibrate",
    __doc__,
    _calibrate,
    option("--embedder", metavar="NAME", help=EMBEDDER_HELP),
    option("--base-url", help="URL of an OpenAI-compatible endpoint"),
)

if __name__ == "__main__":
    sys.exit(main())
