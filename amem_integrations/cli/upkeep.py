"""`amem export`, `reindex`, `migrate` and `optimize`: looking after a memory as a whole."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..memory.moving import migrate as copy
from ..memory.moving import reindex as rebuild
from .looks import console, progress
from .namespaces import format_namespace
from .opening import embedder_name, encoding, place, reading
from .options import EMBEDDER, NAMESPACE, Options, command
from .values import print_json

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
    typer.Option(envvar="AMEM_TARGET_API_KEY", help="Of the target, if it is a server with a key."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "export", NAMESPACE)(export)
    command(app, "reindex", EMBEDDER)(reindex)
    command(app, "migrate", EMBEDDER)(migrate)
    command(app, "optimize")(optimize)


def export(options: Options, file: File) -> None:
    """Write a namespace to a file: notes, links, contexts and history.

    `amem import` reads it back, exactly. The file is there whole or not at all.
    """
    space = options.space
    if str(file) == "-":
        _export_to_stdout(options)
        return
    with reading(options) as opened:
        count = opened.memory.export(file, namespace=space)
    if options.as_json:
        print_json({"file": str(file), "namespace": list(space), "notes": count})
    else:
        console().print(f"{file}: {count} notes of {format_namespace(space)}", soft_wrap=True)


def _export_to_stdout(options: Options) -> None:
    with tempfile.TemporaryDirectory(prefix="amem-export-") as folder, reading(options) as opened:
        whole = Path(folder) / "export.jsonl"
        opened.memory.export(whole, namespace=options.space)
        with whole.open(encoding="utf-8") as lines:
            shutil.copyfileobj(lines, sys.stdout)


def reindex(options: Options) -> None:
    """Embed all notes anew, with the embedder there is or another one.

    With another one (--embedder) a folder is built anew beside the old one and takes its place when it is
    complete; Ctrl-C leaves the old one, and the same command goes on.
    """
    known = embedder_name(options)
    with progress() as tell:

        def told(done: int, total: int) -> None:
            tell("encoding", done, total)

        if options.embedder in (None, known):
            with encoding(options) as opened:
                count = opened.memory.reindex(progress=told)
                name = opened.embedder.name
        elif options.remote:
            raise ConfigurationError(
                "a collection on a server keeps its embedder; copy it with another one: amem migrate "
                f"{options.memory} --target-collection NAME --embedder {options.embedder}"
            )
        else:
            embedder = options.ports.embedder(options.embedder, options.base_url)
            name = embedder.name
            count = rebuild(options.memory, embedder, collection=options.collection, progress=told)
    _told(options, {"notes": count, "embedder": name}, f"{count} notes encoded by {name}")


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
    embedder = None
    if options.embedder is not None:
        embedder = options.ports.embedder(options.embedder, options.base_url)
    source = place(options)
    with progress() as tell:
        count = copy(
            source.location,
            target,
            embedder=embedder,
            collection=options.collection,
            target_collection=target_collection,
            source_options=source.options,
            target_options={"api_key": target_api_key} if target_api_key else {},
            progress=lambda done, total: tell("copying", done, total),
        )
    _told(options, {"notes": count, "target": target}, f"{count} notes are in {target}")


def optimize(options: Options) -> None:
    """Build the graph that finds neighbours among very many notes.

    Worth it from about 200,000 notes in a folder; it takes minutes, and cannot be interrupted.
    """
    if options.remote:
        raise ConfigurationError(
            "a server optimises its collections by itself; there is nothing to do"
        )
    from ..stores.edge import EdgeStore  # noqa: PLC0415 - brings its engine along

    with reading(options) as opened:
        done = isinstance(opened.store, EdgeStore) and opened.store.optimize()
    text = "The graph is built." if done else "Nothing to do: exact search is quick enough here."
    _told(options, {"optimized": done}, text)


def _told(options: Options, values: dict[str, object], text: str) -> None:
    if options.as_json:
        print_json(values)
    else:
        console().print(text, soft_wrap=True)
