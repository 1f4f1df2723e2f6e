"""Prompts for a chat model: templates with $placeholders, and the replies they request.

The template of a task is the file `<task>.md`; the text before the line `---` is the system message.
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
    ProposedSupersession,
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
    "ProposedSupersession",
    "ProposedUpdate",
    "ReviseReply",
    "Targeted",
    "render",
]

# Read at import: a file that is read on first use would block the event loop of an asynchronous caller.
_TEMPLATES = {
    file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
    for file in files(__package__).iterdir()
    if file.name.endswith(".md")
}
PROMPT_TEXTS = tuple(_TEMPLATES.values())  # what every model is shown, whatever the notes


def render(task: str, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task.

    Raises:
        KeyError: There is no template for the task, or a placeholder of it has no value.
    """
    system, _, prompt = _TEMPLATES[task].partition("\n---\n")
    return Template(system.strip()).substitute(), Template(prompt.strip()).substitute(values)
