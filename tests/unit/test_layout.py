"""The borders that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import amem_integrations
from amem_integrations import adapting, conversation, ports

ROOT = Path(__file__).parents[2]
CORE = ROOT / "amem_integrations"
ADAPTERS = [ROOT / "langchain_amem", ROOT / "llamaindex_amem"]


def test_an_adapter_uses_only_the_public_names_of_the_core():
    public = {module.__name__: set(module.__all__) for module in (amem_integrations, conversation)}
    public["amem_integrations"] |= {"adapting", "conversation"}
    for module in (adapting, ports):
        public[module.__name__] = {name for name in vars(module) if not name.startswith("_")}
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
    assert set(names) <= set(dir(amem_integrations))


@pytest.mark.parametrize("package", [CORE, *ADAPTERS], ids=lambda path: path.name)
def test_every_package_says_that_it_is_typed(package):
    assert (package / "py.typed").is_file()
