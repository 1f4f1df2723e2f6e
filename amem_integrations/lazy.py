"""Import the public names of a package when they are first used: what a program does not use costs it nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562), by the module of each public name."""

    def get(name: str) -> Any:  # noqa: ANN401 - a class or a function
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)  # the next access finds it without this function
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names
