"""`amem eval sweep`: how many hits to show."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..evaluation import Settings, sweep
from ..evaluation.report.sweep_page import render
from .eval_command import EvalOptions, command
from .eval_data import Annotations, Dataset, Golds, Names, Ratio, read
from .eval_options import ASKING, names, numbers

Ks = Annotated[
    str, typer.Option(help="Numbers of hits: 10..50 (in steps of ten), 10..50:5, or 5,10,20.")
]
Choose = Annotated[
    str,
    typer.Option(
        help="Conversations on which the number is chosen; it is reported on the others. By default "
        "the first half chooses."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "sweep", ASKING)(sweep_command)


def sweep_command(
    options: EvalOptions,
    dataset: Dataset,
    annotations: Annotations = None,
    conversations: Names = "",
    ratio: Ratio = 1.0,
    golds: Golds = None,
    k: Ks = "10..50",
    choose: Choose = "",
) -> None:
    """Measure recall and, with --answer, answers over the number of hits shown.

    Each memory is built once. The best number is chosen on some conversations and reported on others.
    """
    from ..evaluation.plots import page  # noqa: PLC0415 - slow, and needs an extra

    data = read(dataset, annotations, conversations, ratio, golds)
    sides = sweep.split(data.conversations, names(choose))
    ks = numbers(k)
    settings = Settings(
        ks=ks,
        answer_ks=ks if options.answer else (),
        concurrency=options.concurrency,
        build_concurrency=options.build_concurrency,
    )
    embedder = options.make_embedder()
    found = sweep.curves(
        data.measured(settings, options, embedder),
        ks,
        sides,
        data.described(settings, options, embedder),
        embedder=embedder if options.answer else None,
    )
    options.write("sweep", found, render(found))
    page.write(options.out)
    typer.echo(json.dumps(found, indent=2) if options.as_json else str(options.out / "sweep.md"))
