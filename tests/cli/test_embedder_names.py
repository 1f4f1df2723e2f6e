"""`--embedder`: which embedder a name stands for."""

from __future__ import annotations

import sys

import pytest

from amem_integrations import ConfigurationError, MissingExtraError
from amem_integrations.opening import embedder_named
from amem_integrations.testing import HashEmbedder

OWN = """
from amem_integrations.testing import HashEmbedder
ready = HashEmbedder(8, name="own")
def make():
    return HashEmbedder(16, name="made")
nothing = 7
"""


def test_an_endpoint_and_words_only_have_names():
    made = embedder_named("openai:nomic-embed-text", "http://localhost:11434/v1")
    assert made.name == "nomic-embed-text"
    assert isinstance(embedder_named("hash", None), HashEmbedder)


NAMED = [("ready", 8), ("make", 16)]


def test_an_embedder_of_the_users_own_code_is_named_by_module_and_name(tmp_path, monkeypatch):
    for name, dimensions in NAMED:
        (tmp_path / "my_embedders.py").write_text(OWN)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "my_embedders", raising=False)
        assert embedder_named(f"python:my_embedders:{name}", None).dimensions == dimensions


MISSING = ["no_such_module:x", "math:no_such_name", "math"]


def test_what_is_not_there_is_named():
    for name in MISSING:
        with pytest.raises(ConfigurationError, match=f"--embedder python:{name}"):
            embedder_named(f"python:{name}", None)


def test_without_fastembed_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match="fastembed"):
        embedder_named("fastembed:BAAI/bge-small-en-v1.5", None)
