"""The borders that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import amem_integrations
from amem_integrations import AgenticMemory, adapting, conversation, errors, ports

ROOT = Path(__file__).parents[2]
CORE = ROOT / "amem_integrations"
ADAPTERS = [ROOT / "langchain_amem", ROOT / "llamaindex_amem"]


def imports(path):
    """The modules of the core that a file imports from, and the names that it takes of each."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, set()) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", {alias.name for alias in node.names}


def test_an_adapter_uses_only_the_public_names_of_the_core():
    public = {"amem_integrations": {*amem_integrations.__all__, "adapting", "conversation"}}
    for module in (adapting, conversation, errors, ports):
        public[module.__name__] = {name for name in vars(module) if not name.startswith("_")}
    for path in (path for folder in ADAPTERS for path in folder.rglob("*.py")):
        for module, names in imports(path):
            if module.split(".")[0] == "amem_integrations":
                assert names <= public.get(module, {...}), path


def test_all_is_complete_and_sorted():
    names = amem_integrations.__all__
    assert list(names) == sorted(names)
    assert all(hasattr(amem_integrations, name) for name in names)
    assert set(names) <= set(dir(amem_integrations))


def test_every_package_says_that_it_is_typed():
    for package in (CORE, *ADAPTERS):
        assert (package / "py.typed").is_file()


# A chat model is called in one place


def test_nothing_but_ask_calls_a_model():
    found = {}
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("generate", "agenerate"):
                found.setdefault(path.relative_to(CORE).as_posix(), []).append(ast.unparse(node))
    assert found.pop("evolution/ask.py") == ["runtime.model.generate"]
    assert found.keys() <= {"testing.py"}, found


# The synchronous and the asynchronous face of the memory are the same

RUN_TIME = [
    "add", "add_many", "add_messages", "construct", "propose", "commit", "evolve",
    "search", "recall", "context", "get", "get_all", "profile", "update", "supersede", "delete", "fill",
    "work", "recall_turn", "search_turn", "remember_turn", "remember_fact", "evolve_turn",
]  # fmt: skip

IN_THREADS = ["compact", "optimize", "flush"]  # upkeep, whose twins say so


def test_a_method_and_its_twin_take_and_return_the_same():
    for name in (*RUN_TIME, *IN_THREADS):
        method, twin = getattr(AgenticMemory, name), getattr(AgenticMemory, f"a{name}")
        assert inspect.signature(method) == inspect.signature(twin), name
        assert inspect.iscoroutinefunction(twin), name
        assert not inspect.iscoroutinefunction(method), name
        if name in RUN_TIME:
            assert inspect.getdoc(method) == inspect.getdoc(twin) != "", name
            assert (method.__name__, twin.__name__) == (name, f"a{name}")


def test_there_is_no_twin_without_a_method():
    coroutines = dict(inspect.getmembers(AgenticMemory, inspect.iscoroutinefunction))
    twins = {name for name in coroutines if not name.startswith("_")}
    # A memory is closed in a thread.
    assert twins == {*(f"a{name}" for name in (*RUN_TIME, *IN_THREADS)), "aclose"}


# The lowest versions that are allowed are those that `make test-lowest` runs with

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
TRIED = "sentence-transformers minilm openai langchain classic langgraph cli testing"
TEXTS = [*PROJECT["dependencies"], *(text for name in TRIED.split() for text in EXTRAS[name])]
WANTED = [one for one in map(Requirement, TEXTS) if one.name != PROJECT["name"]]
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
