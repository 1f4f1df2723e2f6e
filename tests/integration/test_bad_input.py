"""What cannot be stored, and names of what is not there: each a typed error or a defined result."""

from __future__ import annotations

import json

import pytest
from support import models

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    InvalidInputError,
    MemoryConfig,
    NamespaceError,
    NoteInput,
    NoteNotFoundError,
)
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def memory():
    """One memory for all tests: what is refused leaves it as it was."""
    model = models.model(models.link_to_first)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        opened.add("I joined a choir", namespace=ANN, thread="t")
        yield opened


WRITES = {
    "content": lambda m, text: m.add(text, namespace=BOB),
    "key": lambda m, text: m.add("x", namespace=BOB, key=text),
    "thread": lambda m, text: m.add("x", namespace=BOB, thread=text),
    "speaker": lambda m, text: m.add("x", namespace=BOB, speaker=text),
    "metadata": lambda m, text: m.add("x", namespace=BOB, metadata={"a": text}),
    "name in metadata": lambda m, text: m.add("x", namespace=BOB, metadata={text: "a"}),
    "deep in metadata": lambda m, text: m.add("x", namespace=BOB, metadata={"a": [{"b": text}]}),
    "one of many": lambda m, text: m.add_many(["x", NoteInput(content=text)], namespace=BOB)[1],
    "message": lambda m, text: m.add_messages(
        [{"role": "user", "content": text, "id": text}], namespace=BOB
    )[0],
    "new content": lambda m, text: m.update(
        m.add("y", namespace=BOB).id, namespace=BOB, content=text
    ),
    "new metadata": lambda m, text: m.update(
        m.add("y", namespace=BOB).id, namespace=BOB, metadata={"a": text}
    ),
}
CLEAN = {"a\0b": "ab", "a\ud800b": "a\ufffdb", "\udfff": "\ufffd"}


@pytest.mark.parametrize("where", WRITES)
def test_what_no_store_can_hold_is_taken_out_of_a_text_which_costs_nothing_else(where):
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        for text, clean in CLEAN.items():
            memory.clear(namespace=BOB)
            note = WRITES[where](memory, text)
            said = (note.content, note.key, note.thread, note.speaker, note.metadata)
            assert clean in json.dumps(said, ensure_ascii=False)
            json.dumps(said, ensure_ascii=False).encode()
            assert memory.get(note.id, namespace=BOB) == note
            if "new" not in where:  # what was corrected is another statement when it is made again
                assert WRITES[where](memory, text).id == WRITES[where](memory, clean).id
            memory.search(text, namespace=BOB)


def first(memory):
    return memory.get_all(namespace=ANN)[0].id


@pytest.mark.parametrize("text", CLEAN, ids=["NUL", "half", "other half"])
def test_a_condition_a_namespace_or_an_id_of_such_text_is_refused(memory, text):
    for where in ({"speaker": text}, {f"metadata.{text}": 1}):
        with pytest.raises(InvalidInputError, match=r"NUL|surrogate"):
            memory.search("x", namespace=ANN, where=where)
    for call in (
        lambda: memory.add("x", namespace=(text,)),
        lambda: memory.search("x", namespace=("a", text)),
        lambda: memory.clear(namespace=(text,)),
    ):
        with pytest.raises(NamespaceError, match=r"NUL|surrogate"):
            call()
    for call in BY_ID.values():
        with pytest.raises((NoteNotFoundError, InvalidInputError)):
            call(memory, text, ANN)
    assert memory.namespaces() == [ANN]
    assert memory.get_all(namespace=ANN)


def test_a_question_of_such_text_is_asked_without_it(memory):
    class Strict(HashEmbedder):
        def embed_query(self, text):
            text.encode()  # as a tokeniser does
            return super().embed_query(text)

    plain = memory.search("choir", namespace=ANN)
    assert memory.search("choir \ud83d", namespace=ANN) == plain
    assert memory.context("choir \ud83d", namespace=ANN) == memory.context("choir", namespace=ANN)
    with AgenticMemory.open(":memory:", embedder=Strict()) as other:
        note = other.add("I joined a choir", namespace=ANN)
        for query in ("choir \ud83d", "\ud83d", "a\0b"):
            assert [hit.note.id for hit in other.search(query, namespace=ANN)] == [note.id]


NO_METADATA = {
    "infinity": float("inf"),
    "a number of 70 bits": 2**70,
    "keys": {1: 2}.keys(),
    "nesting": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
    "bytes": b"bytes",
}


def test_metadata_that_would_not_come_back_the_same_is_refused(memory):
    before = memory.get_all(namespace=ANN)
    for value in NO_METADATA.values():
        with pytest.raises(InvalidInputError, match="metadata"):
            memory.add("x", namespace=ANN, metadata={"a": value})
    assert memory.get_all(namespace=ANN) == before


def test_content_over_the_limit_is_refused_and_the_limit_is_named(memory):
    limit, before = MemoryConfig().max_content_chars, memory.get_all(namespace=ANN)
    for call in (
        lambda: memory.add("x" * (limit + 1), namespace=ANN),
        lambda: memory.add_many(["fine", "x" * (limit + 1)], namespace=ANN),
        lambda: memory.update(first(memory), namespace=ANN, content="x" * (limit + 1)),
    ):
        with pytest.raises(
            InvalidInputError, match=f"more than {limit}.*TextSplitter.*max_content_chars"
        ):
            call()
    assert memory.get_all(namespace=ANN) == before


BY_ID = {
    "get": lambda m, name, space: m.get(name, namespace=space),
    "update": lambda m, name, space: m.update(name, namespace=space, content="x"),
    "delete": lambda m, name, space: m.delete(name, namespace=space),
    "history": lambda m, name, space: m.history(name, namespace=space),
    "undo": lambda m, name, space: m.undo(name, namespace=space),
    "approve": lambda m, name, space: m.approve(name, namespace=space),
    "reject": lambda m, name, space: m.reject(name, namespace=space),
}


@pytest.mark.parametrize("call", BY_ID)
def test_an_unknown_id_is_a_clear_error(memory, call):
    before = memory.get_all(namespace=ANN)
    for name in (UNKNOWN, "nope", "", 5, "../x", "*"):
        with pytest.raises(NoteNotFoundError) as caught:
            BY_ID[call](memory, name, ANN)
        assert f"{name!r}" in str(caught.value)
    assert memory.get_all(namespace=ANN) == before


@pytest.mark.parametrize("call", BY_ID)
def test_an_id_of_another_namespace_is_an_unknown_one(memory, call):
    note = memory.get_all(namespace=ANN)[0]
    change = memory.history(note.id, namespace=ANN)[-1]
    named = change.id if call in ("undo", "approve", "reject") else note.id
    with pytest.raises(NoteNotFoundError, match="bob"):
        BY_ID[call](memory, named, BOB)
    assert memory.get(note.id, namespace=ANN) == note


def test_the_steps_leave_out_notes_that_are_not_there(memory):
    for name in (UNKNOWN, "nope", "a\0b", "\ud800"):
        raw = memory.add(f"We sing {name!r}", namespace=ANN, thread="t", evolve=False)
        assert memory.construct([name, raw.id], namespace=ANN)["constructed"] == [raw.id]
        plan = memory.propose([name, raw.id], namespace=ANN)
        assert [note.id for note in plan.notes] == [raw.id]
        assert memory.commit(plan, namespace=ANN).done == (raw.id,)


@pytest.mark.parametrize("place", [":memory:", "folder", "http://127.0.0.1:9"])
def test_an_option_that_no_store_knows_is_named_beside_those_that_are_known(place, tmp_path):
    location = str(tmp_path / place) if place == "folder" else place
    known = "api_key.*timeout.*verify" if "://" in place else "durability"
    with pytest.raises(ConfigurationError, match=f"'embeddings'.*{known}"):
        AgenticMemory.open(location, embedder=HashEmbedder(), embeddings=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


async def later(_message):
    return False


MEANINGLESS = {
    "a dict for a list of notes": lambda m: m.add_many({"role": "user"}, namespace=ANN),
    "a number for a list of notes": lambda m: m.add_many(5, namespace=ANN),
    "a word for progress": lambda m: m.add_many(["x"], namespace=ANN, progress="yes"),
    "an id for ids to supersede": lambda m: m.add("x", namespace=ANN, supersedes=first(m)),
    "a number of ids to supersede": lambda m: m.add("x", namespace=ANN, supersedes=5),
    "a number among notes": lambda m: m.add_many([5], namespace=ANN),
    "an id for ids to evolve": lambda m: m.evolve(namespace=ANN, ids=first(m)),
    "an id for ids to construct": lambda m: m.construct(first(m), namespace=ANN),
    "an id for ids to propose for": lambda m: m.propose(first(m), namespace=ANN),
    "no notes to evolve": lambda m: m.evolve(limit=0),
    "a text as a number of notes": lambda m: m.evolve(limit="3"),
    "a text as a similarity": lambda m: m.search("x", namespace=ANN, min_similarity="x"),
    "a similarity that is none": lambda m: m.search(
        "x", namespace=ANN, min_similarity=float("nan")
    ),
    "a similarity above one": lambda m: m.search("x", namespace=ANN, min_similarity=2),
    "no change": lambda m: m.update(first(m), namespace=ANN),
    "a number for a model": lambda m: m.undo(namespace=ANN, model=5),
    "a text for roles": lambda m: m.add_messages(CHAT, namespace=ANN, roles="user"),
    "a coroutine function": lambda m: m.add_messages(CHAT, namespace=ANN, should_store=later),
    "a message for messages": lambda m: m.add_messages(CHAT[0], namespace=ANN),
    "no messages": lambda m: m.add_messages(None, namespace=ANN),
}
CHAT = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("call", MEANINGLESS)
def test_an_argument_that_means_nothing_is_refused(memory, call):
    before = memory.get_all(namespace=ANN)
    with pytest.raises(InvalidInputError):
        MEANINGLESS[call](memory)
    assert memory.get_all(namespace=ANN) == before


def test_a_worker_that_cannot_work_so_is_refused(memory):
    no_workers = [("concurrency", "2"), ("poll", "x"), ("poll", float("nan"))]
    for name, value in (*no_workers, ("budget", 1.5), ("stop", 5)):
        with pytest.raises(ConfigurationError, match=name):
            memory.work(once=True, **{name: value})


def test_an_empty_namespace_does_not_stand_for_all(memory):
    for name in ("stats", "evolve", "sweep", "usage", "work"):
        for space in ((), "", []):
            with pytest.raises(NamespaceError):
                getattr(memory, name)(namespace=space)


NO_SETTINGS = [
    ("link", "no"),
    ("review", 1),
    ("batch_size", 0),
    ("candidates", 25.5),
    ("min_gate_similarity", "x"),
    ("min_gate_similarity", True),
    ("min_relevance", float("nan")),
    ("lease_seconds", True),
    ("recent", 11),
    ("min_gate_similarity", 2.0),
    ("calls", "all"),
    ("max_attempts", True),
    ("daily_calls", 0),
    ("daily_tokens", 1.5),
]


def test_a_setting_of_another_kind_is_refused():
    for name, value in NO_SETTINGS:
        with pytest.raises(ConfigurationError, match=f"{name}=.* cannot be used"):
            MemoryConfig(**{name: value})
    for name, value in (("config", {"k": 1}), ("collection", 5)):
        with pytest.raises(ConfigurationError, match=name):
            AgenticMemory.open(":memory:", embedder=HashEmbedder(), **{name: value})
