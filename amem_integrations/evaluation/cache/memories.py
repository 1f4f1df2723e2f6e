"""Built memories, in folders under a key of everything that decides how they come out."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ...config import MemoryConfig
from ...errors import StoreError, StoreLockedError
from ...memory import AgenticMemory
from ...ports import ChatModel, Embedder
from ..results import Writes

log = logging.getLogger("amem_integrations")

DONE = "built.json"  # written last, so a folder without it is not finished


class Memories:
    """The memories in a folder, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Keep memories in `folder`."""
        self._folder = folder

    @contextmanager
    def opened(
        self,
        key: str,
        build: Callable[[AgenticMemory], Writes],
        *,
        embedder: Embedder,
        model: ChatModel | None,
        config: MemoryConfig,
    ) -> Iterator[tuple[AgenticMemory, Writes]]:
        """Give the memory kept under `key`, and what building it took; it is built if it is not there.

        Raises:
            StoreError: It cannot be opened, such as by two runs at the same time.
            ModelUnavailableError: It has to be built, and the model gave no answer.
        """
        folder, done = self._folder / key / "memory", self._folder / key / DONE
        known = _read(done)
        if known is None:
            _discard(folder, embedder)
        with AgenticMemory.open(folder, model=model, embedder=embedder, config=config) as memory:
            writes = known or build(memory)
            if known is None:
                _write(done, json.dumps(asdict(writes)))
            yield memory, writes


def _read(done: Path) -> Writes | None:
    """Return what building took, or None if it was not finished or cannot be known."""
    try:
        return Writes(**json.loads(done.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (TypeError, ValueError) as error:
        log.info("%s cannot be read, so the memory is built anew: %r", done, error)
        return None


def _discard(folder: Path, embedder: Embedder) -> None:
    """Remove what an interrupted run left, unless another run is still at it."""
    if not folder.exists():
        return
    try:
        AgenticMemory.open(folder, embedder=embedder).close()
    except StoreLockedError:
        raise
    except StoreError as error:
        log.info("%s was left unfinished: %s", folder, error)
    shutil.rmtree(folder)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
