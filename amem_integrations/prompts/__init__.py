"""Prompts for a chat model: templates with $placeholders. The replies that they request are in `replies`.

The template of a task is the file `<task>.md`; the text before the line `---` is the system message, which never changes.
"""

from __future__ import annotations

from importlib.resources import files

PARTED = "\n---\n"

# Read at import: a file that is read on first use would block the event loop of an asynchronous caller.
TEMPLATES = {
    file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
    for file in files(__package__).iterdir()
    if file.name.endswith(".md")
}
