"""The code of the guide runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from langchain_kit import Talker, oslo, scripted

from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
CODE = "\n".join(
    re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/langchain.md").read_text(encoding="utf-8"), re.DOTALL
    )
)


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
def test_the_guide_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: Talker(answer=oslo))
    opened = 'open_memory("./memory")'
    assert opened in CODE
    names: dict[str, Any] = {
        "__name__": "guide",
        "embedder": HashEmbedder(),
        "model": scripted(),  # one that has something to propose
    }
    module = type(sys)("guide")
    monkeypatch.setitem(sys.modules, "guide", module)  # where type hints are looked up
    module.__dict__.update(names)
    here = 'open_memory(":memory:", embedder=embedder, model=model)'
    exec(CODE.replace(opened, here), module.__dict__)
    module.__dict__["memory"].close()
    printed = capsys.readouterr().out
    for promised in ("Rex likes the sea", "'amem': 'evolve'", "{'text': 'Mira eats no meat.'"):
        assert promised in printed
