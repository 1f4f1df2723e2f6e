"""The code of the guides runs, each page from top to bottom, and prints what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from langchain_kit import Talker, scripted

from amem_integrations.testing import HashEmbedder

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("langchain", "langchain-documents", "langgraph", "langgraph-store")
ANSWERS = {"What is my dog called?": "Rex.", "My dog is called Rex.": "Nice to meet Rex!"}
HERE = 'open_memory(":memory:", embedder=embedder, model=model)'


def talk(messages: list[Any]) -> str:
    asked = next((text for text in ANSWERS if text in messages[-1].text), "")
    return ANSWERS.get(asked, "I see.")


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
@pytest.mark.parametrize("page", PAGES)
def test_the_guide_runs(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: Talker(answer=talk))
    assert 'open_memory("./memory")' in code
    module = type(sys)("guide")
    monkeypatch.setitem(sys.modules, "guide", module)  # where type hints are looked up
    module.__dict__.update(__name__="guide", embedder=HashEmbedder(), model=scripted())
    exec(code.replace('open_memory("./memory")', HERE), module.__dict__)
    module.__dict__["memory"].close()
    printed = capsys.readouterr().out
    for shown in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
        pattern = re.escape(shown).replace("…", ".*")
        assert re.search(pattern, printed), printed
