"""What a report on DialSim says about how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...ports import Embedder
from .. import scoring
from ..answering import prompt_text
from ..provenance import code_digest, constants, file_digest, versions
from ..statistics import RESAMPLES, SEED
from . import choosing
from .examining import task_of
from .settings import Format, Settings


def describe(
    settings: Settings,
    *,
    dataset: Path,
    sessions: int | None,
    names: Mapping[str, str],
    embedder: Embedder,
    models: Mapping[str, Any],
) -> dict[str, Any]:
    """Return everything the figures depend on, as JSON values. Files go by name and digest only.

    Args:
        settings: What was run.
        dataset: The file of the show.
        sessions: How many sessions were taken, if not all.
        names: Which characters were given other names.
        embedder: The embedder.
        models: The language models and how they were asked.
    """
    return {
        "dataset": file_digest(dataset),
        "sessions": sessions,
        "names": dict(names),
        "formats": [one.value for one in settings.formats],
        "k": settings.k,
        "seed": settings.seed,
        "questions": settings.questions,
        "embedder": {"name": embedder.name, "dimensions": embedder.dimensions},
        "models": dict(models),
        "prompts": {task: prompt_text(task) for task in _tasks(settings)},
        "scoring": scoring.describe(embedder) if Format.OPEN in settings.formats else None,
        "simulator": {
            name.lower(): getattr(choosing, name)
            for name in ("GRAPH_SHARE", "FUTURE_SHARE", "UNANSWERABLE_SHARE", "DRAWS", "NEARBY")
        },
        "config": asdict(settings.config),
        "constants": constants(),
        "code": code_digest(),
        "bootstrap": {"seed": SEED, "resamples": RESAMPLES},
        "versions": versions(),
    }


def _tasks(settings: Settings) -> list[str]:
    return [*(task_of(format_) for format_ in settings.formats), "judge"]
