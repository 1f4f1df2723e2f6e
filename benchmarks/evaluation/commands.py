"""`python -m benchmarks.evaluation …`: how well the memory finds things again, and what a model answers from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer

from amem_integrations.cli.command import add_command
from amem_integrations.cli.options import Ports
from amem_integrations.errors import InvalidInputError
from amem_integrations.notes import Note
from amem_integrations.ports import Embedder

from . import dialsim, gold_corrections, locomo, provenance
from .cache import write_json
from .data import Conversation, Result
from .eval_options import (
    Ask,
    Compare,
    Locomo,
    Run,
    Scale,
    Simulate,
    Sweep,
    names,
    numbers,
    options_of,
)
from .report import build
from .runner import OnNotes, evaluate
from .systems import ABLATIONS, BASELINES, Settings

_Data = tuple[list[Conversation], dict[str, locomo.Annotations], dict[str, Any] | None]

app = typer.Typer(help="Measure the memory.", no_args_is_help=True, rich_markup_mode=None)


def _command(name: str, function: Callable[[Any], None], kind: type[Run], *without: str) -> None:
    def call(caller: typer.Context, options: dict[str, Any], _: dict[str, Any]) -> None:
        ports = caller.obj if isinstance(caller.obj, Ports) else Ports()
        function(kind(ports=ports, **options))

    add_command(app, name, function, options_of(kind, *without), call)


def _run(
    given: Ask,
    settings: Settings,
    asked: Sequence[Conversation],
    written: dict[str, locomo.Annotations] | None = None,
    on_notes: OnNotes | None = None,
    **more: Any,  # noqa: ANN401 - JSON values
) -> tuple[list[Result], dict[str, Any], Embedder]:
    """Run an evaluation; return its results, what a report says of it (also `more`), and the embedder."""
    embedder, models = given.ports.embedder(given.embedder, None), given.models()
    given.out.mkdir(parents=True, exist_ok=True)  # before anything is paid for
    with given.showing_progress() as show:
        results = evaluate(
            asked,
            settings,
            embedder=embedder,
            models=models,
            annotations=written,
            cache=given.cache or given.out / "cache",
            progress=lambda name, stage, done, total: show(f"{name} {stage}", done, total),
            on_notes=on_notes,
        )
        described = {"dataset": given.dataset, "models": given.models_described(), **more}
        return list(results), provenance.describe(settings, embedder, **described), embedder


def _run_locomo(
    given: Locomo, settings: Settings, read: _Data, on_notes: OnNotes | None = None
) -> tuple[list[Result], dict[str, Any], Embedder]:
    """Run an evaluation on LoCoMo, as `_run` does."""
    asked, written, corrected = read
    return _run(
        given,
        settings,
        asked,
        written,
        on_notes,
        k=list(settings.ks),
        systems=list(settings.chosen),
        conversations=[one.id for one in asked],
        annotations={name: provenance.file_digest(one.file) for name, one in written.items()},
        golds=corrected,
    )


def _read(given: Locomo) -> _Data:
    """Return the conversations, their annotations, and what corrections there were."""
    known, corrected = locomo.load(given.dataset), None
    if given.golds is not None:
        corrections, published = gold_corrections.load(given.golds), known
        known = gold_corrections.apply(published, corrections)
        counts = gold_corrections.count(corrections, published, known)
        corrected = {**provenance.file_digest(given.golds), **counts}
    chosen = locomo.select(known, names=names(given.conversations), ratio=given.ratio)
    written = locomo.load_annotations(given.annotations or [], known)
    ids = {one.id for one in chosen}
    return chosen, {name: one for name, one in written.items() if name in ids}, corrected


def locomo_command(given: Compare) -> None:
    """Measure recall of evidence on LoCoMo and, with --answer, what a model answers.

    Every turn becomes a note and every question a search. Notes are written from the annotations where there
    are any, else by the model if one is named, else by rules. A run that was stopped is continued by the
    same command.
    """
    from . import embedding_views, report_sections  # noqa: PLC0415 - slow, and needs an extra

    prices = given.prices  # before anything is paid for
    data = _read(given)
    systems = (*(ABLATIONS if given.ablations else ()), *(BASELINES if given.baselines else ()))
    budgets = numbers(given.budget, "budget", "600,1100,2100") if given.budget else ()
    more = {"systems": systems, "budgets": budgets, "digests": given.digests}
    settings = given.settings(numbers(given.k), (given.answer_k,), **more)
    looked_at: list[dict[str, Any]] = []  # of the first conversation

    def look_at(notes: Sequence[Note], through: Embedder) -> None:
        if not looked_at:
            looked_at.append(embedding_views.views(notes, through))

    results, described, embedder = _run_locomo(given, settings, data, look_at)
    report = build(results, settings.ks, described, embedder=embedder, prices=prices)
    write_json(given.out / "notes.json", looked_at[0])
    given.write("report", "LoCoMo", report, report_sections.sections(report))


def sweep_command(given: Sweep) -> None:
    """Measure recall and, with --answer, answers over the number of hits shown.

    Each memory is built once. The best number is chosen on some conversations and reported on others.
    """
    from . import sweep  # noqa: PLC0415 - slow, and needs an extra

    data, ks = _read(given), numbers(given.k)
    sides = sweep.split(data[0], names(given.choose))
    results, described, embedder = _run_locomo(given, given.settings(ks, ks), data)
    report = sweep.build(results, ks, sides, described, embedder=embedder)
    given.write("sweep", "How many hits to show", report, sweep.sections(report))


def dialsim_command(given: Simulate) -> None:
    """Ask a memory on its way through a DialSim show (needs --model).

    Every utterance becomes a note, in the order of the show. In each session one question is asked, and the
    model answers it from what the memory finds by then. A run that was stopped adds the notes again, but
    replies are kept. This has not been run on the published files yet.
    """
    from .dialsim import figures  # noqa: PLC0415

    if given.model is None:
        raise InvalidInputError("DialSim's questions are answered by a chat model: give --model")
    given.answer, prices = True, given.prices
    formats, renamed = _formats(given.formats), _renamed(given.rename or [])
    show = dialsim.load(given.dataset, agent=given.agent, sessions=given.sessions)
    show = dialsim.renamed(show, renamed)
    choice = dialsim.choose(show, seed=given.seed, questions=given.questions)
    conversation, ks = choice.conversation(show), (given.k,)
    settings = given.settings(ks, ks, tasks=tuple(one.task for one in formats))
    (result,), described, embedder = _run(
        given,
        settings,
        [conversation],
        sessions=given.sessions,
        names=renamed,
        formats=[one.value for one in formats],
        k=given.k,
        seed=given.seed,
        questions=given.questions,
        simulator=dialsim.CONSTANTS,
    )
    report = figures.build(show, choice, result, described, embedder=embedder, prices=prices)
    given.write("dialsim", f"DialSim: {show.name}", report, figures.sections(report))


def scale_command(given: Scale) -> None:
    """Measure how searches slow down, and what a memory takes up, as notes become many.

    Notes are synthetic and their vectors known beforehand, so no model is needed. Each size is kept
    as soon as it is measured; the same command continues a run that was stopped.
    """
    from . import scaling  # noqa: PLC0415 - needs an extra

    sizes = numbers(given.sizes, "sizes", "1000,10000")
    setup = scaling.Setup(queries=given.queries)
    given.out.mkdir(parents=True, exist_ok=True)
    with given.showing_progress() as show:
        report = scaling.measure_all(sizes, setup, given.out / "scale.json", show)
    if given.embedder is not None:
        report["encode_ms"] = scaling.encoding_ms(given.ports.embedder(given.embedder, None), setup)
    given.write(
        "scale", "Time and space over the number of notes", report, scaling.sections(report)
    )


def _formats(text: str) -> list[dialsim.Format]:
    found = list(dict.fromkeys(names(text)))
    if not found or not set(found) <= set(dialsim.Format):
        raise InvalidInputError(f"formats={text!r} must be choice, open, or choice,open")
    return list(map(dialsim.Format, found))


def _renamed(pairs: Sequence[str]) -> dict[str, str]:
    new_names = {}
    for pair in pairs:
        old, _, new = (part.strip() for part in pair.partition("="))
        if not old or not new:
            raise InvalidInputError(f"rename={pair!r} must be OLD=NEW, such as Ross=Robert")
        new_names[old] = new
    return new_names


_command("locomo", locomo_command, Compare)
_command("sweep", sweep_command, Sweep)
# There is nothing but answers, and notes are made one session at a time.
_command("dialsim", dialsim_command, Simulate, "answer", "build_concurrency")
_command("scale", scale_command, Scale)
