"""A web server with many users: one memory, an agent for all of them, and a namespace for each.

    pip install fastapi uvicorn '.[langchain,minilm]' langchain-openai    # in a clone
    CHAT_MODEL=openai:gpt-5-mini uvicorn --app-dir examples/web_server app:app
    curl localhost:8000/chat -H 'x-user: mira' -H 'content-type: application/json' -d '{"text": "I moved to Oslo."}'

Without `CHAT_MODEL` a stand-in answers, which only tells what it was shown. The folder `AMEM_LOCATION` (`./memory`) belongs to
one process; for `--workers 4`, or several machines, make it the URL of a Qdrant server, as `compose.yml` does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel

from langchain_amem import AMemMiddleware, open_memory

SHUTDOWN_SECONDS = 8.0  # less than a process manager waits between SIGTERM and SIGKILL


@dataclass
class User:
    """What the agent is told of a run: whose it is."""

    user_id: str


class Asked(BaseModel):
    """What a client sends."""

    text: str
    thread: str = "main"


class StandIn(BaseChatModel):
    """Stands in for a chat model, and tells what of the memory it was shown."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ANN401
        del args, kwargs
        shown = messages[0].text if messages[0].type == "system" else "nothing yet"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I know {shown}"))])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the memory when the server starts, and close it when the server is told to end (SIGTERM)."""
    location = os.environ.get("AMEM_LOCATION", "./memory")
    embedder: Any = None
    if os.environ.get("AMEM_EMBEDDER") == "hash":  # for a trial without all-MiniLM-L6-v2
        from amem_integrations.testing import HashEmbedder  # noqa: PLC0415

        embedder = HashEmbedder()
    # Opening a folder blocks, and so does closing one.
    memory = await asyncio.to_thread(open_memory, location, embedder=embedder, worker=True)
    chat = os.environ.get("CHAT_MODEL")
    app.state.memory = memory
    app.state.middleware = AMemMiddleware(memory, namespace=lambda run: (run.context.user_id,))
    app.state.agent = create_agent(
        init_chat_model(chat) if chat else StandIn(),
        middleware=[app.state.middleware],
        context_schema=User,
    )
    try:
        yield
    finally:
        # What is still pending then is found at the next start (`worker=True`).
        await memory.aflush(timeout=SHUTDOWN_SECONDS)
        await asyncio.to_thread(memory.close)


app = FastAPI(lifespan=lifespan)


@app.post("/chat")
async def chat(asked: Asked, request: Request, x_user: Annotated[str, Header()]) -> dict[str, str]:
    """Return the agent's answer. The header stands for who your authentication says it is."""
    state = await request.app.state.agent.ainvoke(
        {"messages": [HumanMessage(asked.text)]},
        {"configurable": {"thread_id": asked.thread}},
        context=User(x_user),
    )
    return {"answer": state["messages"][-1].text}


@app.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Return how often the memory did not work; an agent answers without it meanwhile."""
    return {"failures": request.app.state.middleware.failures}
