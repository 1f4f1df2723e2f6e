"""Fixtures of the tests of the measurements."""

from support.openai_server import openai_server

__all__ = ["openai_server"]
