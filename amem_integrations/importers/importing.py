"""From a source in some format into a memory: recognised, checked as a whole, then stored in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

from ..errors import InvalidInputError, NamespaceError
from ..memory import AgenticMemory
from ..notes import Namespace, NoteInput, check_namespace, check_note_input
from ..progress import Progress, reporter
from . import chat, chatgpt, claude, jsonl, langchain, langgraph, llamaindex, mem0, zep
from .import_report import Found, ImportReport, Labels, Reader, Skipped
from .source import Entry, Rows, Source

BATCH = 64  # notes stored at once: about a second of embedding
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how it is read, how it is known by a value; what is wrong in a `strict` one stops the import."""

    name: str
    read: Reader
    recognises: Callable[[Entry], bool]
    strict: bool = False


# In the order in which a source is compared with them.
FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format("chatgpt", chatgpt.read, chatgpt.recognises),
        Format("claude", claude.read, claude.recognises),
        Format("mem0", mem0.read, mem0.recognises),
        Format("langgraph", langgraph.read, langgraph.recognises),
        Format("llamaindex", llamaindex.read, llamaindex.recognises),
        Format("langchain", langchain.read, langchain.recognises),
        Format("zep", zep.read, zep.recognises),
        Format("chat", chat.read, chat.recognises),
        Format("jsonl", jsonl.read, lambda _: False, strict=True),
    )
}


def import_from(
    memory: AgenticMemory,
    source: str | PathLike[str] | Rows,
    format: str = AUTO,  # noqa: A002 - its name for the user
    *,
    namespace: Sequence[str] | None = None,
    thread: str | None = None,
    evolve: bool = True,
    progress: bool | Progress = False,
    api_key: str | None = None,
) -> ImportReport:
    """Import what another memory or program has kept, and return what was taken and what could not be.

    All of it is read and checked before the first note is stored. Importing again adds nothing, and goes on where an
    earlier import was interrupted.

    Args:
        memory: Where to.
        source: A file; a Qdrant collection as `http://…:6333/collections/<name>` or `<folder>/collection/<name>`;
            or rows, such as `[item.dict() for item in store.search(…)]`.
        format: One of `FORMATS`; `"auto"` recognises it.
        namespace: Whose memory. Where the source says whose each note is, that goes below it.
        thread: The thread of what names none; for chat messages the default is the name of the file.
        evolve: Construct, link and evolve at once; False leaves that to `evolve()`.
        progress: True logs how far it is; a function is called with (notes stored, notes in all).
        api_key: Of the Qdrant server that is read.

    Raises:
        InvalidInputError: It is not of the format, or nothing in it can be taken; the message names the place.
        NamespaceError: The source does not say whose its notes are, and `namespace` was not given.
        StoreError: The memory refused, or the collection cannot be read.
        ModelUnavailableError: Only with `on_model_error="raise"`; all notes are stored.
    """
    read = Source(source, thread=thread, api_key=api_key)
    job = Import(read, find_format(read, format), memory.config.max_content_chars)
    report = job.store(memory, namespace, reporter(progress))
    for space in report.found if evolve else ():
        memory.evolve(namespace=space)
    return report


def find_format(
    source: Source, name: str = AUTO, formats: Mapping[str, Format] = FORMATS
) -> Format:
    """Return the format of a name, or the one that a source is in.

    Raises:
        InvalidInputError: There is none of this name, or the source is in none.
        OSError: There is no such file.
    """
    if name != AUTO:
        if name not in formats:
            raise InvalidInputError(f"unknown format {name!r}; use one of {', '.join(formats)}")
        return formats[name]
    sample = source.sample()
    if source.is_lines and (not sample or _is_line(sample[0])):
        return formats["jsonl"]
    known = (one for one in formats.values() if any(map(one.recognises, sample)))
    if found := next(known, None):
        return found
    if len(sample) and sample[0].number == 0 and any(e.field in jsonl.TEXTS for e in sample):
        return formats["jsonl"]  # of one line
    raise InvalidInputError(
        f"{source.name} holds none of the known formats ({', '.join(formats)}); name the one it is"
    )


def _is_line(entry: Entry) -> bool:
    """Return whether a line has a text itself, so that no other format has to be looked for."""
    value = entry.value
    return not isinstance(value, Mapping) or any(name in value for name in jsonl.TEXTS)


class Import:
    """One import, checked when it is made.

    Attributes:
        source: Where it reads from.
        format: As what it is read.
        found: How many notes there are, by what the source says about whose they are; () where it does not.
        skipped: What could not be taken.
    """

    def __init__(self, source: Source, format_: Format, max_chars: int) -> None:
        """Read and check all of the source; a note has at most `max_chars` characters.

        Raises:
            InvalidInputError: It is not of the format, or nothing in it can be taken.
        """
        self.source, self.format, self._max_chars = source, format_, max_chars
        self.skipped = Skipped()
        self.found: Counter[Labels] = Counter(labels for labels, _ in self._items(self.skipped))
        if not self.found:
            why = str(self.skipped) or "it is empty"
            raise InvalidInputError(
                f"{source.name} holds nothing to import as {format_.name}: {why}"
            )

    @property
    def needs_namespace(self) -> bool:
        """Whether there are notes of which the source does not say whose they are."""
        return () in self.found

    def store(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Store the notes, in batches, and return what was stored; they wait for `evolve()`.

        Raises:
            NamespaceError: A namespace is needed and none was given.
        """
        base = () if namespace is None else check_namespace(namespace)
        if self.needs_namespace and not base:
            raise NamespaceError(
                f"{self.source.name} does not say whose its notes are; give a namespace, such as ('ann',)"
            )
        total = self.found.total()
        spaces = {(*base, *labels): count for labels, count in self.found.items()}
        before = {space: _count(memory, space) for space in spaces}
        batch: list[Found] = []
        done = 0
        for found in self._items(Skipped()):
            batch.append(found)
            if len(batch) == BATCH or done + len(batch) == total:
                _add(memory, base, batch)
                done += len(batch)
                batch = []
                if progress is not None:
                    progress(done, total)
        return ImportReport(
            format=self.format.name,
            found=spaces,
            added={space: _count(memory, space) - before[space] for space in spaces},
            skipped=dict(self.skipped.counts.most_common()),
            first_skipped=self.skipped.first,
        )

    def _items(self, skipped: Skipped) -> Iterator[Found]:
        """Yield what can be stored."""
        for number, (labels, item) in enumerate(self.format.read(self.source, skipped), 1):
            try:
                check_note_input(item, self._max_chars)
                "".join(labels).encode()
            except (InvalidInputError, UnicodeEncodeError) as error:
                if self.format.strict:
                    raise InvalidInputError(f"item {number}: {error}") from error
                skipped.add("cannot be stored", f"{item.key or f'item {number}'}: {error}")
            else:
                yield labels, item


def _count(memory: AgenticMemory, namespace: Namespace) -> int:
    return int(memory.stats(namespace=namespace)["notes"])


def _add(memory: AgenticMemory, base: Labels, batch: Sequence[Found]) -> None:
    by_owner: dict[Labels, list[NoteInput]] = {}
    for labels, item in batch:
        by_owner.setdefault(labels, []).append(item)
    for labels, items in by_owner.items():
        memory.add_many(items, namespace=(*base, *labels), evolve=False)
