"""The examples and the README's code do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run(*arguments: object, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quickstart_links_one_note_and_evolves_the_other(tmp_path):
    out = run(ROOT / "examples/quickstart.py", folder=tmp_path)
    assert "same_topic: My sister's wedding is on 14 June" in out
    assert "evolved: Taken up again by Mira" in out


def test_the_demo_shows_a_note_its_links_an_evolution_and_a_search_over_a_link(tmp_path):
    out = run(ROOT / "examples/demo.py", folder=tmp_path)
    assert "Remembered 30 turns" in out
    assert "keywords" in out
    assert "same_topic: both speak of" in out
    assert re.search(r"before .*14 June|before .*replying to", out, flags=re.DOTALL)
    assert "+ Taken up again by Mira on 11 May 2025" in out
    assert "found over a link with" in out


def test_the_demo_run_again_adds_nothing_and_says_so(tmp_path):
    first = run(ROOT / "examples/demo.py", folder=tmp_path)
    again = run(ROOT / "examples/demo.py", folder=tmp_path)
    assert again.startswith("Nothing to add: all 30 turns are in demo-memory/ already.")
    assert again.partition("\n")[2] == first.partition("\n")[2]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_code_in_the_readme_runs(number, tmp_path):
    # A block may go on from the first one, which opens the memory.
    code = BLOCKS[number] if number == 0 else _after_the_first(BLOCKS[number])
    out = run("-c", code, folder=tmp_path)
    if number == 0:
        assert out.strip() in README


def _after_the_first(block: str) -> str:
    return block if "AgenticMemory.open" in block else f"{BLOCKS[0]}\n{block}"
