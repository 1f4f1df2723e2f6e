"""Facade: a memory as a file, as a graph, with another embedder; synchronous only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from .._sync import resolve, run
from ..engine import Progress
from ..engine.moving import PAGE, bring_in, bring_in_changes, embed_anew, made_by
from ..engine.progress import Meter
from ..errors import ConfigurationError, MissingExtraError
from ..ids import check_namespace
from ..notes import Change, Namespace, Note
from ..ports import Embedder
from . import records
from .admin import Admin
from .moving import rebuild
from .opening import open_store, reporter

if TYPE_CHECKING:
    import networkx as nx  # type: ignore[import-untyped,unused-ignore]


class Portability(Admin):
    """`export`, `import_`, `graph`, `reindex`."""

    def export(self, path: str | PathLike[str], *, namespace: Sequence[str]) -> int:
        """Write a namespace to a file: notes, links, contexts and history, as lines of JSON.

        The file is there whole or not at all. Returns the number of notes.

        Raises:
            OSError: The file cannot be written.
        """
        space = check_namespace(namespace)
        draft = Path(f"{path}.tmp")
        count = 0
        with draft.open("w", encoding="utf-8") as file:
            for line in self._lines(space):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += "note" in line
        draft.replace(path)
        return count

    def import_(
        self,
        path: str | PathLike[str],
        *,
        namespace: Sequence[str],
        progress: bool | Progress = False,
    ) -> int:
        """Add what `export` wrote, and return the number of notes in the file.

        Notes that are there already stay as they are, so doing it again, or going on after an interruption,
        is safe. In another namespace than they came from, notes get ids of that namespace.

        Args:
            path: The file.
            namespace: Whose memory.
            progress: True logs how far it is; a function is called with (notes read, notes in the file).

        Raises:
            InvalidInputError: The file is no export; what stood before the damage is imported.
            OSError: The file cannot be read.
            ModelUnavailableError: The embedder failed; import again to go on.
        """
        space = check_namespace(namespace)
        vectors = made_by(self._engine.runtime.embedder)
        values = records.read(path, space)
        tell = reporter(progress)
        meter = Meter(tell, 0 if tell is None else records.count(path))
        kept: set[str] = set()
        while page := list(islice(values, PAGE)):
            notes = [value for value in page if isinstance(value, Note)]
            differing = run(bring_in(self._store, space, notes, vectors))
            kept.update(note.id for note in differing)
            # A note that is there and another keeps its own history.
            changes = [value for value in page if isinstance(value, Change)]
            told = [made for made in changes if made.note_id not in kept]
            run(bring_in_changes(self._store, space, told))
            meter.add(len(notes))
        return meter.done

    def graph(self, *, namespace: Sequence[str]) -> nx.DiGraph:
        """Return the notes as nodes and the links as edges, from the newer note to the older.

        A node carries `content`, `speaker`, `thread`, `at`, `state`, `keywords` and `tags`; an edge
        `relation`, `reason` and `strength`.

        Raises:
            MissingExtraError: networkx is not installed.
        """
        try:
            import networkx as nx  # noqa: PLC0415 - of an extra
        except ModuleNotFoundError as error:
            raise MissingExtraError("networkx", "evaluation") from error
        graph = nx.DiGraph()
        names = ("content", "speaker", "thread", "at", "state", "keywords", "tags")
        notes = list(self._scan(check_namespace(namespace)))
        for note in notes:
            graph.add_node(note.id, **{name: getattr(note, name) for name in names})
        for note in notes:
            for target, link in note.links.items():
                if link.direction == "out" and target in graph:
                    about = {n: getattr(link, n) for n in ("relation", "reason", "strength")}
                    graph.add_edge(note.id, target, **about)
        return graph

    def reindex(
        self, embedder: Embedder | None = None, *, progress: bool | Progress = False
    ) -> int:
        """Embed all notes anew, and return how many there are.

        With the embedder there is (None) it is done in place. With another one a folder is built anew beside
        the old one, and takes its place when it is complete; after an interruption it goes on where it was.
        A memory that cannot be opened, because only the new embedder is there, is for the function
        `amem_integrations.memory.reindex(location, embedder)`; one on a server for `migrate`.

        Raises:
            ConfigurationError: Another embedder, and the memory is not in a folder.
            ModelUnavailableError: The embedder failed; call it again to go on.
        """
        current = self._embedder
        same = embedder is None or (embedder.name, embedder.dimensions) == (
            current.name,
            current.dimensions,
        )
        if embedder is None or same:
            return run(embed_anew(self._engine.runtime, reporter(progress)))
        if self._place is None or not self._place.is_folder:
            raise ConfigurationError(
                "only a memory that was opened in a folder takes another embedder in place; use "
                "amem_integrations.memory.migrate(source, target, embedder=…)"
            )
        run(resolve(self._store.close()))
        try:
            done = rebuild(self._place, embedder, reporter(progress))
            current = embedder
        finally:
            store = open_store(*self._place.arguments(current))
            self._connect(store, current, self._model, self.config)
        return done

    def _lines(self, namespace: Namespace) -> Iterator[records.Line]:
        yield records.header(namespace)
        yield from map(records.note_line, self._scan(namespace))
        yield from map(records.change_line, run(self._engine.history(None, namespace=namespace)))
