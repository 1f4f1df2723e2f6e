"""The chat models of an evaluation: where they are served, and what each of them does in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..ports import ChatModel
from ..testing import RecordedModel
from .cache import Cache, CachedModel
from .locomo import Annotations


class Backend(StrEnum):
    """What serves a model, by the OpenAI protocol."""

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
    Backend.OPENAI: None,  # the SDK's own: OPENAI_BASE_URL, else OpenAI itself
    Backend.VLLM: "http://localhost:8000/v1",
    Backend.OLLAMA: "http://localhost:11434/v1",
    Backend.SGLANG: "http://localhost:30000/v1",
}
_NO_KEY = "none"  # a local server needs no key, but the SDK does


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model at an endpoint, and how it is asked. The key is read from `OPENAI_API_KEY`."""

    model: str
    backend: Backend = Backend.OPENAI
    base_url: str | None = None
    temperature: float = 0.0
    reply: Reply = Reply.AUTO
    timeout: float = 120.0

    @property
    def address(self) -> str | None:
        """The base URL; None is OpenAI itself. `OPENAI_BASE_URL` counts as it does for the SDK."""
        return self.base_url or BACKENDS[self.backend] or os.environ.get("OPENAI_BASE_URL") or None

    @property
    def identity(self) -> str:
        """Everything that decides its answers."""
        return f"{self.backend} {self.address} {self.model} {self.temperature} {self.reply}"

    def connect(self) -> ChatModel:
        """Return the chat model.

        Raises:
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no key, and the endpoint needs one.
        """
        from ..providers.openai import OpenAIChatModel  # noqa: PLC0415 - imports the SDK

        local = self.address is not None and not os.environ.get("OPENAI_API_KEY")
        return OpenAIChatModel(
            self.model,
            base_url=self.address,
            api_key=_NO_KEY if local else None,
            temperature=self.temperature,
            structured=self.reply.value,
            timeout=self.timeout,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A chat model, and everything that decides its answers: name, endpoint, temperature."""

    model: ChatModel
    identity: str

    def cached(self, cache: Cache) -> CachedModel:
        """Return the model with its replies kept."""
        return CachedModel(self.model, cache, identity=self.identity)


@dataclass(frozen=True, slots=True)
class Writer:
    """What makes the notes of a conversation: `make` returns a chat model; None means rules.

    Memories made by a writer of another `identity` are built again. `name` is for the report.
    """

    name: str = "rules"
    identity: str = "rules"
    make: Callable[[], ChatModel | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The chat models of an evaluation: what makes notes, answers questions, and compares the answers.

    Without a writer, conversations that have no annotations get notes by rules.
    """

    writer: Named | None = None
    answerer: Named | None = None
    judge: Named | None = None

    def writer_of(self, annotations: Annotations | None, cache: Cache) -> Writer:
        """Return what makes the notes of a conversation: its annotations, if there are any."""
        if annotations is not None:
            records = annotations.as_records()
            digest = hashlib.sha256(repr(records).encode()).hexdigest()
            return Writer("annotations", f"annotations {digest}", lambda: RecordedModel(records))
        if self.writer is None:
            return Writer()
        model = self.writer.cached(cache)
        return Writer(model.name, self.writer.identity, lambda: model)
