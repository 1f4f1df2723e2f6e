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


def rows() -> list[tuple[str, str]]:
    """Return the two cells of each row of the tables: a promise, and the tests that show the promise."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
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


def test_each_promise_is_a_sentence_with_tests():
    table = rows()
    assert table
    for promise, tests in table:
        assert re.fullmatch(r"\S.*\s.*\.", promise), f"no sentence: {promise!r}"
        assert NAMED.sub("", tests).strip(", ") == "", f"no test of a file: {tests!r}"
        assert NAMED.search(tests), f"no test: {promise!r}"


def test_each_named_test_is_there():
    missing = [
        f"{file}::{name}"
        for _, tests in rows()
        for file, name in NAMED.findall(tests)
        if not (ROOT / file).is_file() or name not in functions_of(ROOT / file)
    ]
    assert not missing, "\n".join(missing)


def test_no_promise_stands_twice():
    twice = [
        promise for promise, count in Counter(promise for promise, _ in rows()).items() if count > 1
    ]
    assert not twice, "\n".join(twice)
