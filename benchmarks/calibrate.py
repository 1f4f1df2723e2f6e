"""Which cosines count with an embedder, found on pairs of texts: `python -m benchmarks.calibrate --embedder NAME`.

Prints the settings for a memory, and the row for the table in `amem_integrations/embedder_table.py`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from amem_integrations.calibration import gate, relevance_floor, similarity_of_repeats
from amem_integrations.cli.options import make_embedder


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the embedder, and print."""
    parser = ArgumentParser("python -m benchmarks.calibrate", description="Calibrate an embedder.")
    parser.add_argument(
        "--embedder",
        metavar="NAME",
        help="a sentence-transformers model by name or folder, openai:NAME, fastembed:NAME, python:MODULE:NAME, or "
        "hash; by default all-MiniLM-L6-v2",
    )
    parser.add_argument("--base-url", help="URL of an OpenAI-compatible endpoint")
    given = parser.parse_args(arguments)
    embedder = make_embedder(given.embedder, given.base_url)
    floor, hidden = relevance_floor(embedder)
    least, stopped = gate(embedder)
    repeats, found, _ = similarity_of_repeats(embedder)
    print(
        f"With {floor:.2f} a question hides {hidden:.0%} of the notes that answer nothing, with {least:.2f} the gate stops "
        f"{stopped:.0%} of the sentences about something else, and {repeats:.2f} finds {found:.0%} of the repeats and no "
        "pair that differs in a fact.\n",
        f"MemoryConfig(min_relevance={floor:.2f}, min_gate_similarity={least:.2f})",
        f'"{embedder.name}": Cosines(relevance={floor:.2f}, gate={least:.2f}, repeats={repeats:.2f}),',
        sep="\n",
    )


if __name__ == "__main__":
    main()
