"""`amem worker`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Annotated

import typer

from ..errors import ModelUnavailableError
from . import INTERRUPTED
from .command import check_location, command
from .open_memory import open_to_write
from .options import MODEL, NAMESPACE, Options
from .terminal import print_result

app = typer.Typer(rich_markup_mode=None)

Location = Annotated[str | None, typer.Argument(metavar="[LOCATION]", help="The same as --memory.")]
Once = Annotated[bool, typer.Option("--once", help="End when nothing is pending.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Most calls of the model at once.")]
Budget = Annotated[int | None, typer.Option(min=0, help="Most calls of the model; then it ends.")]
Poll = Annotated[
    float, typer.Option(min=0.01, metavar="SECONDS", help="How often it looks for new work.")
]


@command(app, "worker", MODEL, NAMESPACE)
def worker(
    options: Options,
    location: Location = None,
    once: Once = False,
    concurrency: Concurrency = 4,
    budget: Budget = None,
    poll: Poll = 2.0,
) -> None:
    """Evolve what is pending, for as long as it runs.

    On a server any number of workers may run; in a folder it is the one process that has it open. Without --namespace
    it works for all. SIGTERM or Ctrl-C ends it when what is under way is finished; a second one, at once: the
    others then go on after some seconds.
    """
    if location is not None:
        check_location(location)
        options = replace(options, memory=location)
    with _stopping() as stopped, open_to_write(options) as memory:
        report = memory.work(
            namespace=options.namespace,
            once=once,
            concurrency=concurrency,
            budget=budget,
            poll=poll,
            stop=stopped,
        )
    text = f"{report.done} notes finished; {report.links} links, {report.evolved} notes evolved"
    if report.failed:
        text += f"; {report.failed} attempts failed: see `amem doctor`"
    print_result(text, report.to_dict(), as_json=options.as_json)
    if once and report.interrupted:
        raise ModelUnavailableError(report.interrupted)


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Yield what says whether SIGTERM or SIGINT has come; at the second one the process ends."""
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            os._exit(INTERRUPTED)  # the model's call that it would wait for is in another thread

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
