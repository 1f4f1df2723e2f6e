"""`amem eval …`: how well the memory finds things again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from ..errors import InvalidInputError
from ..evaluation import Ablation, Settings, build, evaluate, locomo, recordings
from ..evaluation.markdown import render
from ..evaluation.provenance import describe
from ._plain import plain_errors

app = typer.Typer(help="Measure the memory.", no_args_is_help=True, rich_markup_mode=None)

Tell = Callable[[str, str, int, int], None]

Dataset = Annotated[
    Path, typer.Argument(metavar="DATASET", help="A file in the form of locomo10.json.")
]
Out = Annotated[Path, typer.Option(help="Folder for report.json and report.md.")]
Annotations = Annotated[
    list[Path] | None,
    typer.Option(
        help="What a language model wrote about a conversation, such as conv-26.annotations.jsonl; "
        "may be given several times. The other conversations run offline."
    ),
]
Names = Annotated[str, typer.Option(help="Ids, separated by commas; all conversations by default.")]
Ratio = Annotated[
    float, typer.Option(help="Share of the conversations to run: the first ones, at least one.")
]
Ks = Annotated[str, typer.Option(help="How many of the first hits count.")]
Without = Annotated[
    Ablation, typer.Option(help="What to leave out; without links, nothing evolves either.")
]
Compare = Annotated[
    bool,
    typer.Option(
        "--baselines", help="Compare with plain rankings, and without links or evolution."
    ),
]
Quiet = Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


@app.callback()
def _group() -> None:
    """Measure the memory."""


@app.command("locomo")
def locomo_command(  # noqa: PLR0913, PLR0917 - a parameter for each option
    dataset: Dataset,
    out: Out,
    annotations: Annotations = None,
    conversations: Names = "",
    ratio: Ratio = 1.0,
    k: Ks = "5,10,20",
    ablation: Without = Ablation.NONE,
    baselines: Compare = False,
    no_progress: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure evidence recall on LoCoMo.

    Every turn becomes a note and every question a search. No language model is called: without
    annotations the memory works offline, with them it is built from what a model once wrote.
    """
    with plain_errors():
        settings = Settings(ks=_numbers(k), ablation=ablation, baselines=baselines)
        names = [name for name in (part.strip() for part in conversations.split(",")) if name]
        with _progress(shown=not no_progress) as tell:
            report = _run(dataset, annotations or [], names, ratio, settings, out, tell)
        if as_json:
            typer.echo(json.dumps(report, indent=2))
        else:
            Console().print(_table(report))
            typer.echo(str(out / "report.md"))


def _run(
    dataset: Path,
    files: Sequence[Path],
    names: Sequence[str],
    ratio: float,
    settings: Settings,
    out: Path,
    tell: Tell,
) -> dict[str, Any]:
    """Run the evaluation, write both reports, and return the figures."""
    known = locomo.load(dataset)
    chosen = locomo.select(known, names=names, ratio=ratio)
    ids = [one.id for one in chosen]
    used = {name: one for name, one in recordings.load(files, known).items() if name in ids}
    out.mkdir(parents=True, exist_ok=True)  # now: if it cannot be, that is better known at once
    from ..providers.sentence_transformers import SentenceTransformerEmbedder  # noqa: PLC0415 - slow

    embedder = SentenceTransformerEmbedder()
    results = list(evaluate(chosen, settings, embedder=embedder, recordings=used, progress=tell))
    made = describe(
        settings,
        dataset=dataset,
        recordings=used,
        conversations=ids,
        ratio=ratio,
        embedder=embedder,
    )
    report = build(results, settings.ks, made)
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (out / "report.md").write_text(render(report), encoding="utf-8")
    return report


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise InvalidInputError(f"k={text!r} must be numbers such as 5,10,20") from error


@contextmanager
def _progress(*, shown: bool) -> Iterator[Tell]:
    """Show a bar for each stage of each conversation, on the error stream and only on a terminal."""
    console = Console(stderr=True)
    tasks: dict[tuple[str, str], TaskID] = {}
    with Progress(console=console, disable=not (shown and console.is_terminal)) as bars:

        def tell(conversation: str, stage: str, done: int, total: int) -> None:
            which = (conversation, stage)
            if which not in tasks:
                tasks[which] = bars.add_task(f"{conversation} {stage}", total=total)
            bars.update(tasks[which], completed=done)

        yield tell


def _table(report: dict[str, Any]) -> Table:
    ks = report["settings"]["k"]
    title = f"Recall of {report['questions']['used']} questions over {report['notes']} notes"
    table = Table(
        "", *(f"@{k}" for k in ks), *(f"all@{k}" for k in ks), box=box.SIMPLE, title=title
    )
    for system, found in report["retrieval"].items():
        figures = [found[name][str(k)] for name in ("recall", "all_evidence") for k in ks]
        table.add_row(system, *("-" if one is None else f"{one:.3f}" for one in figures))
    return table
