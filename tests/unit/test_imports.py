"""Importing costs little, and asks for nothing that is not needed."""

from __future__ import annotations

import re

from support.processes import run_alone

HEAVY = """
torch sentence_transformers tokenizers safetensors huggingface_hub qdrant_client qdrant_edge openai yake json_repair
networkx matplotlib rich amem_integrations.cli benchmarks langchain_core langgraph llama_index typer pytest
"""


def test_importing_the_core_loads_nothing_heavy():
    names = "AgenticMemory, MemoryConfig, Plan, MiniLmEmbedder, OpenAIChatModel"
    done = run_alone(f"""
import sys, amem_integrations as a
print("numpy" in sys.modules, "pydantic" in sys.modules)
import amem_integrations.testing
from amem_integrations import {names}, SentenceTransformerEmbedder
print("numpy" in sys.modules, hasattr(a, "Nonsense"))
print([name for name in {HEAVY.split()!r} if name in sys.modules])
""")
    assert done.stdout.splitlines() == ["False False", "True False", "[]"], done.stderr


ALONE = """
import sys
missing = "sentence_transformers torch openai rich typer matplotlib langchain_core langgraph llama_index pytest"
sys.modules |= dict.fromkeys(missing.split())
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
    memory.add("I like tea", namespace=("ann",))
    print(memory.search("tea", namespace=("ann",))[0].note.content)
"""


def test_the_core_works_with_its_own_dependencies_alone():
    done = run_alone(ALONE)
    assert done.stdout.strip() == "I like tea", done.stderr


MISSING = [
    ("from amem_integrations import OpenAIChatModel as M; M('m')", "openai", "openai"),
    ("from amem_integrations import MiniLmEmbedder as M; M()", "tokenizers", "minilm"),
    ("import langchain_amem", "langchain_core", "langchain"),
    ("from langchain_amem import AMemMiddleware", "langchain", "langchain"),
    ("from langchain_amem import recall_node", "langgraph", "langgraph"),
    ("from langchain_amem import build_evolution_graph", "langgraph", "langgraph"),
    ("import llamaindex_amem", "llama_index", "llamaindex"),
    ("from amem_integrations.cli import main; main()", "typer", "cli"),
]
USES = """
import os, sys, traceback
import numpy, pydantic  # once for all
for use, missing, extra in cases:
    sys.stdout.flush()
    if os.fork() == 0:
        sys.modules[missing] = None
        try:
            exec(use, {})
        except (ImportError, SystemExit):
            traceback.print_exc(limit=0, chain=False)
        sys.stderr.flush()
        os._exit(0)
    os.wait()
"""


def test_what_is_missing_is_said_with_the_extra_that_brings_it():
    done = run_alone(f"cases = {MISSING!r}\n{USES}")
    assert re.findall(r"'\.\[(\w+)\]'", done.stderr) == [extra for *_, extra in MISSING]
