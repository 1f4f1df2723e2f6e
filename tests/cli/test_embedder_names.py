"""`--embedder`: which embedder a name stands for."""

from __future__ import annotations

import sys

import pytest

from amem_integrations import ConfigurationError, MissingExtraError
from amem_integrations.cli.options import make_embedder
from amem_integrations.testing import HashEmbedder

OWN = """
from amem_integrations.testing import HashEmbedder
ready = HashEmbedder(8, name="own")
def make():
    return HashEmbedder(16, name="made")
nothing = 7
"""


def test_an_endpoint_and_words_only_have_names():
    made = make_embedder("openai:nomic-embed-text", "http://localhost:11434/v1")
    assert made.name == "nomic-embed-text"
    assert isinstance(make_embedder("hash", None), HashEmbedder)


@pytest.mark.parametrize(("name", "dimensions"), [("ready", 8), ("make", 16)])
def test_an_embedder_of_the_users_own_code_is_named_by_module_and_name(
    tmp_path, monkeypatch, name, dimensions
):
    (tmp_path / "my_embedders.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_embedders", raising=False)
    assert make_embedder(f"python:my_embedders:{name}", None).dimensions == dimensions


@pytest.mark.parametrize("name", ["no_such_module:x", "math:no_such_name", "math"])
def test_what_is_not_there_is_named(name):
    with pytest.raises(ConfigurationError, match=f"--embedder python:{name}"):
        make_embedder(f"python:{name}", None)


def test_without_fastembed_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match="fastembed"):
        make_embedder("fastembed:BAAI/bge-small-en-v1.5", None)
