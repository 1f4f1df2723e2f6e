"""The methods of `AgenticMemory`, written once for synchronous and asynchronous callers, by theme."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, SimpleNamespace

__all__ = [
    "add", "admin", "edit", "embed", "evolve", "fill", "history", "read", "recall", "resume", "review", "search", "transfer",
    "usage", "work",
]  # fmt: skip


# ONLY UNTIL ALL FLOWS IMPORT AGAIN: a flow that is broken says so when it is called.
class _Broken(SimpleNamespace):
    def __getattr__(self, name):
        error = self.__dict__["error"]

        async def broken(runtime, *args, **kwargs):
            raise error

        broken.__name__ = broken.__qualname__ = name
        return broken


def _load(name: str):
    try:
        return import_module(f".{name}", __name__)
    except (ImportError, AttributeError) as error:
        return _Broken(error=error)


for _name in __all__:
    globals()[_name] = _load(_name)
