"""Recall as a retriever run: what LangSmith, `astream_events` and callback handlers see of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
)

from amem_integrations import AgenticMemory, ScoredNote
from amem_integrations.adapting import Call, directly

from .retriever import to_document, trace_params

NAME = "AMemRecall"


async def traced(
    call: Call, memory: AgenticMemory, question: str, search: Awaitable[list[ScoredNote]]
) -> list[ScoredNote]:
    """Return what the search finds; it is a retriever run below the run that is under way."""
    config = ensure_config()
    form = (
        get_callback_manager_for_config
        if call is directly
        else get_async_callback_manager_for_config
    )
    manager: Any = form(config)
    manager.add_metadata({"ls_retriever_name": "amem", **trace_params(memory)}, inherit=False)
    run = await _now(manager.on_retriever_start({}, question, name=NAME))
    try:
        hits = await search
    except BaseException as error:
        await _now(run.on_retriever_error(error))
        raise
    await _now(run.on_retriever_end([to_document(hit) for hit in hits] if run.handlers else []))
    return hits


async def _now(value: Any) -> Any:  # noqa: ANN401 - what a manager of either form gives
    return await value if inspect.isawaitable(value) else value
