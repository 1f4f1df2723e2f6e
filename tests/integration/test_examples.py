"""The examples and the README's code do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import run_python

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests/support/stand_ins"  # for packages that need a network
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code(page):
    """The blocks of a page that are Python, in order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


# What the interpreter is told for a program of the user's: warnings about its own code are errors.
STRICT = """
import os, warnings
warnings.filterwarnings("error", category=DeprecationWarning, module="__main__")
os.environ["OPENAI_API_KEY"] = "none"
"""
# The packages that nearly every page imports.
PRELOADED = (
    "langchain.agents", "langgraph.graph", "llama_index.core", "openai.types.chat", "tokenizers", "yake",
    "amem_integrations.memory", "langchain_amem.nodes", "llamaindex_amem.memory",
)  # fmt: skip


def run(program, *, folder):
    """Return what a program prints in a folder."""
    done = run_python(
        STRICT + program, path=(ROOT, STAND_INS), folder=folder, preload=PRELOADED, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def example(name, *, folder):
    """Return what an example prints."""
    path = str(ROOT / "examples" / name)
    return run(f"import runpy\nrunpy.run_path({path!r}, run_name='__main__')", folder=folder)


def test_the_quickstart_links_one_note_and_evolves_the_other(tmp_path):
    out = example("quickstart.py", folder=tmp_path)
    assert "same_topic: My sister's wedding is on 14 June" in out
    assert "evolved: Taken up again by Mira" in out


def test_the_job_does_nothing_the_second_time(tmp_path):
    out = example("evolution_job.py", folder=tmp_path)
    assert out == "2 notes finished\n0 notes finished\n"


def test_the_demo_shows_a_search_over_a_link_and_adds_nothing_when_it_is_run_again(tmp_path):
    out = example("demo.py", folder=tmp_path)
    for said in ("Remembered 30 turns", "keywords", "same_topic: both speak of",
                 "+ Taken up again by Mira on 11 May 2025", "found over a link with"):  # fmt: skip
        assert said in out
    assert re.search(r"before .*14 June|before .*replying to", out, flags=re.DOTALL)
    again = example("demo.py", folder=tmp_path)
    assert again.startswith("Nothing to add: all 30 turns are in demo-memory/ already.")
    assert again.partition("\n")[2] == out.partition("\n")[2]


def test_the_readme_shows_what_its_first_block_prints(tmp_path):
    readme = ROOT / "README.md"
    assert run(code(readme)[0], folder=tmp_path).strip() in readme.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [p for p in PAGES if code(p)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    out = run(ALL_OF_A_PAGE + "".join(map(numbered, code(page))), folder=tmp_path)
    if page.name.startswith("llamaindex"):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        _install, *outputs = [block.partition("…")[0] for kind, block in blocks if not kind]
        outputs = [TODAY.sub("", one) for one in outputs if "handoff:" not in one]  # an example's
        assert outputs
        assert [block for block in outputs if block not in TODAY.sub("", out)] == []


TODAY = re.compile(r"^\d+ \w+ \d{4}:\n", re.MULTILINE)  # above notes that are recalled


# The package of a vendor's model stands for any, and need not be installed.
NOT_INSTALLED = '# mypy: disable-error-code="import-untyped,import-not-found"\n'


@pytest.mark.timeout(600)
def test_the_guides_of_both_frameworks_pass_mypy_strict(tmp_path):
    # In one run, with the settings of `make types`, so that what that has found out is used.
    guides = []
    ours = dict.fromkeys(("langchain", "langchain-documents", "langgraph", "langgraph-store"), "")
    pages = {**ours, "llamaindex": NOT_INSTALLED, "llamaindex-documents": NOT_INSTALLED}
    for name, first in pages.items():
        guides.append(tmp_path / f"guide_{name.replace('-', '_')}.py")
        text = first + "\n".join(code(ROOT / f"docs/{name}.md"))
        guides[-1].write_text(text, encoding="utf-8")
    program = [sys.executable, "-m", "mypy", "--strict", *map(str, guides)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# The blocks of a page go on from each other; one that opens the same folder again is another program.
ALL_OF_A_PAGE = """
import gc
from amem_integrations import AgenticMemory


def program_ends():
    for thing in gc.get_objects():
        if isinstance(thing, AgenticMemory):
            thing.close()

"""


def numbered(block):
    opens = re.search(r"^(with|memory = )?.*AgenticMemory\.open\(", block, flags=re.MULTILINE)
    return ("program_ends()\n" if opens else "") + block + "\n"
