"""What can be wrong with a folder: how it was closed, points that are missing or empty, a full disk."""

from __future__ import annotations

from collections.abc import Iterator

from ..stores.collection import CHANGE_INDEXES, NOTE_INDEXES
from ..stores.edge import MIN_FREE_BYTES
from ..stores.edge_shard import EdgeShard
from ..stores.folder import free_bytes
from ..stores.sidecar import Sidecar
from .census import Census
from .findings import Finding, good, hint, wrong
from .opening import folder
from .options import Options

_RESTORE = "restore a backup, or import an export"


def check_closing(made: Sidecar) -> Iterator[Finding]:
    """Say so if the folder was not closed."""
    if made.closed is None:
        text = "the last process was killed or did not close the memory; it has been put right"
        yield hint("closing", text, None)


def count_points(options: Options, made: Sidecar, census: Census) -> Iterator[Finding]:
    """Compare the points in the closed folder with what was there before, and with the notes."""
    path = folder(options)
    counts: dict[str, int] = {}
    for name, indexes in (("notes", NOTE_INDEXES), ("history", CHANGE_INDEXES)):
        shard = EdgeShard.load(path / name, indexes)
        counts[name] = shard.count()
        shard.close()
    for name, before in (made.closed or {}).items():
        if (missing := before - counts.get(name, 0)) > 0:
            text = f"{missing} of {before} points are missing from {name}"
            yield wrong("points", text, _RESTORE)
    if ghosts := counts["notes"] - census.notes:
        text = f"{ghosts} points hold no note; they are left out of everything"
        yield wrong("points", text, "import an export into another folder to be rid of them")
    else:
        yield good("points", f"{counts['notes']} notes, {counts['history']} in the history")


def check_space(options: Options) -> Finding:
    """Say how much room there is: the memory refuses to write when there is little."""
    path = folder(options)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    free = free_bytes(path)
    text = f"the memory takes up to {_mib(size)}, {_mib(free)} are free"
    if free < MIN_FREE_BYTES:
        return wrong(
            "disk", f"{text}; nothing is written below {_mib(MIN_FREE_BYTES)}", "make room"
        )
    if free < 4 * MIN_FREE_BYTES:
        return hint("disk", f"{text}; nothing is written below {_mib(MIN_FREE_BYTES)}", "make room")
    return good("disk", text)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
