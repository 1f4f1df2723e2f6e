"""What can be imported: a reader for each form, and how to tell the forms apart."""

from __future__ import annotations

from .forms import Form, Part, origin, read, recognise

__all__ = ["Form", "Part", "origin", "read", "recognise"]
