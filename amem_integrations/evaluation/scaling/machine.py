"""What this process and a folder take up, in MB of 2**20 bytes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MB = 2**20

_BLOCK = 512  # bytes; what `st_blocks` counts, whatever the disk's own blocks are


def memory_mb() -> dict[str, float | None]:
    """Return what is in memory of this process, and of it what is mapped from no file.

    The engine maps its files, and the system can take back their pages. Where there is no figure for now
    (macOS), it is the most there has been; where there is none at all (Windows), it is None.
    """
    if sys.platform == "linux":
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
        resident, mapped = (int(field) * os.sysconf("SC_PAGESIZE") / MB for field in fields[1:3])
        return {"memory_mb": resident, "private_mb": resident - mapped}
    if sys.platform == "win32":
        return {"memory_mb": None, "private_mb": None}
    import resource  # noqa: PLC0415 - not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"memory_mb": most / (MB if sys.platform == "darwin" else 1024), "private_mb": None}


def growth_mb(before: dict[str, float | None]) -> dict[str, float | None]:
    """Return by how much this process has grown since."""
    return {
        name: None if now is None else round(now - (before[name] or 0.0), 1)
        for name, now in memory_mb().items()
    }


def disk_mb(folder: Path) -> float:
    """Return what a folder takes on the disk: the engine's files are longer than what is in them."""
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    used = sum(getattr(one, "st_blocks", one.st_size / _BLOCK) * _BLOCK for one in stats)
    return round(used / MB, 1)
