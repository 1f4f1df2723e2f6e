"""What is imported when, and what is said when a package is missing."""

from __future__ import annotations

import pytest
from support.processes import run_alone, run_without

import langchain_amem

EXTRAS = {
    "AMemMiddleware": "langchain",
    "AMemMemory": "classic",
    "AMemStore": "langgraph",
    "MemoryState": "langgraph",
    "recall_node": "langgraph",
    "build_evolution_graph": "langgraph",
    # What only some calls need is asked for by those.
    "memory_tools(memory, namespace=lambda run: ('ann',))": "langgraph",
    "open_memory(':memory:', model='openai:gpt-5-mini')": "langchain",
    "open_memory(':memory:', embedder='openai:text-embedding-3-small')": "langchain",
}
CORE_ALONE = """
import langchain_amem as a
from langchain_amem import AMemRetriever, LangChainChatModel, LangChainEmbedder
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
memory = AgenticMemory.open(':memory:', embedder=HashEmbedder())
memory.add('I moved to Oslo.', namespace=('ann',))
print(AMemRetriever(memory=memory, namespace=('ann',)).invoke('Oslo')[0].page_content)
print([tool.name for tool in a.memory_tools(memory, namespace=('ann',))][0])
for name in sys.argv[2:]:
    try: eval('a.' + name)
    except ImportError as error: print(type(error).__name__, error)
    else: print('nothing is missing')
"""


def test_the_package_needs_langchain_core_alone_and_what_needs_more_names_the_extra():
    done = run_without("langchain langgraph langchain_classic", CORE_ALONE, *EXTRAS)
    assert done.returncode == 0, done.stderr
    found, tool, *missing = done.stdout.splitlines()
    assert (found, tool) == ("I moved to Oslo.", "search_memory")
    for line, extra in zip(missing, EXTRAS.values(), strict=True):
        assert line.startswith("MissingExtraError")
        assert f"'.[{extra}]'" in line
    done = run_without("langchain_core", "import langchain_amem")
    assert "'.[langchain]'" in done.stderr.strip().splitlines()[-1]


def test_importing_loads_nothing_heavy():
    heavy = ["langgraph", "langchain", "langchain_classic", "langchain_core.messages", "langsmith"]
    looking = "import sys, langchain_amem\nprint([n for n in sys.argv[1:] if n in sys.modules])"
    assert run_alone(looking, *heavy).stdout.strip() == "[]"


def test_every_public_name_can_be_had_and_they_are_sorted():
    assert langchain_amem.__all__ == sorted(langchain_amem.__all__)
    assert all(getattr(langchain_amem, name) is not None for name in langchain_amem.__all__)
    assert dir(langchain_amem) == langchain_amem.__all__
    with pytest.raises(AttributeError):
        langchain_amem.nothing  # noqa: B018 - the access is the test
