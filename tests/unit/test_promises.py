"""The table of promises names tests that there are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "promises.md"
NAMED = re.compile(r"`([^`\s]+\.py)::(test_\w+)`")
HEADINGS = {"promise", "---"}


def rows(*, shown: bool = True) -> list[tuple[str, str]]:
    """Return the two cells of each row: a promise, and the tests that show it, or why no test does."""
    parts = TABLE.read_text(encoding="utf-8").split("\n## Not shown by a test\n")
    assert len(parts) == 2, "the promises that no test shows stand in the last section"
    found = []
    for line in parts[0 if shown else 1].splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 2, f"a row has two cells: {line}"
            if cells[0] not in HEADINGS:
                found.append((cells[0], cells[1]))
    return found


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions that a file defines, in classes or outside of them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_each_promise_is_a_sentence_with_tests_or_with_a_reason():
    for promise, tests in rows():
        assert NAMED.sub("", tests).strip(", ") == "", f"no test of a file: {tests!r}"
        assert NAMED.search(tests), f"no test: {promise!r}"
    for text in [
        *(promise for promise, _ in rows()),
        *(cell for row in rows(shown=False) for cell in row),
    ]:
        assert re.fullmatch(r"\S.*\s.*\.", text), f"no sentence: {text!r}"


def test_each_named_test_is_there():
    missing = [
        f"{file}::{name}"
        for _, tests in rows()
        for file, name in NAMED.findall(tests)
        if not (ROOT / file).is_file() or name not in functions_of(ROOT / file)
    ]
    assert not missing, "\n".join(missing)


def test_no_promise_stands_twice():
    promises = Counter(promise for promise, _ in [*rows(), *rows(shown=False)])
    twice = [promise for promise, count in promises.items() if count > 1]
    assert not twice, "\n".join(twice)
