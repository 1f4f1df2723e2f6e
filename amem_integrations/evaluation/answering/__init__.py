"""Answering questions from what a memory found, by any chat model, and judging the answers.

`ask` puts a question to a model, `backends` says where models are served, `questions` has all
questions of a conversation answered, each once.
"""

from __future__ import annotations

from .ask import Answering, Judging
from .backends import BACKENDS, Backend, Reply, Served
from .prompts import prompt_text

__all__ = ["BACKENDS", "Answering", "Backend", "Judging", "Reply", "Served", "prompt_text"]
