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


def rows(*, shown=True):
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
def functions_of(path):
    """Return the names of the functions that a file defines, in classes or outside of them."""
    tree = ast.parse(path.read_text(encoding="utf-8") if path.is_file() else "")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def is_sentence(text):
    return re.fullmatch(r"\S.*\s.*\.", text) is not None


def test_each_promise_is_a_sentence_with_tests_or_with_a_reason():
    for promise, tests in rows():
        assert NAMED.sub("", tests).strip(", ") == "", f"no test of a file: {tests!r}"
        assert NAMED.search(tests), f"no test: {promise!r}"
        assert is_sentence(promise), f"no sentence: {promise!r}"
    for row in rows(shown=False):
        assert all(map(is_sentence, row)), f"no sentences: {row!r}"


def test_each_named_test_is_there():
    named = {one for _, tests in rows() for one in NAMED.findall(tests)}
    assert {(file, name) for file, name in named if name not in functions_of(ROOT / file)} == set()


def test_no_promise_stands_twice():
    promises = Counter(promise for promise, _ in [*rows(), *rows(shown=False)])
    assert [promise for promise, count in promises.items() if count > 1] == []
