"""`amem search`, `amem show` and `amem stats`: what the memory holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import InvalidInputError
from ..memory import AgenticMemory
from ..notes import Namespace, Note, ScoredNote
from .adding import parse_time
from .finding import find_note
from .looks import clean, console, one_line, said, short, table
from .namespaces import format_namespace
from .opening import encoding, reading
from .options import EMBEDDER, NAMESPACE, Options, command
from .values import hit_values, note_values, print_json

Query = Annotated[str, typer.Argument(help="What to look for.")]
Most = Annotated[int, typer.Option("-k", "--limit", help="Most notes to show.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="""Conditions as JSON: '{"speaker": "Ann", "metadata.city": {"$in": […]}}'."""
    ),
]
Floor = Annotated[float | None, typer.Option(help="Least cosine of query and note.")]
AsOf = Annotated[str | None, typer.Option(help="As it was known at this time.")]
NoLinks = Annotated[bool, typer.Option("--no-links", help="Do not follow links.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show ranks, fusion and spread.")]
Which = Annotated[
    str | None, typer.Argument(metavar="NOTE", help="Id, start of the id, or key; none: the last.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "search", EMBEDDER, NAMESPACE)(search)
    command(app, "show", NAMESPACE)(show)
    command(app, "stats", NAMESPACE)(stats)


def search(
    options: Options,
    query: Query,
    limit: Most = 10,
    where: Where = None,
    min_similarity: Floor = None,
    as_of: AsOf = None,
    no_links: NoLinks = False,
    explain: Explain = False,
) -> None:
    """Find notes by meaning, by words and over links.

    No chat model is called.
    """
    space, conditions, time = options.space, _conditions(where), parse_time(as_of)
    with encoding(options) as opened:
        hits = opened.memory.search(
            query,
            namespace=space,
            k=limit,
            where=conditions,
            min_similarity=min_similarity,
            as_of=time,
            links=not no_links,
            explain=explain,
        )
        if options.as_json:
            print_json([hit_values(hit) for hit in hits])
            return
        out = console()
        for hit in hits:
            _print_hit(out, hit, opened.memory)
        if not hits:
            out.print("Nothing found.")


def _print_hit(out: Console, hit: ScoredNote, memory: AgenticMemory) -> None:
    score = Text(f"{hit.score:.3f}", style="bold")
    out.print(score, short(hit.note.id), said(hit.note), soft_wrap=True)
    for step in hit.via if hit.via != "match" else ():
        source = memory.get(step.note_id, namespace=hit.note.namespace)
        out.print("      over a link with", short(source.id), said(source), soft_wrap=True)
        reason = f"{one_line(step.relation)}: {one_line(step.reason)} ({step.strength:.2f})"
        out.print(" " * 8 + reason, style="dim", soft_wrap=True)
    if hit.why is not None:
        cosine = "-" if hit.similarity is None else f"{hit.similarity:.2f}"
        ranks = f"dense rank {hit.why.dense_rank or '-'}, BM25 rank {hit.why.lexical_rank or '-'}"
        sums = f"fusion {hit.why.fusion:.4f}, spread {hit.why.spread:.4f}"
        out.print(f"      cosine {cosine}, {ranks}, {sums}", style="dim", soft_wrap=True)


def show(options: Options, note: Which = None, limit: Most = 20) -> None:
    """Show a note, or list the last ones."""
    space = options.space
    with reading(options) as opened:
        if note is None:
            found = opened.store.scan(space, limit=limit, newest_first=True)
            _show_list(list(found)[::-1], options)  # type: ignore[arg-type]
            return
        one = find_note(opened.memory, note, space)
        if options.as_json:
            print_json(note_values(one))
        else:
            _print_note(console(), one, opened.memory)


def _show_list(notes: list[Note], options: Options) -> None:
    if options.as_json:
        print_json([note_values(note) for note in notes])
        return
    rows = table("id", "when", "state", "links", "what was said")
    for note in notes:
        who = f"{note.speaker}: " if note.speaker else ""
        when = f"{note.when:%Y-%m-%d}"
        text = one_line(who + note.content)
        rows.add_row(short(note.id), when, note.state, str(len(note.links)), Text(text))
    console().print(rows)


def _print_note(out: Console, note: Note, memory: AgenticMemory) -> None:
    out.print(Text(clean(note.content), style="bold"), soft_wrap=True)
    for name, value in _facts(note).items():
        out.print(f"{name:>12}  {value}", soft_wrap=True)
    for entry in note.contexts:
        own = entry.cause == note.id
        name = "context" if own else "evolved"
        out.print(f"{name:>12}  {one_line(entry.text)}", soft_wrap=True)
        by = f"by {one_line(entry.model)}"
        cause = by if own else f"{by}, because of {entry.cause[:8]}"
        out.print(f"{'':12}  {cause}", style="dim", soft_wrap=True)
    names = {each.id: said(each) for each in _others(memory, note)}
    for target, link in note.links.items():
        arrow = "->" if link.direction == "out" else "<-"
        out.print(f"{'link':>12}  {arrow}", short(target), names.get(target, "?"), soft_wrap=True)
        reason = f"{one_line(link.relation)}: {one_line(link.reason)} ({link.strength:.2f})"
        out.print(f"{'':12}  {reason}", style="dim", soft_wrap=True)


def _facts(note: Note) -> dict[str, str]:
    facts = {
        "id": note.id,
        "namespace": format_namespace(note.namespace),
        "when": f"{note.when:%Y-%m-%d %H:%M %Z}",
        "speaker": note.speaker,
        "thread": note.thread,
        "key": note.key,
        "state": f"{note.state}: {note.failure}" if note.failure else note.state,
        "keywords": ", ".join(note.keywords),
        "tags": ", ".join(note.tags),
        "metadata": json.dumps(dict(note.metadata), ensure_ascii=False) if note.metadata else None,
    }
    return {name: one_line(value) for name, value in facts.items() if value}


def _others(memory: AgenticMemory, note: Note) -> list[Note]:
    if not note.links:
        return []
    where = {"id": {"$in": list(note.links)}}
    return memory.get_all(namespace=note.namespace, where=where, limit=len(note.links))


def stats(options: Options) -> None:
    """Count notes, links and states."""
    with reading(options) as opened:
        memory, space = opened.memory, options.optional_space
        spaces = [space] if space else memory.namespaces()
        counted = {one: memory.stats(namespace=one) for one in spaces}
        total = memory.stats(namespace=space)
    if options.as_json:
        print_json({**total, "by_namespace": _by_name(counted)})
        return
    console().print(_stats_table(counted, total))


def _by_name(counted: Mapping[Namespace, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**figures, "namespace": list(one)} for one, figures in counted.items()]


def _stats_table(counted: Mapping[Namespace, Mapping[str, Any]], total: Mapping[str, Any]) -> Table:
    names = ("notes", "threads", "links", "evolved", "without_links")
    states = [name for name in ("pending", "constructed", "failed") if total["states"].get(name)]
    rows = table("namespace", *(name.replace("_", " ") for name in names), *states)
    for column in rows.columns[1:]:
        column.justify = "right"

    def add(title: str, figures: Mapping[str, Any]) -> None:
        found = [figures[name] for name in names]
        rows.add_row(title, *map(str, found), *(str(figures["states"].get(s, 0)) for s in states))

    for one, figures in counted.items():
        add(one_line(format_namespace(one)), figures)
    if len(counted) > 1:
        rows.add_section()
        add("all", total)
    return rows


def _conditions(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"--where {text!r} is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise InvalidInputError(f"--where {text!r} must be a JSON object")
    return read
