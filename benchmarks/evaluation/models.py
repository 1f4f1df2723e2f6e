"""The chat models of an evaluation: where they are served, and what each of them does in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import ChatModel, Completion, ModelRequest
from amem_integrations.testing import RecordedModel

from .cache import Cache, CachedModel
from .locomo import Annotations

Backend = Literal["openai", "vllm", "ollama", "sglang"]  # all speak the OpenAI protocol
Reply = Literal["auto", "schema", "words"]  # `structured` of `OpenAIChatModel`

ADDRESSES: Mapping[Backend, str | None] = {
    "openai": None,  # the SDK's own: OPENAI_BASE_URL, else OpenAI itself
    "vllm": "http://localhost:8000/v1",
    "ollama": "http://localhost:11434/v1",
    "sglang": "http://localhost:30000/v1",
}
DIGESTING = ("digest", "profile")  # what a model is asked for digests
_NO_KEY = "none"  # a local server needs no key, but the SDK does


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model at an endpoint, and how it is asked. The key is read from `OPENAI_API_KEY`."""

    model: str
    backend: Backend = "openai"
    base_url: str | None = None
    temperature: float = 0.0
    reply: Reply = "auto"
    timeout: float = 120.0

    @property
    def address(self) -> str | None:
        """The base URL; None is OpenAI itself. `OPENAI_BASE_URL` counts as it does for the SDK."""
        return self.base_url or ADDRESSES[self.backend] or os.environ.get("OPENAI_BASE_URL") or None

    @property
    def identity(self) -> str:
        """Everything that decides its answers."""
        return f"{self.backend} {self.address} {self.model} {self.temperature} {self.reply}"

    def connect(self) -> ChatModel:
        """Return the chat model; its constructor raises errors if openai or the key is missing."""
        from amem_integrations.providers.openai import OpenAIChatModel  # noqa: PLC0415 - imports the SDK

        local = self.address is not None and not os.environ.get("OPENAI_API_KEY")
        return OpenAIChatModel(
            self.model,
            base_url=self.address,
            api_key=_NO_KEY if local else None,
            temperature=self.temperature,
            structured=self.reply,
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
    """What makes the notes of a conversation: `make` returns a chat model; None means rules."""

    name: str = "rules"
    identity: str = "rules"
    make: Callable[[], ChatModel | None] = lambda: None


class _WithDigests(RecordedModel):
    """What was recorded, and digests by another model."""

    def __init__(self, records: list[dict[str, Any]], writer: CachedModel) -> None:
        super().__init__(records)
        self._writer = writer

    def generate(self, request: ModelRequest) -> Completion:
        """Return the recorded answer, or the digests that the writer makes."""
        writes = request.task in DIGESTING
        return self._writer.generate(request) if writes else super().generate(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The chat models of an evaluation: what makes notes, answers questions, and compares the answers.

    Without a writer, conversations that have no annotations get notes by rules.
    """

    writer: Named | None = None
    answerer: Named | None = None
    judge: Named | None = None

    def writer_of(
        self, annotations: Annotations | None, cache: Cache, *, digests: bool = False
    ) -> Writer:
        """Return what makes the notes of a conversation: its annotations, if there are any; `digests` the writer.

        Raises:
            InvalidInputError: There are to be digests, and there is no writer.
        """
        if digests and self.writer is None:
            raise InvalidInputError("digests are written by a chat model: name one")
        if annotations is not None:
            records = annotations.as_records()
            identity = f"annotations {hashlib.sha256(repr(records).encode()).hexdigest()}"
            if not digests or self.writer is None:
                return Writer("annotations", identity, lambda: RecordedModel(records))
            writer = self.writer.cached(cache)
            identity = f"{identity} digests {self.writer.identity}"
            return Writer("annotations", identity, lambda: _WithDigests(records, writer))
        if self.writer is None:
            return Writer()
        model = self.writer.cached(cache)
        return Writer(model.name, self.writer.identity, lambda: model)
