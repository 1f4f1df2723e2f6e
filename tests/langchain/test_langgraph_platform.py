"""The example for LangGraph Platform: what its `langgraph.json` names is there and works as the server uses it."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/langgraph_platform"


def named(reference: str) -> Any:
    """Return what a reference such as `./store.py:open_store` names, as the server loads it."""
    path, name = reference.split(":")
    return runpy.run_path(str(FOLDER / path))[name]


async def test_the_graph_of_the_file_works_with_its_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = json.loads((FOLDER / "langgraph.json").read_text(encoding="utf-8"))
    monkeypatch.setenv("AMEM_LOCATION", str(tmp_path))
    monkeypatch.setattr("amem_integrations.providers.minilm.MiniLmEmbedder", HashEmbedder)
    graph, open_store = named(config["graphs"]["agent"]), named(config["store"]["path"])
    answers = []
    for user, said in (
        ("ann", "My dog is called Rex."),
        ("ann", "What is my dog called?"),
        ("bob", "What is my dog called?"),
    ):
        async with open_store() as store:  # and again, as after a restart of the server
            graph.store = store
            asked = {"messages": [HumanMessage(said)]}
            done = await graph.ainvoke(asked, context={"user_id": user})
            answers.append(done["messages"][-1].text)
    assert answers == [
        "I will keep that in mind.",
        "You said: My dog is called Rex.",
        "I will keep that in mind.",
    ]


def test_the_guide_shows_the_same_file() -> None:
    page = (ROOT / "docs/langgraph-store.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert json.loads(shown) == json.loads((FOLDER / "langgraph.json").read_text(encoding="utf-8"))
