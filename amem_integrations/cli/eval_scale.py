"""`amem eval scale`: time and space over the number of notes."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..errors import InvalidInputError
from .command import plain_errors
from .options import Ports
from .terminal import console, progress, table

Out = Annotated[Path, typer.Option(help="Folder for the reports: JSON, Markdown, HTML.")]
Sizes = Annotated[str, typer.Option(help="Numbers of notes, separated by commas.")]
Queries = Annotated[int, typer.Option(help="How many searches are timed, several times each.")]
Embedder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Also time the encoding of a query: a sentence-transformers model by name or folder, or "
        "openai:NAME.",
    ),
]
Quiet = Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scale")(scale_command)


def scale_command(
    caller: typer.Context,
    out: Out = Path("report"),
    sizes: Sizes = "1000,10000,100000",
    queries: Queries = 50,
    embedder: Embedder = None,
    no_progress: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure how searches slow down, and what a memory takes up, as notes become many.

    Notes are synthetic and their vectors known beforehand, so no model is needed. Each size is kept
    as soon as it is measured: the same command goes on where it was stopped.
    """
    with plain_errors():
        from ..evaluation import scaling  # noqa: PLC0415 - needs an extra
        from ..evaluation.plots import page  # noqa: PLC0415 - slow, and needs an extra

        numbers = _numbers(sizes)
        setup = scaling.Setup(queries=queries)
        out.mkdir(parents=True, exist_ok=True)
        file = out / "scale.json"
        with ExitStack() as stack:
            tell = (lambda *_: None) if no_progress else stack.enter_context(progress())
            report = scaling.measure_all(numbers, setup, file, tell)
        if embedder is not None:
            ports = caller.obj if isinstance(caller.obj, Ports) else Ports()
            report["encode_ms"] = scaling.encoding_ms(ports.embedder(embedder, None), setup)
            scaling.save(file, report)
        file.with_suffix(".md").write_text(scaling.render(report), encoding="utf-8")
        page.write(out)
        if as_json:
            typer.echo(json.dumps(report, indent=2))
        else:
            console().print(_table(report))
            typer.echo(str(out / page.PAGE))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part.replace("_", "")) for part in text.split(",")}))
    except ValueError as error:
        raise InvalidInputError(f"sizes={text!r} must be numbers such as 1000,10000") from error


def _table(report: dict[str, Any]) -> Table:
    shown = table(
        "notes",
        "search ms",
        "p95",
        "engine ms",
        "numpy scan ms",
        "search / scan",
        "process MB",
        "folder MB",
        title="Search over the number of notes (medians)",
    )
    for row in report["rows"]:
        search, scan = row["search_ms"], row["dense_scan_ms"]["p50"]
        times = (search["p50"], search["p95"], row["engine_ms"]["p50"], scan)
        shown.add_row(
            f"{row['notes']:,}",
            *(f"{time:.2f}" for time in times),
            f"{search['p50'] / scan:.2f}",
            *(
                "-" if row[name] is None else f"{row[name]:,.0f}"
                for name in ("memory_mb", "disk_mb")
            ),
        )
    return shown
