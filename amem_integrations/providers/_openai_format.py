"""The formats of a chat request, with their fallbacks, and where a response has its answer.

Endpoints and models differ in what they accept, and in the field that they answer in.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from ..ports import Completion, ModelRequest

ResponseFormat = Literal["schema", "words"]

_EXPLAINED = {"description", "additionalProperties", "required"}
_NO_SYSTEM = ("system role", "system message", "roles must alternate")  # of chat templates


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """One format of a chat request.

    Attributes:
        response: Whether the reply is requested by JSON schema, or in the words of the prompt.
        fixed: Whether `response` has no fallback.
        temperature: Whether a temperature is sent.
        system: Whether there is a system message; if not, its text precedes the prompt.
        limit: Name of the parameter for the most tokens of a reply.
    """

    response: ResponseFormat = "schema"
    fixed: bool = False
    temperature: bool = True
    system: bool = True
    limit: str = "max_tokens"

    def fallback(self, message: str) -> RequestFormat | None:
        """Return the format to try after the endpoint's error message, or None if there is no other."""
        message = message.lower()
        if self.temperature and "temperature" in message:
            return replace(self, temperature=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in message:
            return replace(self, limit="max_completion_tokens")
        if self.system and any(phrase in message for phrase in _NO_SYSTEM):
            return replace(self, system=False)
        if self.fixed or self.response == "words":
            return None
        return replace(self, response="words")

    def arguments(
        self, request: ModelRequest, temperature: float | None, max_tokens: int | None
    ) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`, except the model."""
        arguments = {
            "messages": self._messages(request),
            "temperature": temperature if self.temperature else None,
            self.limit: max_tokens,
            **self._response_arguments(request.reply),
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def _messages(self, request: ModelRequest) -> list[dict[str, str]]:
        prompt = request.prompt
        if self.response == "words":
            # What the fields mean is explained by the prompt.
            form = _without(strict_schema(request.reply), _EXPLAINED)
            schema = json.dumps(form, ensure_ascii=False)
            prompt += f"\n\nAnswer with JSON only, of this JSON schema:\n{schema}"
        if request.system and self.system:
            return [
                {"role": "system", "content": request.system},
                {"role": "user", "content": prompt},
            ]
        return [{"role": "user", "content": f"{request.system}\n\n{prompt}".strip()}]

    def _response_arguments(self, reply: type[BaseModel]) -> dict[str, Any]:
        if self.response == "words":
            return {}
        wanted = {"name": reply.__name__, "schema": strict_schema(reply), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def strict_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema in which every object is closed and every field required.

    Endpoints that constrain decoding by a schema require this form; it also keeps a model from omitting
    the fields that have a default.
    """
    schema: dict[str, Any] = _strict(_without(reply.model_json_schema(), {"default", "title"}))
    return schema


def _strict(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    strict = {key: _strict(value) for key, value in node.items()}
    if node.get("type") == "object":
        strict |= {"additionalProperties": False, "required": list(node.get("properties", {}))}
    return strict


def _without(node: Any, keywords: Collection[str]) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema without these keywords; names of properties and definitions are none."""
    if isinstance(node, list):
        return [_without(part, keywords) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without(part, keywords) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _without(value, keywords)
        for key, value in node.items()
        if key not in keywords
    }


def completion(response: Any, message: Any) -> Completion:  # noqa: ANN401 - of the SDK
    """Return the answer of a message, and the token counts of its response (0 if there are none)."""
    usage = getattr(response, "usage", None)
    return Completion(
        text=_answer(message),
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
    )


def _count(usage: object, name: str) -> int:
    count = getattr(usage, name, None)
    return count if isinstance(count, int) else 0


def _answer(message: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the content of a message, else a refusal; empty if there is none.

    Reasoning is no answer, except where it is all there is and starts as JSON: then the endpoint's parser mistook the
    answer for it.
    """
    content = _content(getattr(message, "content", None)) or getattr(message, "refusal", None)
    if content:
        return str(content)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    is_json = isinstance(reasoning, str) and reasoning.lstrip()[:1] in {"{", "["}
    return str(reasoning) if is_json else ""


def _content(content: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the text of a content, which is a text or a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
