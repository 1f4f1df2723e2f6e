"""What a report says about how it came about, so that the run can be repeated and compared."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import amem_integrations

_ROOT = Path(amem_integrations.__file__).parent
_PACKAGES = (
    *("amem-integrations", "qdrant-edge-py", "qdrant-client"),
    *("sentence-transformers", "tokenizers", "numpy"),
)


def code_digest() -> str:
    """Return a digest of the package's code and prompts."""
    digest = hashlib.sha256()
    for file in sorted(one for one in _ROOT.rglob("*") if one.suffix in {".py", ".md"}):
        digest.update(file.relative_to(_ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


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
