"""Work in a process of its own, so that what it is measured on was touched by nothing before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from ...errors import AmemError

T = TypeVar("T")
Tell = Callable[[str, int, int], None]  # stage, done, total

_FRESH = get_context("spawn")  # a forked child would inherit the memory that is to be measured


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    result: T


def run_apart(work: Callable[[Tell], T], tell: Tell) -> T:
    """Return what a function gives that is run in a fresh process.

    Args:
        work: Something that can be pickled; called with a function that reports how far it is.
        tell: Told, in this process, what `work` reports.

    Raises:
        AmemError: What `work` raised, or its process died.
        OSError: What `work` raised.
    """
    receiver, sender = _FRESH.Pipe(duplex=False)
    process = _FRESH.Process(target=_work, args=(work, sender))
    process.start()
    sender.close()  # this end; or its death would go unnoticed
    try:
        while True:
            said: Any = receiver.recv()
            if isinstance(said, _Done):
                result: T = said.result
                return result
            if isinstance(said, Exception):
                raise said
            tell(*said)
    except EOFError:
        process.join()
        raise AmemError(
            f"the measuring process ended with status {process.exitcode!r} before it was done; "
            "if it was killed, there was too little memory: try fewer notes"
        ) from None
    finally:
        receiver.close()  # at its next report it will know that nobody listens any more
        process.join()


def _work(work: Callable[[Tell], object], sender: Connection) -> None:
    try:
        result = work(lambda *said: sender.send(said))
    except (KeyboardInterrupt, BrokenPipeError):
        return  # who asked has been stopped
    except (AmemError, OSError) as error:
        sender.send(error)
    else:
        sender.send(_Done(result))
