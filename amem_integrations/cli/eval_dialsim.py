"""`amem eval dialsim`: questions on the way through the script of a show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..errors import InvalidInputError
from ..evaluation import dialsim
from ..evaluation.dialsim.page import render
from ..evaluation.dialsim.provenance import describe
from ..ports import Embedder
from .eval_command import EvalOptions, command
from .eval_options import ASKING, names
from .terminal import console, table

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A show as published (friends_dialsim.pickle, unpacked), or the same as JSON.",
    ),
]
Agent = Annotated[
    str | None,
    typer.Option(help="Who is asked; known for friends, bigbang and theoffice."),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="Another name for a character, so that the model cannot answer from what it knows of the "
        "show; may be given several times.",
    ),
]
Sessions = Annotated[int | None, typer.Option(min=1, help="How many sessions, from the first one.")]
Questions = Annotated[int | None, typer.Option(help="How many questions at most.")]
Seed = Annotated[int, typer.Option(help="Decides which questions are asked, when and by whom.")]
K = Annotated[int, typer.Option(help="How many notes the model answers from.")]
Formats = Annotated[
    str, typer.Option(help="How questions are asked: choice (of five options), open, or both.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    # There is nothing but answers, and notes are made one session at a time.
    left_out = ("answer", "build_concurrency")
    asking = {name: given for name, given in ASKING.items() if name not in left_out}
    command(app, "dialsim", asking)(dialsim_command)


def dialsim_command(
    options: EvalOptions,
    file: File,
    agent: Agent = None,
    rename: Rename = None,
    sessions: Sessions = None,
    questions: Questions = None,
    seed: Seed = 0,
    k: K = 20,
    formats: Formats = "choice,open",
) -> None:
    """Ask a memory on its way through a DialSim show (needs --model).

    Every utterance becomes a note, in the order of the show. In each session a question is put to what
    has been said by then, and the model answers it from what the memory finds. A run that was stopped
    hears the show again, but pays for no reply twice. This has not been run on the published files yet.
    """
    if options.model is None:
        raise InvalidInputError("DialSim's questions are answered by a chat model: give --model")
    from ..evaluation.plots import page  # noqa: PLC0415 - slow, and needs an extra

    prices = options.prices  # before anything is paid for
    settings = dialsim.Settings(
        formats=_formats(formats),
        k=k,
        seed=seed,
        questions=questions,
        concurrency=options.concurrency,
    )
    options, given = replace(options, answer=True), _given(rename or [])
    show = dialsim.renamed(dialsim.load(file, agent=agent, sessions=sessions), given)
    embedder = options.make_embedder()
    result = _simulated(show, settings, options, embedder)
    made = describe(
        settings,
        dataset=file,
        sessions=sessions,
        names=given,
        embedder=embedder,
        models=options.described(),
    )
    report = dialsim.build(result, made, embedder=embedder, prices=prices)
    options.write("dialsim", report, render(report))
    page.write(options.out)
    if options.as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        console().print(_table(report))
        typer.echo(str(options.out / "dialsim.md"))


def _simulated(
    show: dialsim.Show, settings: dialsim.Settings, options: EvalOptions, embedder: Embedder
) -> dialsim.Result:
    models = options.models()
    options.out.mkdir(parents=True, exist_ok=True)  # now: if it cannot be, that is known at once
    with options.telling() as tell:
        return dialsim.simulate(
            show,
            settings,
            embedder=embedder,
            models=models,
            cache=options.cache_folder,
            progress=lambda name, stage, done, total: tell(f"{name} {stage}", done, total),
        )


def _formats(text: str) -> tuple[dialsim.Format, ...]:
    try:
        return tuple(dict.fromkeys(dialsim.Format(name) for name in names(text)))
    except ValueError as error:
        raise InvalidInputError(f"formats={text!r} must be choice, open, or choice,open") from error


def _given(pairs: Sequence[str]) -> dict[str, str]:
    """Return the new names by the old ones."""
    split = [pair.partition("=") for pair in pairs]
    for pair, (old, _, new) in zip(pairs, split, strict=True):
        if not old.strip() or not new.strip():
            raise InvalidInputError(f"rename={pair!r} must be OLD=NEW, such as Ross=Robert")
    return {old.strip(): new.strip() for old, _, new in split}


def _table(report: dict[str, Any]) -> Table:
    asked = report["questions"]["asked"]
    shown = table(
        "",
        "accuracy",
        "answerable",
        "unanswerable",
        "F1",
        title=f"{asked} questions on the way through {report['turns']} turns of {report['show']}",
    )
    for format_, found in report["answers"].items():
        means = [
            found["accuracy"],
            *(found[one]["accuracy"] for one in ("answerable", "unanswerable")),
        ]
        f1 = found["official"]["f1"]["mean"] if "official" in found else None
        shown.add_row(format_, *(_figure(one["mean"]) for one in means), _figure(f1))
    return shown


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
