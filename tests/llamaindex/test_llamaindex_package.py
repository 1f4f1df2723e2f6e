"""The package as others find it; the examples and the README's code run, and say what they promise to say."""

from __future__ import annotations

import doctest
import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.processes import run_without

import llamaindex_amem

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_without_the_framework_the_error_names_the_extra():
    for missing in ("llama_index", "llama_index.core"):
        done = run_without(missing, "import llamaindex_amem")
        assert done.returncode == 1
        assert "MissingExtraError: 'llama_index' is not installed" in done.stderr
        assert "pip install '.[llamaindex]'" in done.stderr


def test_all_is_complete_and_sorted():
    assert llamaindex_amem.__all__ == sorted(llamaindex_amem.__all__)
    assert all(getattr(llamaindex_amem, name).__doc__ for name in llamaindex_amem.__all__)


def test_the_examples_in_the_docstrings_are_true():
    for name in ("ingest", "memory", "retriever", "tools"):
        outcome = doctest.testmod(import_module(f"llamaindex_amem.{name}"))
        assert (outcome.failed, outcome.attempted > 0) == (0, True)


def output_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_the_chat_engine_remembers_across_sessions_and_tells_users_apart(capsys):
    _, monday, friday, bob, notes = output_of("llamaindex_chat_engine.py", capsys).split("--- ")

    assert monday.count("I will remember that.") == 3
    for said in ("My sister Clara moved to Lisbon", "I am allergic to peanuts"):
        assert f"You told me: {said}" in friday
    assert "I do not know." in bob
    assert ("tags" in notes, "links" in notes) == (True, True)


def test_the_agent_corrects_its_memory(capsys):
    out = output_of("llamaindex_agent.py", capsys)
    _, monday, friday, before, sunday, found = out.split("--- ")

    assert "agent calls remember: Remembered as note" in monday
    assert "Enjoy the trip!" in friday
    assert "agent calls correct: Corrected." in sunday
    assert "works as a nurse in Porto." in found
    assert "works as a nurse in Lisbon." not in found
    assert "learnt later: Clara is the nurse whom Ann talks about visiting in May." in before


def test_agents_of_a_workflow_share_what_a_user_said(capsys):
    out = output_of("llamaindex_workflow.py", capsys)

    assert "cook: No peanuts for you: rice with mango." in out
    assert out in (ROOT / "docs/llamaindex.md").read_text(encoding="utf-8")


def test_the_readmes_code_finds_what_is_known_and_remembers_what_is_said(
    memory, monkeypatch, capsys
):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"(?ms)^\*\*LlamaIndex\.\*\*.*?^The guides", readme)
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.syspath_prepend(str(ROOT / "tests/support/stand_ins"))
    memory.add("Ella's wedding is in the old harbour.", namespace=("mira",))
    names: dict[str, Any] = {"memory": memory, "mira": ("mira",)}

    exec(code, names)

    assert "old harbour" in capsys.readouterr().out
    said = [note.content for note in memory.get_all(namespace=("mira",), where={"source": "user"})]
    assert said[1:] == ["When is Ella's wedding?"]
