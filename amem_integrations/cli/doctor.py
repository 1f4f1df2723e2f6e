"""`amem doctor`: is the memory in order, and if not, what is to be done?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import StoreError
from ._plain import FAILED
from .census import Census, take
from .findings import Finding, good, hint, wrong
from .folders import check_closing, check_space, count_points
from .looks import clean, console, one_line
from .opening import description, missing, reading
from .options import Options, command
from .values import print_json

_EXAMPLES = 5
_MARKS: dict[Literal["good", "hint", "wrong"], tuple[str, str]] = {
    "good": ("ok", "green"),
    "hint": ("note", "yellow"),
    "wrong": ("WRONG", "red"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor")(doctor)


def doctor(options: Options) -> None:
    """Check the memory, and say what is wrong.

    The status is 0 if nothing is, and 1 if something is. Nothing is changed, but for what a killed process
    left half done, which every opening puts right.
    """
    findings = list(examine(options))
    sick = any(finding.level == "wrong" for finding in findings)
    if options.as_json:
        print_json({"ok": not sick, "findings": [asdict(finding) for finding in findings]})
    else:
        _print(console(), findings, sick=sick)
    if sick:
        raise typer.Exit(FAILED)


def _print(out: Console, findings: Sequence[Finding], *, sick: bool) -> None:
    for finding in findings:
        mark, style = _MARKS[finding.level]
        what = f"{finding.about}: {one_line(finding.text)}"
        out.print(Text(f"{mark:>6}", style), clean(what), soft_wrap=True)
        if finding.advice:
            out.print(f"{'':6}   {clean(finding.advice)}", soft_wrap=True)
    out.print("Something is wrong; see above." if sick else "All is well.")


def examine(options: Options) -> Iterator[Finding]:
    """Return what is found, one after the other; the first thing that stops everything is the last."""
    try:
        made = None
        if not options.remote:
            made = description(options)
            if made is None:
                raise missing(options)
            yield from check_closing(made)
        with reading(options) as opened:
            yield from _describe(opened.memory.info())
            census = take(opened.memory, opened.store)
        yield from _judge(census)
        if made is not None:
            yield from count_points(options, made, census)
            yield check_space(options)
    except StoreError as error:
        yield wrong("memory", str(error), None)


def _describe(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Say what the memory was made with, and what reads it."""
    yield good("versions", ", ".join(f"{name} {of}" for name, of in info["versions"].items()))
    yield good("format", f"{info['format']}, schema {info['schema']}, made {info['created_at']}")
    yield good("embedder", f"{info['embedder'] or 'unknown'}, {info['dimensions']} dimensions")


def _judge(census: Census) -> Iterator[Finding]:
    states = ", ".join(f"{count} {state}" for state, count in sorted(census.states.items()))
    yield good(
        "notes", f"{census.notes}, {census.links} links" + (f" ({states})" if states else "")
    )
    if waiting := census.states["pending"] + census.states["constructed"]:
        yield hint("unfinished", f"{waiting} notes wait to be linked", "run `amem evolve`")
    if census.failed:
        yield wrong(
            "failed", _failures(census), "run `amem evolve --retry` with a model to try again"
        )
    if census.without_vector:
        ids = ", ".join(note_id[:8] for note_id in census.without_vector[:_EXAMPLES])
        text = f"{len(census.without_vector)} notes are found by words only: {ids}"
        yield wrong("vectors", text, "run `amem reindex`")
    yield from _pairs("dangling links", census.dangling, "lead to a note that is gone")
    yield from _pairs("one-sided links", census.one_sided, "are missing at their other end")
    yield from _pairs(
        "orphaned contexts", census.orphaned, "name a note that is gone as their cause"
    )


def _failures(census: Census) -> str:
    shown = [f"{n.id[:8]}: {one_line(n.failure or '?')}" for n in census.failed[:_EXAMPLES]]
    left = len(census.failed) - len(shown)
    return "; ".join([f"{len(census.failed)} notes", *shown, *([f"{left} more"] if left else [])])


def _pairs(about: str, pairs: Sequence[tuple[str, str]], what: str) -> Iterator[Finding]:
    if not pairs:
        yield good(about, "none")
        return
    shown = ", ".join(f"{one[:8]} -> {other[:8]}" for one, other in pairs[:_EXAMPLES])
    advice = "searches leave them out; `amem history NOTE` says where one is from, `amem undo` takes it back"
    yield wrong(about, f"{len(pairs)} {what}: {shown}", advice)
