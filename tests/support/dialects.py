"""The dialects of the Chat Completions API: how the common servers differ from OpenAI.

Each has its own refusals and messages, its form of errors, and its place for the answer.
"""

from __future__ import annotations

from typing import Any

Payload = dict[str, Any]
Refusal = tuple[int, str]

WINDOW = 6_000  # characters that a model reads
MISSING = "gone"  # the model that no server has
LIMIT = f"This model's maximum context length is {WINDOW} tokens. However, "
KEPT = "The number of tokens to keep from the initial prompt is greater than the context length"
LONGER = "is longer than the model's context length"
THOUGHT = "They want JSON."


def form(payload: Payload) -> str | None:
    """Return the response format of a request: `json_schema` or None."""
    return payload.get("response_format", {}).get("type")


def length(payload: Payload) -> int:
    return sum(len(message["content"]) for message in payload["messages"])


class Dialect:
    """OpenAI's own. In the text of a refusal stand the `model`, and the `length` of the prompt."""

    missing: Refusal = 404, "The model `{model}` does not exist"
    too_long: Refusal | None = 400, f"{LIMIT}your …"  # None: it is cut silently
    counts = True  # whether `usage` is sent

    def error(self, status: int, message: str) -> Payload:
        return {"error": {"message": message, "type": "invalid_request_error", "code": None}}

    def refusal(self, payload: Payload) -> Refusal | None:
        """Return why a request for a chat completion is refused, if it is."""
        shown = length(payload)
        found = self.too_long if shown > WINDOW else None
        if payload["model"] == MISSING:
            found = self.missing
        return found and (found[0], found[1].format(model=payload["model"], length=shown))

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text}


class Vllm(Dialect):
    """vLLM with a reasoning parser."""

    too_long = 400, f"{LIMIT}you requested {{length}} tokens in the messages"

    def error(self, status: int, message: str) -> Payload:
        kind = {"message": message, "type": "BadRequestError", "param": None, "code": status}
        return {"error": kind}

    def message(self, payload: Payload, text: str | None) -> Payload:
        thought = {"reasoning": THOUGHT, "reasoning_content": THOUGHT}
        return {"content": f"\n\n{text}", "tool_calls": [], **thought}


class OldVllm(Vllm):
    """vLLM before its errors were nested; its parser takes the answer of a model that does not reason for reasoning."""

    def error(self, status: int, message: str) -> Payload:
        return {"object": "error", **super().error(status, message)["error"]}

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": None, "reasoning_content": text, "tool_calls": []}


class Ollama(Dialect):
    """Ollama: it ignores all that it does not know."""

    missing = 404, 'model "{model}" not found, try pulling it first'
    too_long = None

    def error(self, status: int, message: str) -> Payload:
        kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text, "reasoning": THOUGHT}


class OldOllama(Ollama):
    """Ollama before it supported schemas."""

    def message(self, payload: Payload, text: str | None) -> Payload:
        wrapped = f"<think>\n{THOUGHT}\n</think>\n\nHere it is:\n```json\n{text}\n```"
        return {"content": wrapped if form(payload) == "json_schema" else text}


class Sglang(Dialect):
    """SGLang: flat errors, status 500 for what a chat template does not support, and no counts."""

    too_long = 400, f"The input ({{length}} tokens) {LONGER} ({WINDOW} tokens)."
    counts = False

    def error(self, status: int, message: str) -> Payload:
        kind = "InternalServerError" if status == 500 else "BadRequestError"
        return {"object": "error", "message": message, "type": kind, "param": None, "code": status}

    def refusal(self, payload: Payload) -> Refusal | None:
        if payload["messages"][0]["role"] == "system":
            return 500, "Internal server error: System role not supported"
        return super().refusal(payload)

    def message(self, payload: Payload, text: str | None) -> Payload:
        return {"content": text, "reasoning_content": THOUGHT, "tool_calls": None}


class LmStudio(Dialect):
    """LM Studio: errors are bare texts."""

    missing = 400, 'Failed to load model "{model}". Error: Error loading model.'
    too_long = 400, f"{KEPT} (n_keep: {{length}}>= n_ctx: {WINDOW})."

    def error(self, status: int, message: str) -> Payload:
        return {"error": message}


class NewLmStudio(LmStudio):
    """LM Studio since it sends this error with status 200."""

    too_long = 200, LmStudio.too_long[1]


class LlamaCpp(Dialect):
    """llama.cpp's server without grammars."""

    too_long = 400, "the request exceeds the available context size, try increasing it"

    def error(self, status: int, message: str) -> Payload:
        return {"error": {"code": status, "message": message, "type": "server_error"}}

    def refusal(self, payload: Payload) -> Refusal | None:
        if form(payload) == "json_schema":
            return 400, "Failed to parse grammar"
        return super().refusal(payload)


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
