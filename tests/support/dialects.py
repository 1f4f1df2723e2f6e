"""The dialects of the Chat Completions API: how the common servers differ from OpenAI.

Each has its own refusals and messages, its form of errors, and its place for the answer.
"""

from __future__ import annotations

from typing import Any

Payload = dict[str, Any]
Refusal = tuple[int, str]

WINDOW = 6_000  # characters that a model reads
MISSING = "gone"  # the model that no server has


def form(payload: Payload) -> str | None:
    """Return the response format of a request: `json_schema` or None."""
    return payload.get("response_format", {}).get("type")


def length(payload: Payload) -> int:
    return sum(len(message["content"]) for message in payload["messages"])


class Dialect:
    """OpenAI's own."""

    counts = True  # whether `usage` is sent
    window = WINDOW

    def error(self, status: int, message: str) -> Payload:
        return {"error": {"message": message, "type": "invalid_request_error", "code": None}}

    def refusal(self, payload: Payload) -> Refusal | None:
        """Return why a request for a chat completion is refused, if it is."""
        if payload["model"] == MISSING:
            return 404, f"The model `{payload['model']}` does not exist"
        return self.too_long(payload) if length(payload) > self.window else None

    def too_long(self, payload: Payload) -> Refusal:
        return 400, f"This model's maximum context length is {WINDOW} tokens. However, your …"

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text}


class Vllm(Dialect):
    """vLLM with a reasoning parser."""

    def error(self, status: int, message: str) -> Payload:
        kind = {"message": message, "type": "BadRequestError", "param": None, "code": status}
        return {"error": kind}

    def too_long(self, payload: Payload) -> Refusal:
        requested = f"you requested {length(payload)} tokens in the messages"
        return 400, f"This model's maximum context length is {WINDOW} tokens. However, {requested}"

    def message(self, payload: Payload, text: str | None) -> Payload:
        thought = {"reasoning": "They want JSON.", "reasoning_content": "They want JSON."}
        return {"content": f"\n\n{text}", "tool_calls": [], **thought}


class OldVllm(Vllm):
    """vLLM before its errors were nested; its parser takes the answer of a model that does not reason for reasoning."""

    def error(self, status: int, message: str) -> Payload:
        error = super().error(status, message)["error"]
        return {"object": "error", **error}

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": None, "reasoning_content": text, "tool_calls": []}


class Ollama(Dialect):
    """Ollama: it ignores all that it does not know."""

    def error(self, status: int, message: str) -> Payload:
        kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def refusal(self, payload: Payload) -> Refusal | None:
        if payload["model"] == MISSING:
            return 404, f'model "{payload["model"]}" not found, try pulling it first'
        return None  # what is too long is cut silently

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text, "reasoning": "They want JSON."}


class OldOllama(Ollama):
    """Ollama before it supported schemas."""

    def message(self, payload: Payload, text: str | None) -> Payload:
        wrapped = f"<think>\nThey want JSON.\n</think>\n\nHere it is:\n```json\n{text}\n```"
        return {"content": wrapped if form(payload) == "json_schema" else text}


class Sglang(Dialect):
    """SGLang: flat errors, status 500 for what a chat template does not support, and no counts."""

    counts = False

    def error(self, status: int, message: str) -> Payload:
        kind = "InternalServerError" if status == 500 else "BadRequestError"
        return {"object": "error", "message": message, "type": kind, "param": None, "code": status}

    def refusal(self, payload: Payload) -> Refusal | None:
        if payload["messages"][0]["role"] == "system":
            return 500, "Internal server error: System role not supported"
        return super().refusal(payload)

    def too_long(self, payload: Payload) -> Refusal:
        given = f"The input ({length(payload)} tokens) is longer than"
        return 400, f"{given} the model's context length ({WINDOW} tokens)."

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text, "reasoning_content": "They want JSON.", "tool_calls": None}


class LmStudio(Dialect):
    """LM Studio: errors are bare texts."""

    def error(self, status: int, message: str) -> Payload:
        return {"error": message}

    def refusal(self, payload: Payload) -> Refusal | None:
        if payload["model"] == MISSING:
            return 400, f'Failed to load model "{payload["model"]}". Error: Error loading model.'
        return super().refusal(payload)

    def too_long(self, payload: Payload) -> Refusal:
        reason = (
            f"is greater than the context length (n_keep: {length(payload)}>= n_ctx: {WINDOW})."
        )
        return 400, f"The number of tokens to keep from the initial prompt {reason}"


class NewLmStudio(LmStudio):
    """LM Studio since it sends this error with status 200."""

    def too_long(self, payload: Payload) -> Refusal:
        return 200, super().too_long(payload)[1]


class LlamaCpp(Dialect):
    """llama.cpp's server without grammars."""

    def error(self, status: int, message: str) -> Payload:
        return {"error": {"code": status, "message": message, "type": "server_error"}}

    def refusal(self, payload: Payload) -> Refusal | None:
        if form(payload) == "json_schema":
            return 400, "Failed to parse grammar"
        return super().refusal(payload)

    def too_long(self, payload: Payload) -> Refusal:
        return 400, "the request exceeds the available context size, try increasing it"


SERVERS: dict[str, Dialect] = {
    "OpenAI": Dialect(),
    "vLLM": Vllm(),
    "an older vLLM": OldVllm(),
    "Ollama": Ollama(),
    "an older Ollama": OldOllama(),
    "SGLang": Sglang(),
    "LM Studio": LmStudio(),
    "a newer LM Studio": NewLmStudio(),
    "llama.cpp": LlamaCpp(),
}
