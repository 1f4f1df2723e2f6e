"""How often this process has changed a namespace, as far as this package knows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from amem_integrations import AgenticMemory

_lock = threading.Lock()
_versions: WeakKeyDictionary[AgenticMemory, Counter[tuple[str, ...]]] = WeakKeyDictionary()


def version(memory: AgenticMemory, namespace: Sequence[str]) -> int:
    """Return a number that differs from an earlier one if something was changed in between."""
    with _lock:
        return _versions.get(memory, Counter())[tuple(namespace)]


def changed(memory: AgenticMemory, namespace: Sequence[str]) -> None:
    """Say that something was changed: what was recalled before may not be what is known now."""
    with _lock:
        _versions.setdefault(memory, Counter())[tuple(namespace)] += 1
