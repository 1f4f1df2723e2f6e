"""Each safeguard of the protocol taken out, by a patch of the source, and a scenario that must break then.

`mutants.diff` has for each the name (#), the module (@), the scenario that must break (!), source that stands there exactly
once (-), and what stands there instead (+).

Two have no patch here: the user's decisions take nobody's slot because their ids are random (`flows/edit`), and a
reindex has no writers beside it, for it holds the lock of its folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

MODULES = (
    "amem_integrations.journal",
    "amem_integrations.decisions",
    "amem_integrations.ports",
    "amem_integrations.stored_note",
    "protocol.explorer",
    "protocol.scenarios",
)


class Mutant(NamedTuple):
    """A safeguard that is taken out.

    Attributes:
        module: Which module is patched.
        old: Source that stands there exactly once.
        new: What stands there instead.
        breaks: The scenario that must break.
    """

    module: str
    old: str
    new: str
    breaks: str


@contextmanager
def patched(mutant: Mutant) -> Iterator[ModuleType]:
    """Yield the module of scenarios over a journal in which a safeguard is taken out.

    Raises:
        LookupError: The source to patch does not stand there exactly once.
    """
    held = {name: module for name, module in sys.modules.items() if name.startswith(MODULES)}
    for name in held:
        del sys.modules[name]
    try:
        spec = find_spec(mutant.module)
        assert spec is not None
        assert spec.loader is not None
        source = spec.loader.get_source(mutant.module)  # type: ignore[attr-defined]
        if (count := source.count(mutant.old)) != 1:
            raise LookupError(f"{mutant.old!r} stands {count} times in {mutant.module}")
        module = module_from_spec(spec)
        sys.modules[mutant.module] = module
        exec(
            compile(source.replace(mutant.old, mutant.new), str(spec.origin), "exec"),
            module.__dict__,
        )
        yield import_module("protocol.scenarios")
    finally:
        for name in [name for name in sys.modules if name.startswith(MODULES)]:
            del sys.modules[name]
        sys.modules.update(held)
        for name, module in held.items():  # an import of a module also sets it at its package
            package, _, own = name.rpartition(".")
            if package:
                setattr(sys.modules[package], own, module)


def _read(block: str) -> tuple[str, Mutant]:
    """Return the name of a mutant, and the mutant, of lines that begin with `#`, `@`, `!`, `-` and `+`."""
    lines = block.splitlines()
    name, module, breaks, old, new = (
        "\n".join(line[1:] for line in lines if line[0] == mark) for mark in "#@!-+"
    )
    return name.strip(), Mutant(module.strip(), old, new, breaks.strip())


FILE = Path(__file__).with_suffix(".diff")
MUTANTS = dict(map(_read, FILE.read_text(encoding="utf-8").strip().split("\n\n")))
