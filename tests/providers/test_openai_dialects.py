"""The common servers, each in its dialect: what is requested, what is read, what its errors become."""

from __future__ import annotations

import pytest
from openai_kit import REPLY, REQUEST, chat, contexts, every_note, formats
from support.dialects import MISSING, SERVERS, WINDOW

from amem_integrations import AgenticMemory, ConfigurationError, MemoryConfig
from amem_integrations.testing import HashEmbedder

pytestmark = pytest.mark.enable_socket

# The formats that `structured="auto"` tries; all other servers accept a schema at once.
TRIED = {
    "SGLang": ["json_schema", "json_schema"],  # the second one without a system message
    "llama.cpp": ["json_schema", None],
}


@pytest.fixture(params=SERVERS)
def name(request):
    return request.param


@pytest.fixture
def server(openai_server, name):
    openai_server.dialect = SERVERS[name]
    openai_server.answer = lambda _: REPLY
    return openai_server


def test_the_reply_is_read_and_the_format_is_remembered(server, name):
    model = chat(server, max_retries=0)

    texts = [model.generate(REQUEST).text for _ in range(2)]

    assert [contexts(text) for text in texts] == [["Ann paints."]] * 2
    tried = TRIED.get(name, ["json_schema"])
    assert formats(server) == [*tried, tried[-1]]


def test_a_missing_model_is_named(server):
    with pytest.raises(ConfigurationError, match=rf"'{MISSING}' at .*check its name"):
        chat(server, MISSING, structured="words", max_retries=0).generate(REQUEST)


def test_a_batch_that_is_too_long_is_done_note_by_note(server, name):
    server.answer = every_note
    with AgenticMemory.open(
        ":memory:",
        model=chat(server, max_retries=0),
        embedder=HashEmbedder(),
        config=MemoryConfig(link=False),
    ) as memory:
        texts = [f"{word} " * (WINDOW // 20) for word in ("one", "two", "six")]
        notes = memory.add_many(texts, namespace=("ann",))
        assert [note.failure for note in notes] == [None] * 3
        assert memory.stats()["states"] == {"done": 3}
    # Too much text is not a matter of the format: three notes, one, two, and these one by one are five requests.
    assert len(server.requests) <= 5 * len(TRIED.get(name, ["json_schema"]))


def test_where_no_part_is_short_enough_the_notes_fail_and_say_why(server, name):
    server.answer = every_note
    config = MemoryConfig(link=False, instructions="Be careful. " * (WINDOW // 8))
    model, embedder = chat(server, max_retries=0), HashEmbedder()
    with AgenticMemory.open(":memory:", model=model, embedder=embedder, config=config) as memory:
        notes = memory.add_many(["I moved to Oslo.", "I have a boat."], namespace=("ann",))
    if name not in {"Ollama", "an older Ollama"}:  # these cut it silently
        assert all("refused the request" in (note.failure or "") for note in notes)
        assert all("context" in note.failure for note in notes)
