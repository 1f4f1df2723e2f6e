"""What a report says about how it came about, so that the run can be repeated and compared."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import amem_integrations

_ROOT = Path(amem_integrations.__file__).parent
_OUTSIDE = {"cli"}  # it uses a memory and is no part of one
_PACKAGES = (
    *("amem-integrations", "qdrant-edge-py", "qdrant-client"),
    *("sentence-transformers", "tokenizers", "numpy"),
)


@cache
def code_digest() -> str:
    """Return a digest of the package's code and prompts, as far as they decide how a memory is built."""
    digest = hashlib.sha256()
    for file in _core_files():
        name = file.relative_to(_ROOT.parent).as_posix()
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _core_files() -> list[Path]:
    return sorted(
        file
        for file in _ROOT.rglob("*")
        if file.suffix in {".py", ".md"} and file.relative_to(_ROOT).parts[0] not in _OUTSIDE
    )


def file_digest(path: Path) -> dict[str, str]:
    """Return the name of a file and the digest of its content."""
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
