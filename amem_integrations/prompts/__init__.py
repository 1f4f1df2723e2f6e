"""What is asked of a chat model: prompt texts with $placeholders, beside the replies wanted back.

A prompt is the file `<task>.md`; everything before the line `---` is the system message.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template

from .replies import (
    ConstructReply,
    EvolveReply,
    LinkReply,
    NoteAttributes,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    ReviseReply,
    Targeted,
)

__all__ = [
    "ConstructReply",
    "EvolveReply",
    "LinkReply",
    "NoteAttributes",
    "NoteEvolution",
    "ProposedLink",
    "ProposedUpdate",
    "ReviseReply",
    "Targeted",
    "render",
]


@cache
def _templates(task: str) -> tuple[Template, Template]:
    text = (files(__package__) / f"{task}.md").read_text(encoding="utf-8")
    system, _, prompt = text.partition("\n---\n")
    return Template(system.strip()), Template(prompt.strip())


def render(task: str, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    Raises:
        KeyError: A placeholder of the prompt has no value.
    """
    system, prompt = _templates(task)
    return system.substitute(), prompt.substitute(values)
