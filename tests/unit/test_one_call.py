"""A chat model is called in one place."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("amem_integrations", "langchain_amem", "llamaindex_amem")
ROOT = Path(__file__).parents[2]


def calls_of_generate(tree):
    """The calls of a method `generate` or `agenerate`, of whatever object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("generate", "agenerate"):
            yield node


def test_nothing_but_ask_calls_a_model():
    found = {
        path.relative_to(ROOT).as_posix(): [ast.unparse(node) for node in nodes]
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (nodes := list(calls_of_generate(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found.pop("amem_integrations/evolution/ask.py") == ["runtime.model.generate"]
    # What the ports of the ecosystems call so is no call of the memory's model.
    assert {name for name in found if name.startswith("amem_integrations/")} <= {
        "amem_integrations/testing.py"
    }, found
