"""Moving in: importers for what other memories and programs have kept.

`import_from(memory, "conversations.json", namespace=("ann",))` takes a file or rows into a memory, and reports what could
not be taken. An importer is a function that yields each note with its namespace, or what was skipped and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import itemgetter
from os import PathLike

from ..errors import InvalidInputError, NamespaceError
from ..memory import AgenticMemory
from ..notes import Namespace, check_namespace, check_note_input
from ..runtime import Meter, Progress
from . import conversations, memories
from .source import Format, Found, Rows, Skipped, Source

__all__ = ["FORMATS", "ImportReport", "Skipped", "Source", "check", "import_from"]

FORMATS: Mapping[str, Format] = {**conversations.FORMATS, **memories.FORMATS}
SAMPLE = 20  # values that are looked at to recognise a format
BATCH = 64  # notes stored at once: about a second of embedding


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """The result of one import.

    Attributes:
        format: The format that the source was read as.
        found: How many notes the source holds, by namespace.
        added: How many notes are new, by namespace.
        skipped: What was left out: how often for each reason, the most frequent first.
        first_skipped: Where each reason was met first, and with what.
    """

    format: str
    found: dict[Namespace, int] = field(default_factory=dict)
    added: dict[Namespace, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    first_skipped: dict[str, str] = field(default_factory=dict)


def import_from(
    memory: AgenticMemory,
    source: str | PathLike[str] | Rows,
    format: str = "auto",  # noqa: A002 - its name for the user
    *,
    namespace: Sequence[str] | None = None,
    thread: str | None = None,
    evolve: bool = True,
    progress: bool | Progress = False,
) -> ImportReport:
    """Import what another memory or program has kept, and return what was taken and what could not be.

    All of it is read and checked before the first note is stored. Importing again adds nothing, and goes on where an
    earlier import was interrupted.

    Args:
        memory: Where to.
        source: A file; or rows, such as `[item.dict() for item in store.search(…)]`.
        format: One of `FORMATS`; `"auto"` recognises it.
        namespace: Whose memory. Where the source says whose each note is, that goes below it.
        thread: The thread of what names none; for chat messages the default is the name of the file.
        evolve: Construct, link and evolve at once; False leaves that to `evolve()`.
        progress: True logs how far it is; a function is called with (notes stored, notes in all).

    Raises:
        InvalidInputError: It is not of the format, or nothing in it can be taken; the message names the place.
        NamespaceError: The source does not say whose its notes are, and `namespace` was not given.
        StoreError: The memory refused.
        ModelUnavailableError: Only with `on_model_error="raise"`; all notes are stored.
    """
    read = Source(source, thread=thread)
    base = () if namespace is None else check_namespace(namespace)
    report = check(read, format, memory.config.max_content_chars)
    if () in report.found and not base:
        raise NamespaceError(f"{read.name} does not say whose its notes are; give a namespace")
    found = {(*base, *labels): count for labels, count in report.found.items()}
    before = {space: memory.stats(namespace=space)["notes"] for space in found}
    meter = Meter(progress, sum(found.values()))
    all_items = _items(read, report.format, memory.config.max_content_chars)
    items = (one for one in all_items if not isinstance(one, Skipped))
    while batch := sorted(islice(items, BATCH), key=itemgetter(0)):
        for labels, notes in groupby(batch, key=itemgetter(0)):
            memory.add_many([note for _, note in notes], namespace=(*base, *labels), evolve=False)
        meter.add(len(batch))
    added = {space: memory.stats(namespace=space)["notes"] - before[space] for space in found}
    for space in found if evolve else ():
        memory.evolve(namespace=space)
    return replace(report, found=found, added=added)


def check(source: Source, format_: str, max_chars: int) -> ImportReport:
    """Read all of a source, and report what can be taken; nothing is stored.

    In this report `found` is by what the source says about whose the notes are; () where the source does not say.

    Raises:
        InvalidInputError: The source is not of the format, or nothing in it can be taken.
        OSError: There is no such file.
    """
    report = ImportReport(format=_format_of(source, format_))
    found, skipped = Counter[Namespace](), Counter[str]()
    for one in _items(source, report.format, max_chars):
        if not isinstance(one, Skipped):
            found[one[0]] += 1
        else:
            skipped[one.reason] += 1
            report.first_skipped.setdefault(one.reason, one.where)
    if not found:
        first, name = report.first_skipped, f"{source.name} holds nothing to import"
        told = "; ".join(f"{why}: {n} (first: {first[why]})" for why, n in skipped.items())
        raise InvalidInputError(f"{name} as {report.format}: {told or 'it is empty'}")
    return replace(report, found=dict(found), skipped=dict(skipped.most_common()))


def _items(source: Source, format_: str, max_chars: int) -> Iterator[Found | Skipped]:
    """Yield the notes that can be stored, and the parts that were skipped."""
    for one in FORMATS[format_].read(source):
        told: Found | Skipped = one
        if not isinstance(one, Skipped):
            try:
                check_note_input(one[1], max_chars)
            except InvalidInputError as error:
                told = Skipped("cannot be stored", f"{one[1].key or source.name}: {error}")
        yield told


def _format_of(source: Source, name: str) -> str:
    """Return the name of the format that a source is in.

    Raises:
        InvalidInputError: There is none of this name, or the source is in none.
    """
    sample = [*islice(source.entries(), SAMPLE)] if name == "auto" else []
    for known, one in FORMATS.items():
        if known == name or any(map(one.recognises, sample)):
            return known
    if any(isinstance(one.value, InvalidInputError) for one in sample):
        return "jsonl"  # which says of each line why the line was skipped
    known = ", ".join(FORMATS)
    if name != "auto":
        raise InvalidInputError(f"unknown format {name!r}; use one of {known}")
    why = f"none of the known formats ({known}); name the one it is" if sample else "nothing"
    raise InvalidInputError(f"{source.name} holds {why}")
