"""`amem export`, `reindex`, `sweep`, `optimize` and `compact`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import reindex as reindexing
from ..errors import ConfigurationError
from ..stores.folder import FolderStore, used_bytes
from .command import command
from .open_memory import embedder_name, folder, open_to_read, open_to_write
from .options import EMBEDDER, NAMESPACE, Options, format_namespace
from .terminal import print_result, progress

app = typer.Typer(rich_markup_mode=None)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help='Where to write, as lines of JSON; "-" is standard output.'
    ),
]


@command(app, "export", NAMESPACE)
def export(options: Options, file: File) -> None:
    """Write a namespace, or all, to a file, with links and history.

    `amem import` reads it back, exactly. The file is written whole or not at all. Without --namespace it holds all
    namespaces, with what models have cost: a backup, and the way from a folder to a server.
    """
    namespace = options.namespace
    if str(file) == "-":
        _export_to_stdout(options)
        return
    with open_to_read(options) as (memory, _):
        count = memory.export(file, namespace=namespace)
    whose = format_namespace(namespace) if namespace else "all namespaces"
    text = f"{file}: {count} notes of {whose}"
    values = {"file": str(file), "namespace": namespace and list(namespace), "notes": count}
    print_result(text, values, as_json=options.as_json)


def _export_to_stdout(options: Options) -> None:
    with tempfile.TemporaryDirectory(prefix="amem-export-") as folder:
        file = Path(folder) / "export.jsonl"
        with open_to_read(options) as (memory, _):
            memory.export(file, namespace=options.namespace)
        with file.open("rb") as lines:  # in UTF-8, whatever the terminal's encoding is
            shutil.copyfileobj(lines, sys.stdout.buffer)


@command(app, "reindex", EMBEDDER)
def reindex(options: Options) -> None:
    """Embed all notes again, with the same embedder or another.

    With another one (--embedder) a folder is built anew beside the old one and takes its place when it is
    complete; Ctrl-C leaves the old one.
    """
    if options.embedder in (None, embedder_name(options)):
        with open_to_write(options) as memory, progress() as show:
            count = memory.reindex(progress=partial(show, "embedding"))
            name = memory.embedder.name
    elif options.remote:
        raise ConfigurationError(
            "a collection on a server keeps its embedder; export it without --namespace, and import the file with "
            f"--collection NAME --embedder {options.embedder}"
        )
    else:
        embedder = options.make_embedder()
        name = embedder.name
        with progress() as show:
            count = reindexing.reindex(
                options.memory,
                embedder,
                collection=options.collection,
                progress=partial(show, "embedding"),
            )
    values = {"notes": count, "embedder": name}
    print_result(f"{count} notes encoded by {name}", values, as_json=options.as_json)


@command(app, "sweep", EMBEDDER, NAMESPACE)
def sweep(options: Options) -> None:
    """Delete the notes that have expired.

    They go as by `amem delete`; until then they are stored, but found by no command that reads notes. Without
    --namespace it is done in all namespaces.
    """
    with open_to_write(options) as memory:
        count = memory.sweep(namespace=options.namespace)
    text = f"{count} expired notes deleted"
    print_result(text, {"deleted": count}, as_json=options.as_json)


@command(app, "optimize")
def optimize(options: Options) -> None:
    """Build the index for very many notes.

    It is the graph that finds neighbours quickly (HNSW), worth it from about 200,000 notes in a folder. It
    takes minutes, and cannot be interrupted.
    """
    with _open_folder(options) as store:
        done = store.optimize()
    text = "The graph is built." if done else "Nothing to do: exact search is quick enough here."
    print_result(text, {"optimized": done}, as_json=options.as_json)


@command(app, "compact")
def compact(options: Options) -> None:
    """Write a folder anew, without the bytes of what was deleted.

    Until then the engine only marks them as gone. It takes about as long as an import.
    """
    with _open_folder(options) as store:
        before = used_bytes(folder(options))
        store.compact()
    after = used_bytes(folder(options))
    text = f"The folder takes {after:,} bytes; it took {before:,}."
    print_result(text, {"before": before, "after": after}, as_json=options.as_json)


@contextmanager
def _open_folder(options: Options) -> Iterator[FolderStore]:
    if options.remote:
        raise ConfigurationError(
            f"{options.memory!r} is no folder; a server maintains its collections by itself"
        )
    with open_to_read(options) as (_, store):
        assert isinstance(store, FolderStore)  # noqa: S101 - what a folder is opened with
        yield store
