"""The package as others find it."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from llama_index.core.memory import Memory
from packaging.requirements import Requirement

import llamaindex_amem

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r} or name.startswith({name!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import llamaindex_amem
"""


@pytest.mark.parametrize("missing", ["llama_index", "llama_index.core"])
def test_without_the_framework_the_error_names_the_extra(missing):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(name=missing)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "MissingExtraError: 'llama-index-core' is not installed" in done.stderr
    assert "pip install '.[llamaindex]'" in done.stderr


def test_all_is_complete_and_sorted():
    assert llamaindex_amem.__all__ == sorted(llamaindex_amem.__all__)
    assert all(getattr(llamaindex_amem, name).__doc__ for name in llamaindex_amem.__all__)


def test_the_framework_is_one_it_was_made_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = map(Requirement, project["optional-dependencies"]["llamaindex"])

    assert wanted.name == "llama-index-core"
    assert wanted.specifier.contains(version(wanted.name))


def test_what_it_overrides_in_the_framework_is_as_it_was():
    insert = ["self", "chat_history", "memory_content", "chat_message_data"]
    assert [*inspect.signature(Memory._insert_memory_content).parameters] == insert
    assert [*inspect.signature(Memory._manage_queue).parameters] == ["self"]
    assert "tokens_in_current_queue > token_limit" in inspect.getsource(Memory._manage_queue)


@pytest.mark.parametrize("name", ["ingest", "memory", "retriever", "tools"])
def test_the_examples_in_the_docstrings_are_true(name):
    outcome = doctest.testmod(import_module(f"llamaindex_amem.{name}"))

    assert outcome.failed == 0
    assert outcome.attempted > 0


IMPORTS = """
import sys, amem_integrations.adapting, amem_integrations.conversation
print(any(name.startswith("llama_index") for name in sys.modules))
import llama_index.core.memory, llama_index.core.program.function_program
before = set(sys.modules)
import llamaindex_amem
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(loaded - {"llamaindex_amem", "llama_index"})
"""


def test_the_core_knows_no_framework_and_the_adapter_loads_nothing_beside_both():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "set()"]
