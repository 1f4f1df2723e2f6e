"""`amem export`, `reindex`, `migrate`, `sweep`, `optimize` and `compact`."""

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

from .. import EdgeStore
from .. import reindex as reindexing
from ..errors import ConfigurationError
from ..stores.edge import used_bytes
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
Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A folder, or the URL of a Qdrant server.")
]
TargetName = Annotated[
    str | None, typer.Option(help="Name of the collection there; by default that of the source.")
]
TargetKey = Annotated[
    str | None,
    typer.Option(
        envvar="AMEM_TARGET_API_KEY",
        help="API key of the target, if it is a server that needs one.",
    ),
]


@command(app, "export", NAMESPACE)
def export(options: Options, file: File) -> None:
    """Write a namespace to a file, with links and history.

    `amem import` reads it back, exactly. The file is written whole or not at all.
    """
    namespace = options.required_namespace
    if str(file) == "-":
        _export_to_stdout(options)
        return
    with open_to_read(options) as (memory, _):
        count = memory.export(file, namespace=namespace)
    text = f"{file}: {count} notes of {format_namespace(namespace)}"
    values = {"file": str(file), "namespace": list(namespace), "notes": count}
    print_result(text, values, as_json=options.as_json)


def _export_to_stdout(options: Options) -> None:
    with tempfile.TemporaryDirectory(prefix="amem-export-") as folder:
        file = Path(folder) / "export.jsonl"
        with open_to_read(options) as (memory, _):
            memory.export(file, namespace=options.required_namespace)
        with file.open("rb") as lines:  # in UTF-8, whatever the terminal's encoding is
            shutil.copyfileobj(lines, sys.stdout.buffer)


@command(app, "reindex", EMBEDDER)
def reindex(options: Options) -> None:
    """Embed all notes again, with the same embedder or another.

    With another one (--embedder) a folder is built anew beside the old one and takes its place when it is
    complete; Ctrl-C leaves the old one, and the same command goes on.
    """
    if options.embedder in (None, embedder_name(options)):
        with open_to_write(options) as memory, progress() as show:
            count = memory.reindex(progress=partial(show, "embedding"))
            name = memory.embedder.name
    elif options.remote:
        raise ConfigurationError(
            "a collection on a server keeps its embedder; copy it with another one: amem migrate "
            f"{options.memory} --target-collection NAME --embedder {options.embedder}"
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


@command(app, "migrate", EMBEDDER)
def migrate(
    options: Options,
    target: Target,
    target_collection: TargetName = None,
    target_api_key: TargetKey = None,
) -> None:
    """Copy the whole memory to another folder or server.

    The source stays as it is. Vectors are copied; with --embedder they are made anew. After Ctrl-C the same
    command goes on.
    """
    embedder_name(options)  # raises if there is no memory to copy
    with progress() as show:
        count = reindexing.migrate(
            options.memory,
            target,
            embedder=options.make_embedder() if options.embedder else None,
            collection=options.collection,
            target_collection=target_collection,
            source_options=options.client_options,
            target_options={"api_key": target_api_key} if target_api_key else {},
            progress=partial(show, "copying"),
        )
    values = {"notes": count, "target": target}
    print_result(f"{count} notes are in {target}", values, as_json=options.as_json)


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
def _open_folder(options: Options) -> Iterator[EdgeStore]:
    if options.remote:
        raise ConfigurationError(
            f"{options.memory!r} is no folder; a server maintains its collections by itself"
        )
    with open_to_read(options) as (_, store):
        assert isinstance(store, EdgeStore)  # noqa: S101 - what a folder is opened with
        yield store
