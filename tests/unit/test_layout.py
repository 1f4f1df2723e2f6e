"""The borders that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import amem_integrations
from amem_integrations import AgenticMemory, adapting, conversation, ports

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


# A chat model is called in one place


def calls_of_generate(tree):
    """The calls of a method `generate` or `agenerate`, of whatever object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("generate", "agenerate"):
            yield node


def test_nothing_but_ask_calls_a_model():
    found = {
        path.relative_to(ROOT).as_posix(): [ast.unparse(node) for node in nodes]
        for package in [CORE, *ADAPTERS]
        for path in package.rglob("*.py")
        if (nodes := list(calls_of_generate(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found.pop("amem_integrations/evolution/ask.py") == ["runtime.model.generate"]
    # What the ports of the ecosystems call so is no call of the memory's model.
    assert {name for name in found if name.startswith("amem_integrations/")} <= {
        "amem_integrations/testing.py"
    }, found


# The synchronous and the asynchronous face of the memory are the same

RUN_TIME = [
    "add", "add_many", "add_messages", "construct", "propose", "commit", "evolve",
    "search", "recall", "context", "get", "get_all", "profile", "update", "supersede", "delete", "fill",
    "work", "recall_turn", "search_turn", "remember_turn", "remember_fact", "evolve_turn",
]  # fmt: skip

IN_THREADS = ["compact", "optimize", "flush"]  # upkeep, whose twins say so


@pytest.mark.parametrize("name", [*RUN_TIME, *IN_THREADS])
def test_a_method_and_its_twin_take_and_return_the_same(name):
    method, twin = getattr(AgenticMemory, name), getattr(AgenticMemory, f"a{name}")
    assert inspect.signature(method) == inspect.signature(twin)
    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(method)


@pytest.mark.parametrize("name", RUN_TIME)
def test_a_method_and_its_twin_have_one_documentation(name):
    method, twin = getattr(AgenticMemory, name), getattr(AgenticMemory, f"a{name}")
    assert inspect.getdoc(method) == inspect.getdoc(twin) != ""
    assert (method.__name__, twin.__name__) == (name, f"a{name}")


def test_there_is_no_twin_without_a_method():
    twins = {
        name
        for name, value in vars(AgenticMemory).items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_")
    }
    public = {
        name
        for name, value in inspect.getmembers(AgenticMemory, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    # `aclose` also ends what the running loop holds.
    assert twins <= public == {*(f"a{name}" for name in (*RUN_TIME, *IN_THREADS)), "aclose"}


# The lowest versions that are allowed are those that `make test-lowest` runs with

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# `llamaindex` needs higher versions of what the others need; the others are tools, or at the versions of the day.
TRIED = (
    "sentence-transformers",
    "minilm",
    "openai",
    "langchain",
    "classic",
    "langgraph",
    "cli",
    "testing",
)
WANTED = [
    requirement
    for text in (*PROJECT["dependencies"], *(text for name in TRIED for text in EXTRAS[name]))
    if (requirement := Requirement(text)).name != PROJECT["name"]
]
LINES = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
PINNED = {
    name.lower().replace("_", "-"): Version(version)
    for name, version in (line.split("==") for line in LINES if not line.startswith("#"))
}


def test_the_lowest_version_allowed_is_the_lowest_one_tried():
    untried = []
    for requirement in WANTED:
        (bound,) = [s.version for s in requirement.specifier if s.operator in (">=", "==")]
        lowest, pinned = Version(bound).release, PINNED[requirement.name.lower()]
        # Of "numpy>=1.26" it is the first one that the others can live with, such as 1.26.2.
        if pinned.release[: len(lowest)] != lowest:
            untried.append(f"{requirement}: tried with {pinned}")
    assert not untried
