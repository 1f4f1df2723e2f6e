"""`amem stats`: how much is in a memory, and what in it needs a look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer
from rich.table import Table

from ..notes import Namespace
from .command import command
from .open_memory import open_to_read
from .options import NAMESPACE, Options, format_namespace
from .terminal import console, one_line, print_json, table

app = typer.Typer(rich_markup_mode=None)

Stats = Mapping[str, Any]
COLUMNS = ("notes", "threads", "links", "evolved", "without_links", "superseded", "duplicates")


@command(app, "stats", NAMESPACE)
def stats(options: Options) -> None:
    """Count notes, links and states, and what needs a look.

    That is what is superseded, said twice, without links, unfinished, or waits for a decision.
    """
    with open_to_read(options) as (memory, _):
        namespaces = [options.namespace] if options.namespace else memory.namespaces()
        by_namespace = {each: memory.stats(namespace=each) for each in namespaces}
        total = memory.stats(namespace=options.namespace)
    if options.as_json:
        rows = [{**counts, "namespace": list(each)} for each, counts in by_namespace.items()]
        print_json({**total, "by_namespace": rows})
        return
    out = console()
    out.print(_table(by_namespace, total))
    for line in _lines(total):
        out.print(line, soft_wrap=True)


def _table(by_namespace: Mapping[Namespace, Stats], total: Stats) -> Table:
    states = [name for name in ("pending", "constructed", "failed") if total["states"].get(name)]
    rows = table("namespace", *(name.replace("_", " ") for name in COLUMNS), *states)
    for column in rows.columns[1:]:
        column.justify = "right"

    def add_row(title: str, counts: Stats) -> None:
        numbers = [counts[name] for name in COLUMNS]
        numbers += [counts["states"].get(state, 0) for state in states]
        rows.add_row(title, *map(str, numbers))

    for namespace, counts in by_namespace.items():
        add_row(one_line(format_namespace(namespace)), counts)
    if len(by_namespace) > 1:
        rows.add_section()
        add_row("all", total)
    return rows


def _lines(total: Stats) -> Iterator[str]:
    """Yield what no column holds."""
    degree, cost = total["degree"], total["cost"]
    yield (
        f"links a note: {degree['min']} to {degree['max']}, median {degree['median']}, "
        f"nine of ten have at most {degree['p90']}"
    )
    yield f"superseded: {total['superseded_share']:.1%} of the notes"
    for name, what in (
        ("proposals", "proposals that wait"),
        ("rejected_replies", "rejected replies"),
    ):
        if by_model := total[name]:
            models = ", ".join(f"{one_line(model)} {count}" for model, count in by_model.items())
            yield f"{what}: {models}"
    if cost["calls"]:
        tokens = cost["input_tokens"] + cost["output_tokens"]
        yield f"cost: {cost['calls']:,} calls, {tokens:,} tokens, {cost['tokens_per_note']:,} a note"
    yield from total["stopped"]
