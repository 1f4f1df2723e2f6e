"""The size budgets and the borders that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import amem_integrations
from amem_integrations import adapting

ROOT = Path(__file__).parents[2]
CORE = ROOT / "amem_integrations"
ADAPTERS = [ROOT / "langchain_amem", ROOT / "llamaindex_amem"]
SOURCES = sorted(path for folder in [CORE, *ADAPTERS] for path in folder.rglob("*.py"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code: a docstring and a signature over many lines make a function longer, not harder."""
    body = function.body
    first = body[1] if len(body) > 1 and ast.get_docstring(function) else body[0]
    return (function.end_lineno or 0) - first.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_stays_short_enough_to_read(path):
    limit = 250 if path.is_relative_to(CORE) else 199
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= limit, f"{path.name} has {lines} lines, more than {limit}"


def test_functions_stay_short():
    sizes = sorted(length(function) for path in SOURCES for function in functions(path))
    assert statistics.median(sizes) <= 10
    assert sizes[int(len(sizes) * 0.9)] <= 25
    assert sizes[-1] <= 50


def test_an_adapter_uses_only_the_public_names_of_the_core():
    public = {module.__name__: set(module.__all__) for module in (amem_integrations, adapting)}
    public["amem_integrations"].add("adapting")
    for folder in ADAPTERS:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = {alias.name for alias in node.names}
                    assert not any(name.startswith("amem_integrations.") for name in names), path
                if isinstance(node, ast.ImportFrom) and not node.level:
                    module = node.module or ""
                    if module.split(".")[0] == "amem_integrations":
                        assert module in public, path
                        assert {alias.name for alias in node.names} <= public[module], path


def test_all_is_complete_and_sorted():
    names = amem_integrations.__all__
    assert list(names) == sorted(names)
    assert all(hasattr(amem_integrations, name) for name in names)


@pytest.mark.parametrize("package", [CORE, *ADAPTERS], ids=lambda path: path.name)
def test_every_package_says_that_it_is_typed(package):
    assert (package / "py.typed").is_file()
