"""What a report says about how it came about, so that it can be run again and compared."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..ports import Embedder
from . import scoring
from .answering import prompt_text
from .recordings import Recording
from .settings import Settings
from .statistics import RESAMPLES, SEED
from .systems import MAIN

# Modules whose constants decide what is found.
_TUNED = ("ranking", "texts", "steps.candidates", "stores.bm25", "providers.rules")
_OUTSIDE = {"cli", "evaluation"}  # they use a memory and are no part of it
_COUNTING = {"building.py", "results.py"}  # but what building took is kept with it
_PACKAGES = (
    "amem-integrations",
    "qdrant-edge-py",
    "qdrant-client",
    "sentence-transformers",
    "tokenizers",
    "numpy",
)


def describe(
    settings: Settings,
    *,
    dataset: Path,
    recordings: Mapping[str, Recording],
    conversations: Iterable[str],
    embedder: Embedder,
    models: Mapping[str, Any] | None = None,
    golds: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return everything the figures depend on, as JSON values. Files go by name and digest only.

    Args:
        settings: What was run.
        dataset: The file with the conversations.
        recordings: By conversation, what its notes were written from.
        conversations: The ids of those that were run.
        embedder: The embedder.
        models: The language models and how they were asked.
        golds: What was put right in the gold answers.
    """
    return {
        "k": list(settings.ks),
        "systems": list(settings.chosen),
        "conversations": list(conversations),
        "dataset": file_digest(dataset),
        "annotations": {name: file_digest(one.file) for name, one in recordings.items()},
        "embedder": {"name": embedder.name, "dimensions": embedder.dimensions},
        **(_answering(settings, models or {}, embedder) if settings.answer_ks else {}),
        **({"golds": golds} if golds else {}),
        "config": asdict(settings.variants[MAIN]),
        "constants": constants(),
        "code": code_digest(),
        "bootstrap": {"seed": SEED, "resamples": RESAMPLES},
        "versions": versions(),
    }


def _answering(settings: Settings, models: Mapping[str, Any], embedder: Embedder) -> dict[str, Any]:
    return {
        "answered_from": list(settings.answer_ks),
        "models": models,
        "prompts": {task: prompt_text(task) for task in ("answer", "judge")},
        "scoring": scoring.describe(embedder),
    }


def constants() -> dict[str, float]:
    """Return the numeric constants of ranking and candidate search, by module and name."""
    return {
        f"{module}.{name}": value
        for module in _TUNED
        for name, value in sorted(vars(import_module(f"amem_integrations.{module}")).items())
        if name.isupper() and isinstance(value, int | float)
    }


@cache
def code_digest() -> str:
    """Return a digest of the package's code and prompts, as far as they decide what a memory is like."""
    root = Path(__file__).parents[1]
    files = sorted(
        file
        for file in root.rglob("*")
        if file.suffix in {".py", ".md"}
        and (file.relative_to(root).parts[0] not in _OUTSIDE or file.name in _COUNTING)
    )
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def file_digest(path: Path) -> dict[str, str]:
    """Return the name of a file and the digest of what it holds."""
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    found = {name: _version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        **{name: known for name, known in found.items() if known},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
