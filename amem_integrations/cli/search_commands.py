"""`amem search` and `amem show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from .. import AgenticMemory
from ..errors import InvalidInputError
from ..filters import check_count
from ..ids import now, parse_time
from ..notes import RELATIONS, Note, ScoredNote
from ..runtime import resolve, run
from .command import command
from .open_memory import find_note, notes_by_id, open_to_read, open_to_write
from .options import EMBEDDER, NAMESPACE, Options, format_namespace
from .terminal import (
    SHORT_ID,
    clean,
    console,
    headline,
    hit_values,
    note_values,
    one_line,
    print_json,
    short_id,
    table,
)

app = typer.Typer(rich_markup_mode=None)

Query = Annotated[str, typer.Argument(help="What to look for.")]
Limit = Annotated[int, typer.Option("-k", "--limit", help="Most notes to show.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="""Conditions as JSON: '{"speaker": "Ann", "metadata.city": {"$in": […]}}'."""
    ),
]
MinSimilarity = Annotated[float | None, typer.Option(help="Least cosine of query and note.")]
AsOf = Annotated[str | None, typer.Option(help="What was true at this time.")]
KnownAt = Annotated[str | None, typer.Option(help="What the memory believed at this time.")]
NoLinks = Annotated[bool, typer.Option("--no-links", help="Do not follow links.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show ranks, match, fusion and spread.")]
NoteName = Annotated[
    str | None, typer.Argument(metavar="NOTE", help="Id, start of the id, or key; none: the last.")
]


@command(app, "search", EMBEDDER, NAMESPACE)
def search(
    options: Options,
    query: Query,
    limit: Limit = 10,
    where: Where = None,
    min_similarity: MinSimilarity = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    no_links: NoLinks = False,
    explain: Explain = False,
) -> None:
    """Find notes by meaning, by words and over links.

    No chat model is called.
    """
    arguments: dict[str, Any] = {
        "namespace": options.required_namespace,
        "k": limit,
        "where": None if where is None else _parse_conditions(where),
        "min_similarity": min_similarity,
        "as_of": None if as_of is None else parse_time(as_of),
        "known_at": None if known_at is None else parse_time(known_at),
        "links": not no_links,
        "explain": explain,
    }
    with open_to_write(options) as memory:
        hits = memory.search(query, **arguments)
        if options.as_json:
            print_json([hit_values(hit) for hit in hits])
        else:
            _print_hits(console(), hits, memory)


@command(app, "show", NAMESPACE)
def show(options: Options, note: NoteName = None, limit: Limit = 20) -> None:
    """Show a note, or list the last ones."""
    namespace = options.required_namespace
    check_count("limit", limit)
    with open_to_read(options) as (memory, store):
        if note is None:
            last = run(resolve(store.scan(namespace, limit=limit, newest_first=True)))
            shown = [each for each in last[::-1] if not each.is_expired(now())]
            _print_list(shown, as_json=options.as_json)
            return
        found = find_note(memory, note, namespace)
        if options.as_json:
            print_json(note_values(found))
        else:
            _print_note(console(), found, memory)


def _parse_conditions(text: str) -> Mapping[str, Any]:
    try:
        conditions = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"--where {text!r} is not JSON: {error}") from error
    if not isinstance(conditions, dict):
        raise InvalidInputError(f"--where {text!r} must be a JSON object")
    return conditions


def _print_hits(out: Console, hits: Sequence[ScoredNote], memory: AgenticMemory) -> None:
    for hit in hits:
        score = Text(f"{hit.score:.3f}", style="bold")
        past = hit.superseded_by is not None or hit.is_over
        title = Text(headline(hit.note), style="strike" if past else "")
        out.print(score, short_id(hit.note.id), title, soft_wrap=True)
        _print_passage(out, hit)
        _print_currency(out, hit)
        _print_path(out, hit, memory)
        _print_explanation(out, hit)
    if not hits:
        out.print("Nothing found.")


def _print_passage(out: Console, hit: ScoredNote) -> None:
    """Print the part of a long text that the query matches."""
    if hit.passage is not None:
        where = f"      {hit.passage.start}-{hit.passage.end}:"
        out.print(where, one_line(hit.passage.text), style="dim", soft_wrap=True)


def _print_currency(out: Console, hit: ScoredNote) -> None:
    """Print what took the place of a hit, and what says otherwise."""
    if hit.superseded_by is not None:
        since = hit.note.superseded_since
        when = f" since {since:%Y-%m-%d}" if since else ""
        out.print("      superseded by", short_id(hit.superseded_by), when, soft_wrap=True)
    if hit.is_over and hit.note.holds_until is not None:
        out.print(f"      over since {hit.note.holds_until:%Y-%m-%d}", soft_wrap=True)
    for other in hit.contradicted_by:
        out.print("      contradicted by", short_id(other), soft_wrap=True)


def _print_path(out: Console, hit: ScoredNote, memory: AgenticMemory) -> None:
    """Print the links that led to a hit."""
    for step in hit.via if hit.via != "match" else ():
        source = memory.get(step.note_id, namespace=hit.note.namespace)
        lead = "brought in for" if step.relation in RELATIONS else "over a link with"
        out.print(f"      {lead}", short_id(source.id), headline(source), soft_wrap=True)
        reason = _reason(step.relation, step.reason, step.strength)
        out.print(" " * 8 + reason, style="dim", soft_wrap=True)


def _print_explanation(out: Console, hit: ScoredNote) -> None:
    if hit.why is None:
        return
    cosine = "-" if hit.similarity is None else f"{hit.similarity:.2f}"
    ranks = f"dense rank {hit.why.dense_rank or '-'}, BM25 rank {hit.why.lexical_rank or '-'}"
    sums = f"match {hit.why.match:.4f}, fusion {hit.why.fusion:.4f}, spread {hit.why.spread:.4f}"
    out.print(f"      cosine {cosine}, {ranks}, {sums}", style="dim", soft_wrap=True)


def _print_list(notes: Sequence[Note], *, as_json: bool) -> None:
    if as_json:
        print_json([note_values(note) for note in notes])
        return
    rows = table("id", "when", "state", "links", "what was said")
    for note in notes:
        speaker = f"{note.speaker}: " if note.speaker else ""
        text = Text(one_line(speaker + note.content))
        links = str(len(note.links))
        rows.add_row(short_id(note.id), f"{note.when:%Y-%m-%d}", note.state, links, text)
    console().print(rows)


def _print_note(out: Console, note: Note, memory: AgenticMemory) -> None:
    out.print(Text(clean(note.content), style="bold"), soft_wrap=True)
    for name, value in _fields(note).items():
        out.print(f"{name:>12}  {value}", soft_wrap=True)
    for entry in note.contexts:
        own = entry.cause == note.id
        out.print(f"{'context' if own else 'evolved':>12}  {one_line(entry.text)}", soft_wrap=True)
        cause = "" if own else f", because of {entry.cause[:SHORT_ID]}"
        model = one_line(entry.model)
        out.print(f"{'':12}  by {model}{cause}", style="dim", soft_wrap=True)
    others = notes_by_id(memory, note.supersessions, note.namespace)
    for newer, supersession in note.supersessions.items():
        title = headline(others[newer]) if newer in others else "?"
        verb = "superseded" if supersession.replaces else "contradicted"
        out.print(f"{verb:>12}  by", short_id(newer), title, soft_wrap=True)
        said = f"{supersession.relation}: {one_line(supersession.reason)}"
        out.print(
            f"{'':12}  {said} (by {one_line(supersession.model)})", style="dim", soft_wrap=True
        )
    linked = notes_by_id(memory, note.links, note.namespace)
    for target, link in note.links.items():
        arrow = "->" if link.direction == "out" else "<-"
        title = headline(linked[target]) if target in linked else "?"
        out.print(f"{'link':>12}  {arrow}", short_id(target), title, soft_wrap=True)
        reason = _reason(link.relation, link.reason, link.strength)
        out.print(f"{'':12}  {reason}", style="dim", soft_wrap=True)


def _fields(note: Note) -> dict[str, str]:
    fields = {
        "id": note.id,
        "namespace": format_namespace(note.namespace),
        "when": f"{note.when:%Y-%m-%d %H:%M %Z}",
        "speaker": note.speaker,
        "kind": note.kind if note.kind != "statement" else None,
        "origin": note.origin if note.origin != "conversation" else None,
        "thread": note.thread,
        "key": note.key,
        "until": f"{note.holds_until:%Y-%m-%d %H:%M %Z}" if note.holds_until else None,
        "state": f"{note.state}: {note.failure}" if note.failure else note.state,
        "keywords": ", ".join(note.keywords),
        "tags": ", ".join(note.tags),
        "metadata": json.dumps(dict(note.metadata), ensure_ascii=False) if note.metadata else None,
    }
    return {name: one_line(value) for name, value in fields.items() if value}


def _reason(relation: str, reason: str, strength: float) -> str:
    return f"{one_line(relation)}: {one_line(reason)} ({strength:.2f})"
