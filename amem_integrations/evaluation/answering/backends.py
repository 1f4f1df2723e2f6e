"""Where a model is served: endpoints that speak the OpenAI protocol, each with its usual address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ...ports import ChatModel


class Backend(StrEnum):
    """What serves the model."""

    OPENAI = "openai"
    VLLM = "vllm"
    OLLAMA = "ollama"
    SGLANG = "sglang"


class Reply(StrEnum):
    """How a reply in JSON is asked for; see `structured` of `OpenAIChatModel`."""

    AUTO = "auto"
    SCHEMA = "schema"
    JSON = "json"
    TOOLS = "tools"
    WORDS = "words"


BACKENDS: Mapping[Backend, str | None] = {
    Backend.OPENAI: None,  # as the SDK finds it: OPENAI_BASE_URL, else OpenAI itself
    Backend.VLLM: "http://localhost:8000/v1",
    Backend.OLLAMA: "http://localhost:11434/v1",
    Backend.SGLANG: "http://localhost:30000/v1",
}
NO_KEY = "none"  # servers of one's own ask for none, but the SDK does


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model at an endpoint, and how it is asked. The key is taken from `OPENAI_API_KEY`."""

    model: str
    backend: Backend = Backend.OPENAI
    base_url: str | None = None
    temperature: float = 0.0
    reply: Reply = Reply.AUTO
    timeout: float = 120.0

    @property
    def address(self) -> str | None:
        """Where it is; None is OpenAI itself. Without one, `OPENAI_BASE_URL` counts as it does for the SDK."""
        return self.base_url or BACKENDS[self.backend] or os.environ.get("OPENAI_BASE_URL") or None

    @property
    def identity(self) -> str:
        """What decides its answers."""
        return f"{self.backend} {self.address} {self.model} {self.temperature} {self.reply}"

    def connect(self) -> ChatModel:
        """Return the chat model.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no key, and the endpoint needs one.
        """
        from ...providers.openai import OpenAIChatModel  # noqa: PLC0415 - imports the SDK

        own = self.address is not None and not os.environ.get("OPENAI_API_KEY")
        return OpenAIChatModel(
            self.model,
            base_url=self.address,
            api_key=NO_KEY if own else None,
            temperature=self.temperature,
            structured=self.reply.value,
            timeout=self.timeout,
        )
