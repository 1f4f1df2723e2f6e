"""The settings that a collection was made with, kept beside it: `amem.json` in a folder, metadata on a server."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import EmbedderMismatchError, StoreError, StoreFullError
from ..texts import TEMPLATE
from .bm25 import FINGERPRINT
from .payloads import SCHEMA

FORMAT = 2
BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The fingerprint of a collection.

    `closed` counts its points at the last clean close; None while it is open. `boot` tells since which start of the
    machine it is open; empty where nobody knows.
    """

    format: int = FORMAT
    embedder: str
    dimensions: int
    template: str
    bm25: Mapping[str, Any]
    created_at: str
    cosines: Mapping[str, float] | None = None  # of an embedder that is not in the table
    closed: Mapping[str, int] | None = None
    boot: str = ""

    @property
    def power_was_cut(self) -> bool:
        """Whether the machine may have gone down while the collection was open."""
        return self.closed is None and (not self.boot or self.boot != boot_id())

    @classmethod
    def made(cls, embedder: str, dimensions: int) -> Sidecar:
        """Return the fingerprint of a collection made now."""
        return cls(
            embedder=embedder,
            dimensions=dimensions,
            template=TEMPLATE,
            bm25=FINGERPRINT,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def parse(cls, stored: object, where: str) -> Sidecar:
        """Return the fingerprint found `where`.

        Raises:
            StoreError: It is none, or of a later version of this package.
        """
        version = stored.get("format") if isinstance(stored, dict) else None
        if not isinstance(version, int):
            raise StoreError(
                f"{where} holds no memory of amem-integrations; choose another place or collection"
            )
        if version != FORMAT:
            kind, advice = "schema", "open it with the version that made it"
            if version > FORMAT:
                kind, advice = "format", "install a newer version"
            raise StoreError(
                f"{where} holds a memory of {kind} {version}, which this version of amem-integrations does not "
                f"read (it reads schema {SCHEMA}); the memory is as it was: {advice}"
            )
        try:
            return TypeAdapter(cls).validate_python(stored)
        except ValidationError as error:
            raise StoreError(
                f"the description of the memory in {where} is damaged: {error}"
            ) from error

    @classmethod
    def read(cls, path: Path) -> Sidecar:
        """Return the fingerprint in a file; raise `StoreError` if there is none that can be read."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            stored = None
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"{path} cannot be read: {error}; restore it from a backup") from error
        return cls.parse(stored, str(path.parent))

    def write(self, path: Path) -> None:
        """Put the fingerprint in a file, whole or not at all; raise `StoreError` if that fails."""
        draft = path.with_suffix(".tmp")
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump(asdict(self), file, indent=2, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            kind = StoreFullError if error.errno in {errno.ENOSPC, errno.EDQUOT} else StoreError
            raise kind(
                f"{path} cannot be written: {error}; make room, or make the folder writable"
            ) from error

    def described(self) -> dict[str, Any]:
        """Return the versions and the embedder that the folder was made with, and the schema of its notes."""
        made = asdict(self)
        del made["closed"], made["boot"]
        return {**made, "schema": SCHEMA}

    def check(self, wanted: Sidecar, where: str) -> None:
        """Raise `EmbedderMismatchError`, which names what differs, if vectors made as `wanted` do not fit."""
        are_named = self.embedder and wanted.embedder
        differing = [
            f"{name} {getattr(self, name)!r}, now {getattr(wanted, name)!r}"
            for name in ("embedder", "dimensions", "template", "bm25")
            if getattr(self, name) != getattr(wanted, name) and (are_named or name != "embedder")
        ]
        if differing:
            raise EmbedderMismatchError(
                f"{where} was built with {'; '.join(differing)}. Open it with what it was built with, "
                "or embed its notes anew: `amem reindex --embedder NAME`, or amem_integrations.reindex.reindex(location, embedder)"
            )


def boot_id() -> str:
    """Return the boot id of the machine; empty where the system does not say."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""
