"""Every example runs offline, and prints what it promises."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
@pytest.mark.parametrize(
    ("name", "promised"),
    [
        (
            "langgraph_evolution",
            ["before: Melanie and pottery.", "1 evolved", "something she does with her daughter"],
        ),
        (
            "langchain_agent",
            [
                "You live in Oslo.",
                "I do not know yet.",
                "[correct_memory]",
                "user: Ann lives in Bergen.",
            ],
        ),
        (
            "langchain_agent_review",
            [
                "A person is asked: forget_memory",
                "My key is under the flower pot.",
                "started again --\nI have forgotten where the key is.\n['Thank you, I will",
            ],
        ),
        ("langchain_classic_chain", ["<memories>", "I made a bowl", "You made a bowl."]),
    ],
)
def test_an_example_runs_offline(
    name: str, promised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [text for text in promised if text not in printed] == []


def test_the_readme_shows_each_door_with_a_real_model() -> None:
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    ours = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = "\n".join(ours)
    for name in (
        "AMemMiddleware(",
        "memory_tools(",
        "recall_node(",
        "remember_node(",
        "evolve_node(",
    ):
        assert name in shown
    assert shown.count('"openai:') >= 2
