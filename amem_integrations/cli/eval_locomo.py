"""`amem eval locomo`: recall of evidence, and answers to questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from ..evaluation import Conversation, Settings
from ..evaluation.report import build
from ..evaluation.report.markdown import render
from ..evaluation.systems import ABLATIONS, BASELINES
from ..notes import Note
from ..ports import Embedder
from .eval_command import EvalOptions, command
from .eval_data import Annotations, Dataset, Golds, Names, Ratio, read
from .eval_options import ASKING, numbers
from .terminal import console, table

Ks = Annotated[str, typer.Option(help="How many of the first hits count, for each figure.")]
AnswerK = Annotated[int, typer.Option(help="How many of the first hits the model answers from.")]
Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines",
        help="Compare with plain rankings of the turns and, for answers, the whole conversation.",
    ),
]
Ablations = Annotated[
    bool,
    typer.Option(
        "--ablations",
        help="Compare with the memory without links, without evolution, without both, and built by "
        "the paper's calls.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "locomo", ASKING)(locomo_command)


def locomo_command(  # noqa: PLR0913, PLR0917 - a parameter for each option
    options: EvalOptions,
    dataset: Dataset,
    annotations: Annotations = None,
    conversations: Names = "",
    ratio: Ratio = 1.0,
    golds: Golds = None,
    k: Ks = "5,10,20",
    answer_k: AnswerK = 10,
    baselines: Baselines = False,
    ablations: Ablations = False,
) -> None:
    """Measure recall of evidence on LoCoMo and, with --answer, what a model answers.

    Every turn becomes a note and every question a search. Notes are written from the annotations
    where there are any, else by the model if one is named, else by rules. A run that was stopped goes
    on where it was: the same command again.
    """
    from ..evaluation.plots import page, views  # noqa: PLC0415 - slow, and needs an extra

    prices = options.prices  # before anything is paid for
    data = read(dataset, annotations, conversations, ratio, golds)
    settings = Settings(
        ks=numbers(k),
        answer_ks=(answer_k,) if options.answer else (),
        systems=(*(ABLATIONS if ablations else ()), *(BASELINES if baselines else ())),
        concurrency=options.concurrency,
        build_concurrency=options.build_concurrency,
    )
    embedder = options.make_embedder()
    picture = _Picture(views.views)
    results = data.measured(settings, options, embedder, picture)
    report = build(
        results,
        settings.ks,
        data.described(settings, options, embedder),
        embedder=embedder if options.answer else None,
        prices=prices,
    )
    options.write("report", report, render(report))
    options.write("notes", picture.taken)
    page.write(options.out)
    if options.as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(report)
        typer.echo(str(options.out / "report.html"))


class _Picture:
    """Keeps what the notes of the first conversation look like to the embedder."""

    def __init__(self, views: Callable[[Sequence[Note], Embedder], dict[str, Any]]) -> None:
        self._views = views
        self.taken: dict[str, Any] = {}

    def __call__(
        self, _conversation: Conversation, notes: Sequence[Note], embedder: Embedder
    ) -> None:
        if not self.taken:
            self.taken = self._views(notes, embedder)


def _show(report: dict[str, Any]) -> None:
    out = console()
    out.print(_recall(report))
    if "answers" in report:
        out.print(_answers(report))


def _recall(report: dict[str, Any]) -> Table:
    ks = report["settings"]["k"]
    shown = table(
        "",
        *(f"@{k}" for k in ks),
        *(f"all@{k}" for k in ks),
        title=f"Recall of {report['questions']['used']} questions over {report['notes']} notes",
    )
    for system, found in report["retrieval"].items():
        figures = [found[name][str(k)] for name in ("recall", "all_evidence") for k in ks]
        shown.add_row(system, *("-" if one is None else f"{one:.3f}" for one in figures))
    return shown


def _answers(report: dict[str, Any]) -> Table:
    measures = ("f1", "bleu1", "rougeL", "sbert")
    shown = table(
        "",
        *measures,
        "tokens",
        "saved",
        title="Answers, by LoCoMo's own scoring, and their context",
    )
    for system, found in report["answers"].items():
        means = [found["official"][measure]["mean"] for measure in measures]
        shown.add_row(
            system,
            *("-" if one is None else f"{one:.3f}" for one in means),
            f"{found['context_tokens']:.0f}",
            f"{found['saved']:.0%}",
        )
    return shown
