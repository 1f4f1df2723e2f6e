"""`amem import`: what other memories and programs have kept, or what `amem export` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import AgenticMemory, export_format
from ..config import MemoryConfig
from ..importers import ImportReport, Source, check, import_from
from ..notes import Namespace
from ..plans import EvolutionReport
from .add_commands import Later, Thread, evolve_shown
from .command import command
from .open_memory import open_to_write
from .options import MODEL, NAMESPACE, Options, format_namespace
from .terminal import console, one_line, print_json, progress

MAX_HEADER = 100_000  # characters of the first line of an export

app = typer.Typer(rich_markup_mode=None)


Name = Literal[
    "auto", "export", "chatgpt", "claude", "mem0", "langgraph", "llamaindex", "langchain", "chat", "jsonl",
]  # fmt: skip

File = Annotated[Path, typer.Argument(metavar="FILE", help="A file with notes or messages.")]
FileFormat = Annotated[Name, typer.Option("--from", help="What made it.")]


@command(app, "import", MODEL, NAMESPACE)
def import_(
    options: Options,
    file: File,
    format_: FileFormat = "auto",
    thread: Thread = None,
    later: Later = False,
) -> None:
    """Import many notes from a file.

    What mem0, langmem, LangGraph, LangChain, LlamaIndex, ChatGPT or Claude have kept, chat histories, JSONL, or what
    `amem export` wrote. It says what it could not take. Ctrl-C leaves what was imported so far; the same command goes
    on from there. Files that say whose memory each item is are kept apart by it, below --namespace if that is given.
    """
    if _is_export(file, format_):
        _import_export(options, file)
        return
    checked = check(Source(file, thread=thread), format_, MemoryConfig().max_content_chars)
    base = options.required_namespace if () in checked.found else options.namespace
    with open_to_write(options, create=True) as memory, progress() as show:
        report = import_from(
            memory, file, checked.format, namespace=base, thread=thread, evolve=False,
            progress=partial(show, "storing"),
        )  # fmt: skip
        rows = []
        for namespace in report.found:
            made = EvolutionReport() if later else evolve_shown(memory, namespace, show)
            rows.append(_row(memory, namespace, report, made))
    _print(options, report, rows)


def _row(
    memory: AgenticMemory, namespace: Namespace, report: ImportReport, made: EvolutionReport
) -> dict[str, Any]:
    return {
        "namespace": list(namespace),
        "items": report.found[namespace],
        "added": report.added[namespace],
        "links": made.links,
        "evolved": len(made.evolved),
        "failed": dict(made.failed),
        "notes": memory.stats(namespace=namespace)["notes"],
    }


def _print(options: Options, report: ImportReport, rows: list[dict[str, Any]]) -> None:
    if options.as_json:
        _print_json(report, rows)
        return
    for row in rows:
        console().print(_imported(row), soft_wrap=True)
    for reason, count in report.skipped.items():
        told = f"not taken: {reason}: {count} (first: {report.first_skipped[reason]})"
        console().print(one_line(told), soft_wrap=True)


def _print_json(report: ImportReport, rows: list[dict[str, Any]]) -> None:
    told = {"skipped": report.skipped, "first_skipped": report.first_skipped}
    print_json({"format": report.format, "namespaces": rows, **told})


def _imported(row: dict[str, Any]) -> str:
    known = row["items"] - row["added"]
    there = f", {known} were there" if known > 0 else ""
    made = f"{row['links']} links, {row['evolved']} notes evolved"
    failed = f", {len(row['failed'])} failed: see `amem doctor`" if row["failed"] else ""
    return (
        f"{format_namespace(row['namespace'])}: {row['added']} notes added{there}; {made}{failed}"
    )


def _is_export(file: Path, format_: str) -> bool:
    """Return whether a file is to be read as one that `amem export` wrote."""
    if format_ != "auto":
        return format_ == "export"
    return _header(file).get("format") == export_format.FORMAT


def _header(path: Path) -> Mapping[str, Any]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        try:
            first = json.loads(file.readline(MAX_HEADER))
        except (ValueError, RecursionError):
            return {}
    return first if isinstance(first, Mapping) else {}


def _import_export(options: Options, file: Path) -> None:
    """Import what `amem export` wrote, with links, contexts and history."""
    counts, given = export_format.counts(file), options.namespace
    found = counts if given is None else {given: sum(counts.values())}
    with open_to_write(options, create=True) as memory, progress() as show:
        before = _notes(memory, found)
        memory.import_(file, namespace=given, progress=partial(show, "storing"))
        after = _notes(memory, found)
    added = {namespace: after[namespace] - before[namespace] for namespace in found}
    report = ImportReport(format="export", found=found, added=added)
    if options.as_json:
        rows = [
            {
                "namespace": list(namespace),
                "items": items,
                "added": added[namespace],
                "notes": after[namespace],
            }
            for namespace, items in found.items()
        ]
        _print_json(report, rows)
        return
    for namespace, items in found.items():
        known = f", {items - added[namespace]} were there" if items > added[namespace] else ""
        told = f"{added[namespace]} notes added, with links and history{known}"
        console().print(f"{format_namespace(namespace)}: {told}", soft_wrap=True)


def _notes(memory: AgenticMemory, namespaces: Iterable[Namespace]) -> dict[Namespace, int]:
    """Return how many notes each namespace holds."""
    return {each: memory.stats(namespace=each)["notes"] for each in namespaces}
