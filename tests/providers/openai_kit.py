"""What the tests of the OpenAI provider share."""

from __future__ import annotations

import json
import re
from typing import Any

from support.dialects import Payload, form
from support.openai_server import OpenAIServer

from amem_integrations import ModelRequest, OpenAIChatModel, OpenAIEmbedder
from amem_integrations.prompts.parse import parse
from amem_integrations.prompts.replies import ConstructReply

REQUEST = ModelRequest(
    task="construct", system="You annotate.", prompt="Describe n1.", reply=ConstructReply, inputs={}
)
REPLY = '{"notes": [{"id": "n1", "context": "Ann paints."}]}'

# What each value of `structured` sends, from the strictest to the loosest.
FORMATS = {"schema": "json_schema", "words": None}


def chat(server: OpenAIServer, model: str = "tiny", **options: Any) -> OpenAIChatModel:
    return OpenAIChatModel(
        model, **({"base_url": server.base_url, "api_key": "sk-secret"} | options)
    )


def embedder(server: OpenAIServer, model: str = "tiny-embed", **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        model, **({"base_url": server.base_url, "api_key": "sk-secret"} | options)
    )


def formats(server: OpenAIServer) -> list[str | None]:
    """Return the formats of the chat requests so far."""
    return [form(payload) for payload in server.requests if "messages" in payload]


def contexts(text: str) -> list[str]:
    return [note.context for note in parse(text, ConstructReply).notes]


def every_note(payload: Payload) -> str:
    """Describe every note that the prompt shows."""
    shown = re.findall(r"^\[(n\d+)", payload["messages"][-1]["content"], flags=re.MULTILINE)
    return json.dumps({"notes": [{"id": alias, "context": "Words."} for alias in shown]})
