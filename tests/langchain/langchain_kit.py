"""What the tests of the LangChain adapter share: two users, and a model that links and evolves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amem_integrations import ModelRequest
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
BOB = ("bob",)

Contents = Callable[[tuple[str, ...]], list[str]]


@dataclass
class User:
    """What an application passes as `context`."""

    user_id: str


def user(run: Any) -> tuple[str, ...]:
    """Return the namespace of a run from its context."""
    return (run.context.user_id,)


def construct(request: ModelRequest) -> dict[str, Any]:
    """Give every note a context and keywords made of its own words."""
    return {
        "notes": [
            {
                "id": note["alias"],
                "context": f"It was said: {note['content']}",
                "keywords": note["content"].split()[:3],
                "tags": ["talk"],
            }
            for note in request.inputs["notes"]
        ]
    }


def evolve(request: ModelRequest) -> dict[str, Any]:
    """Link every note to its first candidate, and tell that one about it."""
    shown = {c["alias"]: c for c in (*request.inputs["candidates"], *request.inputs["notes"])}
    return {
        "notes": [
            {
                "id": note["alias"],
                "links": [{"to": to, "relation": "about", "reason": "same talk", "strength": 0.9}],
                "updates": [
                    {
                        "to": to,
                        "context": f"{shown[to]['content']} Later: {note['content']}",
                        "tags": ["evolved"],
                    }
                ],
            }
            for note in request.inputs["notes"]
            for to in [candidate["alias"] for candidate in note["candidates"]][:1]
        ]
    }


def scripted() -> ScriptedModel:
    """Return a model that constructs, links and evolves in a fixed way."""
    return ScriptedModel({"construct": construct, "evolve": evolve})
