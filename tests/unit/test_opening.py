"""Which place a location means, and which embedder a name stands for."""

from __future__ import annotations

import sys

import pytest

from amem_integrations import AgenticMemory, ConfigurationError, MissingExtraError
from amem_integrations.opening import Location, embedder_named
from amem_integrations.testing import HashEmbedder

OWN = """
from amem_integrations.testing import HashEmbedder
ready = HashEmbedder(8, name="own")
def make():
    return HashEmbedder(16, name="made")
class Own(HashEmbedder):
    pass
seven = 7
def sevens():
    return seven
"""


def test_a_folder_is_found_from_home_and_stays_where_it_was_when_the_process_moves(
    tmp_path, monkeypatch
):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    assert Location.of("~/memory").path == str(home / "memory")
    assert Location.of("here").path == str(work / "here")
    with AgenticMemory.open("here", embedder=HashEmbedder()) as memory:
        monkeypatch.chdir(tmp_path)
        memory.add("Kept.", namespace=("ann",))
    assert [each.name for each in work.iterdir()] == ["here"]
    assert Location.of(":memory:").path == ":memory:"
    assert Location.of("http://localhost:6333").is_served
    assert not Location.of("here").is_served


def test_an_endpoint_and_words_only_have_names(monkeypatch):
    made = embedder_named("openai:nomic-embed-text", "http://localhost:11434/v1")
    assert made.name == "nomic-embed-text"
    assert isinstance(embedder_named("hash", None), HashEmbedder)
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match="fastembed"):
        embedder_named("fastembed:BAAI/bge-small-en-v1.5", None)


def test_an_embedder_of_the_users_own_code_is_named_by_module_and_name(tmp_path, monkeypatch):
    (tmp_path / "my_embedders.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    for name, dimensions in (("ready", 8), ("make", 16), ("Own", 64)):
        assert embedder_named(f"python:my_embedders:{name}", None).dimensions == dimensions
    for name in ("seven", "sevens"):
        with pytest.raises(ConfigurationError, match="embedder=7 has no method 'embed_documents'"):
            embedder_named(f"python:my_embedders:{name}", None)
    for name in ("no_such_module:x", "math:no_such_name", "math"):
        with pytest.raises(ConfigurationError, match=f"--embedder python:{name}"):
            embedder_named(f"python:{name}", None)
    monkeypatch.delitem(sys.modules, "my_embedders")


def test_a_wrong_setting_leaves_the_folder_to_others(tmp_path):
    held = []  # with each error all that its traceback holds
    for wrong in ({"config": {"link": False}}, {"model": "gpt-4o-mini"}, {"embedder": "hash"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))) as caught:
            AgenticMemory.open(tmp_path, **{"embedder": HashEmbedder(), **wrong})
        held.append(caught)
        AgenticMemory.open(tmp_path, embedder=HashEmbedder()).close()
