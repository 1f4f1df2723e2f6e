"""What is imported when, and what is said when a package is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import langchain_amem

ROOT = Path(langchain_amem.__file__).parents[1]

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""

EXTRAS = {
    "AMemMiddleware": "langchain",
    "AMemMemory": "classic",
    "AMemStore": "langgraph",
    "MemoryState": "langgraph",
    "recall_node": "langgraph",
    "remember_node": "langgraph",
    "evolve_node": "langgraph",
    "build_evolution_graph": "langgraph",
}
# What only some calls need is asked for by those.
CALLS = {
    "memory_tools(None, namespace=lambda run: ('ann',))": "langgraph",
    "open_memory(':memory:', model='openai:gpt-5-mini')": "langchain",
    "open_memory(':memory:', embedder='openai:text-embedding-3-small')": "langchain",
}


def run(program: str, blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a program in which some packages are not installed."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_needs_langchain_core_alone() -> None:
    done = run(
        "import langchain_amem as a\n"
        "from langchain_amem import AMemRetriever, LangChainChatModel, LangChainEmbedder\n"
        "from amem_integrations import AgenticMemory\n"
        "from amem_integrations.testing import HashEmbedder\n"
        "memory = AgenticMemory.open(':memory:', embedder=HashEmbedder())\n"
        "memory.add('I moved to Oslo.', namespace=('ann',))\n"
        "print(AMemRetriever(memory=memory, namespace=('ann',)).invoke('Oslo')[0].page_content)\n"
        "print([tool.name for tool in a.memory_tools(memory, namespace=('ann',))])\n",
        ("langchain", "langgraph", "langchain_classic"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("I moved to Oslo.\n['search_memory'")


def test_what_needs_more_names_the_extra() -> None:
    wanted = {f"from langchain_amem import {name}": extra for name, extra in EXTRAS.items()}
    wanted |= {f"import langchain_amem as a; a.{call}": extra for call, extra in CALLS.items()}
    trying = (
        f"for program in {list(wanted)!r}:\n"
        "    try: exec(program)\n"
        "    except ImportError as error: print(type(error).__name__, error)\n"
        "    else: print('nothing is missing')\n"
    )
    done = run(trying, ("langchain", "langgraph", "langchain_classic"))
    assert done.returncode == 0, done.stderr
    for line, extra in zip(done.stdout.splitlines(), wanted.values(), strict=True):
        assert line.startswith("MissingExtraError")
        assert f"'.[{extra}]'" in line


def test_without_langchain_core_the_extra_is_named() -> None:
    done = run("import langchain_amem", ("langchain_core",))
    assert "'.[langchain]'" in done.stderr.strip().splitlines()[-1]


def test_importing_loads_nothing_heavy() -> None:
    heavy = ("langgraph", "langchain", "langchain_classic", "langchain_core.messages", "langsmith")
    done = run(
        f"import langchain_amem\nprint([name for name in {heavy!r} if name in sys.modules])", ()
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_had_and_they_are_sorted() -> None:
    assert langchain_amem.__all__ == sorted(langchain_amem.__all__)
    for name in langchain_amem.__all__:
        assert getattr(langchain_amem, name) is not None
    assert dir(langchain_amem) == langchain_amem.__all__
    with pytest.raises(AttributeError):
        langchain_amem.nothing  # noqa: B018 - the access is the test
