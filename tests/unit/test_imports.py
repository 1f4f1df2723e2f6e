"""Importing costs little, and asks for nothing that is not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = [
    "torch",
    "sentence_transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "qdrant_client",
    "qdrant_edge",
    "openai",
    "yake",
    "json_repair",
    "networkx",
    "matplotlib",
    "rich",
    "amem_integrations.cli",
    "benchmarks",
    "langchain_core",
    "langgraph",
    "llama_index",
    "typer",
    "pytest",
]

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_importing_the_core_loads_nothing_heavy():
    names = "AgenticMemory, MemoryConfig, Plan, MiniLmEmbedder, OpenAIChatModel"
    done = python(
        f"import sys, amem_integrations.testing\nfrom amem_integrations import {names}\n"
        "from amem_integrations import SentenceTransformerEmbedder\n"
        f"print([n for n in {HEAVY!r} if n in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_public_name_is_imported_when_it_is_used():
    done = python(
        "import sys, amem_integrations as a\n"
        "before = 'numpy' in sys.modules, 'pydantic' in sys.modules\n"
        "a.AgenticMemory\n"
        "print(before, 'numpy' in sys.modules, hasattr(a, 'Nonsense'))"
    )
    assert done.stdout.strip() == "(False, False) True False", done.stderr


def test_the_core_works_with_its_own_dependencies_alone():
    missing = ["sentence_transformers", "torch", "openai", "rich", "typer", "matplotlib"]
    missing += ["langchain_core", "langgraph", "llama_index", "pytest"]
    done = python(
        WITHOUT.format(missing=missing)
        + """
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
    memory.add("I like tea", namespace=("ann",))
    print(memory.search("tea", namespace=("ann",))[0].note.content)
"""
    )
    assert done.stdout.strip() == "I like tea", done.stderr


@pytest.mark.parametrize(
    ("use", "missing", "extra"),
    [
        ("from amem_integrations import OpenAIChatModel as M; M('m')", ["openai"], "openai"),
        ("from amem_integrations import MiniLmEmbedder as M; M()", ["tokenizers"], "minilm"),
        ("import langchain_amem", ["langchain_core"], "langchain"),
        ("from langchain_amem import AMemMiddleware", ["langchain"], "langchain"),
        ("from langchain_amem import recall_node", ["langgraph"], "langgraph"),
        ("from langchain_amem import build_evolution_graph", ["langgraph"], "langgraph"),
        ("import llamaindex_amem", ["llama_index"], "llamaindex"),
        ("from amem_integrations.cli import main; main()", ["typer"], "cli"),
    ],
)
def test_what_is_missing_is_said_with_the_extra_that_brings_it(use, missing, extra):
    done = python(WITHOUT.format(missing=missing) + use)
    assert done.returncode != 0
    assert f"'.[{extra}]'" in done.stderr
