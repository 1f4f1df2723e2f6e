"""`AMemToolSpec`: what an agent can do with its memory by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    Note,
    NoteNotFoundError,
    ScoredNote,
    render_notes,
)

from ._failures import PASSING, Failures
from ._namespaces import checked_namespace
from ._versions import changed
