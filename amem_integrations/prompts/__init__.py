"""What is asked of a chat model: prompt texts with $placeholders, beside the replies wanted back.

A prompt is the file `<task>.md`; everything before the line `---` is the system message.
"""

from __future__ import annotations

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
    "PROMPT_TEXTS",
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


TASKS = ("construct", "evolve", "link", "revise")

# Read at import, so that no asynchronous caller ever waits for a file.
_TEXTS = {task: (files(__package__) / f"{task}.md").read_text(encoding="utf-8") for task in TASKS}
PROMPT_TEXTS = tuple(_TEXTS.values())


def _template(part: str) -> Template:
    return Template(part.strip())


_TEMPLATES = {task: tuple(map(_template, text.split("\n---\n"))) for task, text in _TEXTS.items()}


def render(task: str, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    Raises:
        KeyError: A placeholder of the prompt has no value.
    """
    system, prompt = _TEMPLATES[task]
    return system.substitute(), prompt.substitute(values)
