"""How a request is put to an endpoint: endpoints and models differ in what they take."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from ..ports import ModelRequest

Structured = Literal["schema", "tools", "json", "words"]
Choice = Literal["named", "required", "auto"]

# What to try next where the first is refused: from what binds a model most to what binds it least.
_LESS: dict[Structured, Structured] = {"schema": "tools", "tools": "json", "json": "words"}
_LESS_FORCED: dict[Choice, Choice] = {"named": "required", "required": "auto"}
_NO_SYSTEM = ("system role", "system message", "roles must alternate")  # of chat templates


@dataclass(frozen=True, slots=True)
class Manner:
    """One way to ask.

    The reply is wanted by JSON schema, as the arguments of a function that has to be called (`tools`), as
    any JSON object, or in words. `choice` is how firmly the function is asked for.
    """

    structured: Structured
    choice: Choice = "named"
    temperature: bool = True
    system: bool = True
    limit: str = "max_tokens"

    def humbler(self, complaint: str, *, fixed: bool) -> Manner | None:
        """Return a manner without what was complained about, or None if nothing is left to try.

        Args:
            complaint: What the endpoint said, in lower case.
            fixed: Whether `structured` has to stay as it is.
        """
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.system and any(words in complaint for words in _NO_SYSTEM):
            return replace(self, system=False)
        about_choice = "tool_choice" in complaint or "tool choice" in complaint
        if self.structured == "tools" and about_choice and self.choice in _LESS_FORCED:
            return replace(self, choice=_LESS_FORCED[self.choice])
        less = None if fixed else _LESS.get(self.structured)
        return replace(self, structured=less) if less else None

    def after(self, *, called: bool, fixed: bool) -> Manner:
        """Return the manner for the next request, now that this one was answered.

        A function that had to be called and was not is one that the endpoint overlooks, and is asked for
        no more.
        """
        overlooked = self.structured == "tools" and not called and not fixed
        return replace(self, structured=_LESS[self.structured]) if overlooked else self

    def arguments(
        self, request: ModelRequest, *, temperature: float | None, max_tokens: int | None
    ) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`, but for the model's name."""
        asked = {
            "messages": self._messages(request),
            "temperature": temperature if self.temperature else None,
            self.limit: max_tokens,
            **self._form(request.reply),
        }
        return {key: value for key, value in asked.items() if value is not None}

    def _messages(self, request: ModelRequest) -> list[dict[str, str]]:
        prompt = request.prompt
        if self.structured == "words":
            schema = json.dumps(strict_schema(request.reply), ensure_ascii=False)
            prompt += f"\n\nAnswer with JSON only, of this JSON schema:\n{schema}"
        if request.system and self.system:
            return [
                {"role": "system", "content": request.system},
                {"role": "user", "content": prompt},
            ]
        return [{"role": "user", "content": f"{request.system}\n\n{prompt}".strip()}]

    def _form(self, reply: type[BaseModel]) -> dict[str, Any]:
        if self.structured == "words":
            return {}
        if self.structured == "json":
            return {"response_format": {"type": "json_object"}}
        name, schema = reply.__name__, strict_schema(reply)
        if self.structured == "schema":
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
            "tool_choice": named if self.choice == "named" else self.choice,
        }


def strict_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema in which every object is closed and every field required.

    Endpoints that decode along a schema ask for this form; it also keeps a model from leaving out
    what has a default.
    """
    schema: dict[str, Any] = _strict(reply.model_json_schema())
    return schema


def _strict(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    strict = {
        key: {name: _strict(part) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _strict(value)
        for key, value in node.items()
        if key not in {"default", "title"}
    }
    if node.get("type") == "object":
        strict |= {"additionalProperties": False, "required": list(node.get("properties", {}))}
    return strict
