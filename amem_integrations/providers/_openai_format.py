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

ResponseFormat = Literal["schema", "tools", "json", "words"]
ToolChoice = Literal["named", "required", "auto"]

# What is tried next when one is refused, from the strictest to the loosest.
_NEXT_FORMAT: dict[ResponseFormat, ResponseFormat] = {
    "schema": "tools",
    "tools": "json",
    "json": "words",
}
_NEXT_CHOICE: dict[ToolChoice, ToolChoice] = {"named": "required", "required": "auto"}
_EXPLAINED = {"description", "additionalProperties", "required"}
_NO_SYSTEM = ("system role", "system message", "roles must alternate")  # of chat templates


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """One format of a chat request.

    Attributes:
        response: The reply is requested by JSON schema, as the arguments of a tool call, as any JSON
            object, or in the words of the prompt.
        fixed: Whether `response` has no fallback.
        tool_choice: How strictly the tool call is requested.
        temperature: Whether a temperature is sent.
        system: Whether there is a system message; if not, its text precedes the prompt.
        limit: Name of the parameter for the most tokens of a reply.
    """

    response: ResponseFormat = "schema"
    fixed: bool = False
    tool_choice: ToolChoice = "named"
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
        about_choice = "tool_choice" in message or "tool choice" in message
        if self.response == "tools" and about_choice and self.tool_choice in _NEXT_CHOICE:
            return replace(self, tool_choice=_NEXT_CHOICE[self.tool_choice])
        return self._looser()

    def after(self, message: Any) -> RequestFormat:  # noqa: ANN401 - of the SDK
        """Return the format of the next request, given the message that answered this one.

        An endpoint that answers without the required tool call ignores tools.
        """
        ignored = self.response == "tools" and not getattr(message, "tool_calls", None)
        return (self._looser() if ignored else None) or self

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

    def _looser(self) -> RequestFormat | None:
        response = None if self.fixed else _NEXT_FORMAT.get(self.response)
        return replace(self, response=response) if response else None

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
        if self.response == "json":
            return {"response_format": {"type": "json_object"}}
        name, schema = reply.__name__, strict_schema(reply)
        if self.response == "schema":
            wanted = {"name": name, "schema": schema, "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": wanted}}
        function = {
            "name": name,
            "description": "Takes the answer; call it once.",
            "parameters": schema,
            "strict": True,
        }
        named = {"type": "function", "function": {"name": name}}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": named if self.tool_choice == "named" else self.tool_choice,
        }


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
    """Return the arguments of the tool calls, else the content, else a refusal; empty if there is none.

    Several calls are joined to a list, as each has a part of the answer. Reasoning is no answer, except
    where it is all there is and starts as JSON: then the endpoint's parser mistook the answer for it.
    """
    calls = [text for call in getattr(message, "tool_calls", None) or () if (text := _called(call))]
    if len(calls) == 1:
        return calls[0]
    if calls:
        # Left open if the last call breaks off, so that the parser sees that it is incomplete.
        return f"[{', '.join(calls)}{']' if calls[-1].endswith('}') else ''}"
    content = _content(getattr(message, "content", None)) or getattr(message, "refusal", None)
    if content:
        return str(content)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    is_json = isinstance(reasoning, str) and reasoning.lstrip()[:1] in {"{", "["}
    return str(reasoning) if is_json else ""


def _called(call: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the arguments of a tool call as text; empty if it has none."""
    arguments = getattr(getattr(call, "function", None), "arguments", None)
    if isinstance(arguments, dict):  # a few endpoints send an object instead of a text
        arguments = json.dumps(arguments, ensure_ascii=False)
    text = arguments.strip() if isinstance(arguments, str) else ""
    return "" if text == "{}" else text


def _content(content: Any) -> str:  # noqa: ANN401 - of the SDK
    """Return the text of a content, which is a text or a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
