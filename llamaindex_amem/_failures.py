"""What is done when the memory does not answer: the conversation goes on without it."""

from __future__ import annotations

import logging

from amem_integrations import adapting
from amem_integrations.adapting import OnError

__all__ = ["Failures", "OnError", "log"]

log = logging.getLogger("llamaindex_amem")


class Failures(adapting.Failures):
    """Logs as `llamaindex_amem`."""

    def __init__(self, on_error: OnError = "log") -> None:
        super().__init__(log, on_error)
