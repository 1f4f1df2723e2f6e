"""What cannot be stored, and names of what is not there: each a typed error or a defined result."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from pathlib import Path

import pytest
from support import models

from amem_integrations import AgenticMemory, MemoryConfig, NoteInput, errors
from amem_integrations.testing import HashEmbedder

ANN, BOB = ("ann",), ("bob",)
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def memory():
    """One memory for all tests: what is refused leaves it as it was."""
    model = models.model(models.link_to_first)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        opened.add("I joined a choir", namespace=ANN, thread="t")
        yield opened


def message(text):
    return {"role": "user", "content": text, "id": text}


WRITES = {
    "content": lambda m, text: m.add(text, namespace=BOB),
    "key": lambda m, text: m.add("x", namespace=BOB, key=text),
    "thread": lambda m, text: m.add("x", namespace=BOB, thread=text),
    "speaker": lambda m, text: m.add("x", namespace=BOB, speaker=text),
    "name in metadata": lambda m, text: m.add("x", namespace=BOB, metadata={text: "a"}),
    "deep in metadata": lambda m, text: m.add("x", namespace=BOB, metadata={"a": [{"b": text}]}),
    "one of many": lambda m, text: m.add_many(["x", NoteInput(content=text)], namespace=BOB)[1],
    "message": lambda m, text: m.add_messages([message(text)], namespace=BOB)[0],
    "new content": lambda m, text: m.update(
        m.add("y", namespace=BOB).id, namespace=BOB, content=text
    ),
}
CLEAN = {"a\0b": "ab", "a\ud800b": "a\ufffdb", "\udfff": "\ufffd"}


def test_what_no_store_can_hold_is_taken_out_of_a_text_which_costs_nothing_else(open_memory):
    memory = open_memory()
    for where, write in WRITES.items():
        for text, clean in CLEAN.items():
            memory.clear(namespace=BOB)
            note = write(memory, text)
            said = (note.content, note.key, note.thread, note.speaker, note.metadata)
            assert clean in json.dumps(said, ensure_ascii=False), where
            json.dumps(said, ensure_ascii=False).encode()
            assert memory.get(note.id, namespace=BOB) == note
            if "new" not in where:  # what was corrected is another statement when it is made again
                assert write(memory, text).id == write(memory, clean).id
            memory.search(text, namespace=BOB)


def first(memory):
    return memory.get_all(namespace=ANN)[0].id


def test_a_condition_a_namespace_or_an_id_of_such_text_is_refused(memory):
    for text in CLEAN:
        for where in ({"speaker": text}, {f"metadata.{text}": 1}):
            with pytest.raises(errors.InvalidInputError, match=r"NUL|surrogate"):
                memory.search("x", namespace=ANN, where=where)
        for call in (
            lambda text=text: memory.add("x", namespace=(text,)),
            lambda text=text: memory.search("x", namespace=("a", text)),
            lambda text=text: memory.clear(namespace=(text,)),
        ):
            with pytest.raises(errors.NamespaceError, match=r"NUL|surrogate"):
                call()
        for how, more in BY_ID.items():
            with pytest.raises((errors.NoteNotFoundError, errors.InvalidInputError)):
                getattr(memory, how)(text, namespace=ANN, **more)
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


# Among it a number of 70 bits, a key that is no text, and what is nested too deep.
NO_VALUES = [float("inf"), float("nan"), 2**70, {1: 2}, b"bytes", datetime(2024, 1, 1, tzinfo=UTC)]
NO_VALUES.append(json.loads("[" * 40 + "]" * 40))
NO_VALUES.append(reduce(lambda inner, _: [inner], range(5000), []))
NO_VALUES.append(itself := {})
itself["itself"] = itself
BAD_FIELDS = [
    *(("metadata", {"a": value}) for value in NO_VALUES),
    *(("metadata", value) for value in ("text", ["text"], [("name", 1)], 5)),
    ("at", datetime(2024, 1, 1)),  # noqa: DTZ001 - that is the point
    ("at", datetime.min.replace(tzinfo=timezone(timedelta(hours=2)))),
    ("source", "alien"),
    ("key", 5),
    ("thread", ["t"]),
]


def test_metadata_that_would_not_come_back_the_same_is_refused(memory):
    before = memory.get_all(namespace=ANN)
    for field, value in BAD_FIELDS:
        with pytest.raises(errors.InvalidInputError, match=field):
            memory.add("x", namespace=ANN, **{field: value})
    for content in ("", "   \n", "\0", None, 5):
        with pytest.raises(errors.InvalidInputError, match="content"):
            memory.add_many(["fine", NoteInput(content=content)], namespace=ANN)
    assert memory.get_all(namespace=ANN) == before


def test_content_over_the_limit_is_refused_and_the_limit_is_named(memory):
    limit, before = MemoryConfig().max_content_chars, memory.get_all(namespace=ANN)
    long, named = "x" * (limit + 1), f"more than {limit}.*TextSplitter.*max_content_chars"
    for call in (
        lambda: memory.add(long, namespace=ANN),
        lambda: memory.add_many(["fine", long], namespace=ANN),
        lambda: memory.update(first(memory), namespace=ANN, content=long),
    ):
        with pytest.raises(errors.InvalidInputError, match=named):
            call()
    assert memory.get_all(namespace=ANN) == before


# What the methods that take an id are given beside it.
BY_ID = {"update": {"content": "x"}}
BY_ID |= {name: {} for name in ("get", "delete", "history", "undo", "approve", "reject")}


def test_an_unknown_id_is_a_clear_error(memory):
    before = memory.get_all(namespace=ANN)
    change = memory.history(before[0].id, namespace=ANN)[-1]
    for how, more in BY_ID.items():
        for name in (UNKNOWN, "nope", "", 5, "../x", "*"):
            with pytest.raises(errors.NoteNotFoundError) as caught:
                getattr(memory, how)(name, namespace=ANN, **more)
            assert f"{name!r}" in str(caught.value), how
        named = change.id if how in ("undo", "approve", "reject") else before[0].id
        with pytest.raises(errors.NoteNotFoundError, match="bob"):
            getattr(memory, how)(named, namespace=BOB, **more)
    assert memory.get_all(namespace=ANN) == before


def test_the_steps_leave_out_notes_that_are_not_there(memory):
    for name in (UNKNOWN, "nope", "a\0b", "\ud800"):
        raw = memory.add(f"We sing {name!r}", namespace=ANN, thread="t", evolve=False)
        ids = [name, raw.id, raw.id]
        assert memory.construct(ids, namespace=ANN)["constructed"] == [raw.id]
        plan = memory.propose(ids, namespace=ANN)
        assert [note.id for note in plan.notes] == [raw.id]
        assert memory.commit(plan, namespace=ANN).done == (raw.id,)


def test_an_option_that_no_store_knows_is_named_beside_those_that_are_known(tmp_path):
    for place in (":memory:", tmp_path / "folder", "http://127.0.0.1:9"):
        known = (
            "api_key.*timeout.*verify"
            if "://" in str(place)
            else "takes durability, min_free_bytes$"
        )
        for option in ("embeddings", "dimensions"):  # the second is for the embedder to say
            with pytest.raises(errors.ConfigurationError, match=f"'{option}'.*{known}"):
                models.opened(place, **{option: 7})
    assert list(tmp_path.iterdir()) == []


async def later(_message):
    return False


CHAT = [{"role": "user", "content": "hello"}]
MEANINGLESS = [
    *(lambda m, x=items: m.add_many(x, namespace=ANN) for items in ({"role": "user"}, "x", 5, [5])),
    lambda m: m.add_many(["x"], namespace=ANN, progress="yes"),
    lambda m: m.add("x", namespace=ANN, supersedes=first(m)),
    lambda m: m.add("x", namespace=ANN, supersedes=5),
    lambda m: m.evolve(namespace=ANN, ids=first(m)),
    *(
        lambda m, x=wrong: m.evolve(**x)
        for wrong in ({"limit": 0}, {"limit": "3"}, {"thread": "t"})
    ),
    *(
        lambda m, how=how, more=more, x=held: getattr(m, how)(x(m), namespace=ANN, **more)
        for how, more in {**BY_ID, "construct": {}, "propose": {}}.items()
        for held in (lambda m: m.get_all(namespace=ANN)[0], lambda m: [[first(m)]])
    ),
    lambda m: m.construct(first(m), namespace=ANN),
    lambda m: m.propose(first(m), namespace=ANN),
    lambda m: m.undo(namespace=ANN, model=5),
    lambda m: m.update(first(m), namespace=ANN),
    *(
        lambda m, x=x: m.search("x", namespace=ANN, min_similarity=x)
        for x in ("x", float("nan"), 2)
    ),
    lambda m: m.search("x", namespace=ANN, k=0),
    lambda m: m.search(" ", namespace=ANN),
    lambda m: m.recall(" ", namespace=ANN),
    lambda m: m.context("where", namespace=ANN, max_tokens=0),
    lambda m: m.add_messages(CHAT, namespace=ANN, roles="user"),
    lambda m: m.add_messages(CHAT, namespace=ANN, roles=[1]),
    lambda m: m.add_messages(CHAT, namespace=ANN, should_store=later),
    lambda m: m.add_messages(CHAT[0], namespace=ANN),
    lambda m: m.add_messages([{**CHAT[0], "at": datetime(2024, 1, 1)}], namespace=ANN),  # noqa: DTZ001
    lambda m: m.add_messages([{**CHAT[0], "at": "2024-01-01"}], namespace=ANN),
    lambda m: m.search("x", namespace=ANN, where={"speaker": {}}),
    lambda m: m.add_messages(None, namespace=ANN),
]


def test_an_argument_that_means_nothing_is_refused(memory):
    before = memory.get_all(namespace=ANN)
    for call in MEANINGLESS:
        with pytest.raises(errors.InvalidInputError):
            call(memory)
    assert memory.get_all(namespace=ANN) == before


def test_a_worker_that_cannot_work_so_is_refused(memory):
    no_workers = [("concurrency", "2"), ("concurrency", 0), ("poll", "x"), ("poll", float("nan"))]
    for name, value in (*no_workers, ("budget", 1.5), ("stop", 5)):
        with pytest.raises(errors.ConfigurationError, match=name):
            memory.work(once=True, **{name: value})


def test_an_empty_namespace_does_not_stand_for_all(memory):
    for name in ("stats", "evolve", "sweep", "usage", "work"):
        for space in ((), "", []):
            with pytest.raises(errors.NamespaceError):
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
    ("lease_seconds", 0.0),
    ("recent", 11),
    ("min_gate_similarity", 2.0),
    ("calls", "all"),
    ("max_attempts", True),
    ("daily_calls", 0),
    ("daily_tokens", 1.5),
]


def test_the_defaults_are_those_that_the_docs_name():
    table, _ = DOCS.read_text("utf-8").split("## Prompts")
    told = {
        name: value.strip("`").replace(",", "")
        for names, value in re.findall(r"^\| (`.+?`) \| (.+?) \|", table, re.MULTILINE)
        for name in re.findall(r"\w+", names)
    }
    for field in fields(MemoryConfig):
        default = getattr(MemoryConfig(), field.name)
        assert default == ast.literal_eval(told[field.name]), field.name


def test_a_setting_of_another_kind_is_refused():
    for name, value in NO_SETTINGS:
        with pytest.raises(errors.ConfigurationError, match=f"{name}=.* cannot be used"):
            MemoryConfig(**{name: value})
    for name, value in (("config", {"k": 1}), ("collection", 5)):
        with pytest.raises(errors.ConfigurationError, match=name):
            AgenticMemory.open(":memory:", embedder=HashEmbedder(), **{name: value})
