"""What a report says about how it came about, so that it can be run again and compared."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..ports import Embedder
from .metrics import RESAMPLES, SEED
from .recordings import Recording
from .settings import Settings

# Modules whose constants decide what is found.
_TUNED = ("ranking", "texts", "steps.candidates", "stores.bm25", "providers.offline")
_PACKAGES = (
    "amem-integrations",
    "qdrant-edge-py",
    "qdrant-client",
    "sentence-transformers",
    "numpy",
)


def describe(
    settings: Settings,
    *,
    dataset: Path,
    recordings: Mapping[str, Recording],
    conversations: Iterable[str],
    ratio: float,
    embedder: Embedder,
) -> dict[str, Any]:
    """Return everything the figures depend on, as JSON values. Files go by name and digest only."""
    return {
        "k": list(settings.ks),
        "ablation": settings.ablation.value,
        "baselines": settings.baselines,
        "ratio": ratio,
        "conversations": list(conversations),
        "dataset": _file(dataset),
        "annotations": {name: _file(one.file) for name, one in recordings.items()},
        "encoder": {"name": embedder.name, "dimensions": embedder.dimensions},
        "config": asdict(settings.config),
        "constants": constants(),
        "bootstrap": {"seed": SEED, "resamples": RESAMPLES},
        "versions": {
            "python": platform.python_version(),
            **{name: found for name in _PACKAGES if (found := _version(name))},
        },
    }


def constants() -> dict[str, float]:
    """Return the numeric constants of ranking and candidate search, by module and name."""
    return {
        f"{module}.{name}": value
        for module in _TUNED
        for name, value in sorted(vars(import_module(f"amem_integrations.{module}")).items())
        if name.isupper() and isinstance(value, int | float)
    }


def _file(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
