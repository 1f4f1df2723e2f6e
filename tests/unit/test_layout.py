"""The limits and borders that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import amem_integrations
from amem_integrations import adapting, conversation, lazy, ports
from benchmarks.layout import measure

ROOT = Path(__file__).parents[2]
CORE = ROOT / "amem_integrations"
ADAPTERS = [ROOT / "langchain_amem", ROOT / "llamaindex_amem"]
FILES = sorted(path for folder in [CORE, *ADAPTERS] for path in folder.rglob("*.py"))

MAX_FILE, MIN_FILE = 400, 40
MAX_FUNCTION, MEDIAN_FUNCTION, P90_FUNCTION = 50, 10, 25
MOST_FILES = {"add": 41, "search": 15}  # on the way of one call: rules model, folder store
# Files that may be short, because a reader looks for what they hold under their name; the reason is given.
SHORT: dict[str, str] = {
    "amem_integrations/progress.py": "the name a stranger would look for",
    "amem_integrations/lazy.py": "what the three packages share before anything of the core is loaded",
}


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function with its number of lines as written, with signature and docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def files_too_long_or_too_short() -> Iterator[str]:
    for path in FILES:
        name, length = str(path.relative_to(ROOT)), lines(path)
        if length > MAX_FILE:
            yield f"{name}: {length} lines, more than {MAX_FILE}"
        exempt = path.name in ("__init__.py", "__main__.py") or name in SHORT
        if length < MIN_FILE and not exempt:
            yield f"{name}: {length} lines, fewer than {MIN_FILE}; join it to what it belongs to"


def functions_too_long() -> Iterator[str]:
    sizes = []
    for path in FILES:
        for name, length in functions(path):
            sizes.append(length)
            if length > MAX_FUNCTION:
                yield f"{path.relative_to(ROOT)}: {name} has {length} lines, more than {MAX_FUNCTION}"
    sizes.sort()
    if (median := statistics.median(sizes)) > MEDIAN_FUNCTION:
        yield f"half of all functions have {median} lines or more, more than {MEDIAN_FUNCTION}"
    if (p90 := sizes[int(len(sizes) * 0.9)]) > P90_FUNCTION:
        yield f"a tenth of all functions has {p90} lines or more, more than {P90_FUNCTION}"


def names_used_twice() -> Iterator[str]:
    named = defaultdict(list)
    for path in CORE.rglob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            named[path.stem].append(str(path.relative_to(ROOT)))
    for name, paths in sorted(named.items()):
        if len(paths) > 1:
            yield f"more than one {name}.py: {', '.join(sorted(paths))}"


def exemptions_without_need() -> Iterator[str]:
    for name in SHORT:
        if not (ROOT / name).is_file() or lines(ROOT / name) >= MIN_FILE:
            yield f"{name} needs no exemption in SHORT"


def test_files_functions_and_names_keep_to_the_limits():
    found = [
        *files_too_long_or_too_short(),
        *functions_too_long(),
        *names_used_twice(),
        *exemptions_without_need(),
    ]
    assert not found, f"{len(found)} violations\n" + "\n".join(found)


def test_one_add_and_one_search_pass_through_few_files():
    passed = {name: sorted(one.trace.entered) for name, one in measure().items()}
    for name, most in MOST_FILES.items():
        assert len(passed[name]) <= most, f"{name}: {len(passed[name])} files, {passed[name]}"
        assert f"flows/{name}.py" in passed[name]


def test_an_adapter_uses_only_the_public_names_of_the_core():
    modules = (amem_integrations, adapting, conversation, lazy)
    public = {module.__name__: set(module.__all__) for module in modules}
    public["amem_integrations"] |= {"adapting", "conversation"}
    public["amem_integrations.ports"] = {name for name in vars(ports) if not name.startswith("_")}
    for folder in ADAPTERS:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = {alias.name for alias in node.names}
                    assert not any(name.startswith("amem_integrations.") for name in names), path
                if isinstance(node, ast.ImportFrom) and not node.level:
                    module = node.module or ""
                    if module.split(".")[0] == "amem_integrations":
                        assert module in public, path
                        assert {alias.name for alias in node.names} <= public[module], path


def test_all_is_complete_and_sorted():
    names = amem_integrations.__all__
    assert list(names) == sorted(names)
    assert all(hasattr(amem_integrations, name) for name in names)
    assert set(names) <= set(dir(amem_integrations))


@pytest.mark.parametrize("package", [CORE, *ADAPTERS], ids=lambda path: path.name)
def test_every_package_says_that_it_is_typed(package):
    assert (package / "py.typed").is_file()
