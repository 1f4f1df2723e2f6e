"""The prompts of the evaluation; everything before the line `---` is the system message."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


@cache
def prompt_text(task: str) -> str:
    """Return the prompt of a task as it stands in its file."""
    return (files(__package__) / f"{task}.md").read_text(encoding="utf-8")


def render(task: str, **values: str) -> tuple[str, str]:
    """Return the system message and the prompt of a task."""
    system, _, prompt = prompt_text(task).partition("\n---\n")
    return system.strip(), Template(prompt.strip()).substitute(values)
