"""What a report says about how it came about, so that the run can be repeated and compared."""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import amem_integrations
from amem_integrations.ports import Embedder

from .answering import prompt_text
from .scoring import describe as describe_scoring
from .statistics import RESAMPLES, SEED
from .systems import MAIN, Settings

_ROOT = Path(amem_integrations.__file__).parent
_OUTSIDE = {"cli"}  # it uses a memory and is no part of it
_UNTUNED = {"adapting", "testing"}  # their constants decide nothing that is found
_COUNTING = {"building.py", "data.py"}  # but what building took is kept with it
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
    embedder: Embedder,
    *,
    dataset: Path,
    models: Mapping[str, Any],
    **more: Any,  # noqa: ANN401 - JSON values
) -> dict[str, Any]:
    """Return everything the figures depend on, and `more` of one data set (without None), as JSON values."""
    judged = any(task.judged for task in settings.tasks)
    tasks = [*(task.prompt for task in settings.tasks), "judge"]
    answering = {
        "answered_from": list(settings.answer_ks),
        "budgets": list(settings.budgets),
        "models": dict(models),
        "prompts": {task: prompt_text(task) for task in tasks},
        "scoring": describe_scoring(embedder) if judged and settings.answer_ks else None,
    }
    return {
        "dataset": file_digest(dataset),
        **{name: value for name, value in more.items() if value is not None},
        "embedder": {"name": embedder.name, "dimensions": embedder.dimensions},
        **(answering if settings.answer_ks else {}),
        "config": asdict(settings.variants[MAIN]),
        "constants": constants(),
        "code": code_digest(),
        "bootstrap": {"seed": SEED, "resamples": RESAMPLES},
        "versions": versions(),
    }


@cache
def constants() -> Mapping[str, float]:
    """Return the numeric constants of the memory's code, by module and name."""
    return {
        f"{'.'.join(file.relative_to(_ROOT).with_suffix('').parts)}.{name}": value
        for file in _core_files()
        if file.suffix == ".py" and file.relative_to(_ROOT).parts[0] not in _UNTUNED
        for name, value in _numbers(ast.parse(file.read_text(encoding="utf-8")))
    }


def _numbers(module: ast.Module) -> Iterator[tuple[str, float]]:
    for statement in module.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value))
            ) if name.isupper() and name[0] != "_":
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield name, value


@cache
def code_digest() -> str:
    """Return a digest of the package's code and prompts, as far as they decide how a memory is built."""
    counting = [Path(__file__).with_name(name) for name in sorted(_COUNTING)]
    digest = hashlib.sha256()
    for file in (*_core_files(), *counting):
        name = file.relative_to(_ROOT).as_posix() if file.is_relative_to(_ROOT) else file.name
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _core_files() -> list[Path]:
    return sorted(
        file
        for file in _ROOT.rglob("*")
        if file.suffix in {".py", ".md"} and file.relative_to(_ROOT).parts[0] not in _OUTSIDE
    )


def file_digest(path: Path) -> dict[str, str]:
    """Return the name of a file and the digest of what it holds."""
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
