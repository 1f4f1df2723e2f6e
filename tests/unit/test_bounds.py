"""The lowest versions that are allowed are those that `make test-lowest` runs with."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# `llamaindex` needs higher versions of what the others need; the others are tools, or at the versions of the day.
TRIED = (
    "sentence-transformers",
    "minilm",
    "openai",
    "langchain",
    "classic",
    "langgraph",
    "cli",
    "testing",
)
WANTED = [
    requirement
    for text in (*PROJECT["dependencies"], *(text for name in TRIED for text in EXTRAS[name]))
    if (requirement := Requirement(text)).name != PROJECT["name"]
]
LINES = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
PINNED = {
    name.lower().replace("_", "-"): Version(version)
    for name, version in (line.split("==") for line in LINES if not line.startswith("#"))
}


def test_the_lowest_version_allowed_is_the_lowest_one_tried():
    untried = []
    for requirement in WANTED:
        (bound,) = [s.version for s in requirement.specifier if s.operator in (">=", "==")]
        lowest, pinned = Version(bound).release, PINNED[requirement.name.lower()]
        # Of "numpy>=1.26" it is the first one that the others can live with, such as 1.26.2.
        if pinned.release[: len(lowest)] != lowest:
            untried.append(f"{requirement}: tried with {pinned}")
    assert not untried
