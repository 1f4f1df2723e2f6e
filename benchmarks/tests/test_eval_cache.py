import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from amem_integrations import MemoryConfig
from amem_integrations.errors import (
    InvalidInputError,
    ModelUnavailableError,
    StoreLockedError,
)
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation.building import DONE, Built, kept_memory
from benchmarks.evaluation.cache import (
    FILE,
    PROBE,
    Cache,
    CachedEmbedder,
    CachedModel,
    key_of,
)
from benchmarks.evaluation.data import Turn


class Reply(BaseModel):
    answer: str


class OtherReply(BaseModel):
    verdict: str


def request(prompt: str = "why?", reply: type[BaseModel] = Reply) -> ModelRequest:
    return ModelRequest(task="answer", system="be brief", prompt=prompt, reply=reply, inputs={})


class Counting:
    """Answers with the number of the call."""

    def __init__(self) -> None:
        self.name = "counting"
        self.calls = 0

    def generate(self, _request: ModelRequest) -> Completion:
        self.calls += 1
        return Completion(text=str(self.calls), input_tokens=7, output_tokens=2)


class CountingEmbedder:
    def __init__(self) -> None:
        self._inner = HashEmbedder(16)
        self.name = self._inner.name
        self.dimensions = 16
        self.batches: list[list[str]] = []
        self.max_tokens = 99

    def embed_documents(self, texts):
        if texts != [PROBE]:
            self.batches.append(list(texts))
        return self._inner.embed_documents(texts)

    def embed_query(self, text):
        if text != PROBE:
            self.batches.append([text])
        return self._inner.embed_query(text)


@pytest.fixture
def kept(tmp_path: Path):
    file = Cache(tmp_path / "cache")
    yield file
    file.close()


def test_a_key_is_the_same_for_the_same_values_only() -> None:
    assert key_of("a", {"x": 1, "y": None}) == key_of("a", {"y": None, "x": 1})
    different = [key_of("ab"), key_of("a", "b"), key_of(["a", "b"]), key_of("a b"), key_of()]
    assert len(set(different)) == len(different)


def test_a_reply_is_asked_for_once_in_all_runs(tmp_path: Path) -> None:
    for _ in range(2):
        file, model = Cache(tmp_path), Counting()
        remembered = CachedModel(model, file, identity="m at 0")
        assert remembered.name == "counting"
        first = remembered.generate(request())
        assert (
            remembered.generate(request())
            == first
            == Completion(text="1", input_tokens=7, output_tokens=2)
        )
        file.close()
    assert model.calls == 0


@pytest.mark.parametrize(
    ("identity", "prompt", "reply"),
    [("m at .7", "why?", Reply), ("m", "why not?", Reply), ("m", "why?", OtherReply)],
)
def test_what_decides_a_reply_is_part_of_its_key(
    kept: Cache, identity: str, prompt: str, reply: type[BaseModel]
) -> None:
    model = Counting()
    CachedModel(model, kept, identity="m").generate(request())
    other = CachedModel(model, kept, identity=identity).generate(request(prompt, reply))
    assert other.text == "2"


def test_threads_that_ask_at_once_get_the_same_reply(kept: Cache) -> None:
    both = threading.Barrier(2, timeout=10)

    class Slow(Counting):
        def generate(self, request: ModelRequest) -> Completion:
            both.wait()
            return super().generate(request)

    model = CachedModel(Slow(), kept, identity="m")
    with ThreadPoolExecutor(2) as pool:
        texts = {one.text for one in pool.map(model.generate, [request(), request()])}
    assert len(texts) == 1


def test_a_model_that_fails_leaves_nothing_behind(kept: Cache) -> None:
    class Down:
        def generate(self, _request: ModelRequest) -> Completion:
            raise ModelUnavailableError("down")

    with pytest.raises(ModelUnavailableError):
        CachedModel(Down(), kept, identity="m").generate(request())
    assert CachedModel(Counting(), kept, identity="m").generate(request()).text == "1"


def test_no_text_is_encoded_twice_and_all_new_ones_in_one_batch(tmp_path: Path) -> None:
    inner = CountingEmbedder()
    file = Cache(tmp_path)
    embedder = CachedEmbedder(inner, file)
    assert (embedder.name, embedder.dimensions, embedder.max_tokens) == (inner.name, 16, 99)
    texts = ["a b", "c d", "a b", "e f"]
    rows = embedder.embed_documents(texts)
    assert inner.batches == [["a b", "c d", "e f"]]
    np.testing.assert_array_equal(rows, HashEmbedder(16).embed_documents(texts))
    embedder.embed_documents(["e f", "g h"])
    assert inner.batches[1:] == [["g h"]]
    file.close()

    again = CountingEmbedder()
    file = Cache(tmp_path)
    np.testing.assert_array_equal(CachedEmbedder(again, file).embed_documents(texts), rows)
    assert again.batches == []
    assert CachedEmbedder(again, file).embed_documents([]).shape == (0, 16)
    file.close()


def test_more_texts_than_sqlite_takes_at_once(kept: Cache) -> None:
    texts = [f"text {number}" for number in range(1203)]
    embedder = CachedEmbedder(HashEmbedder(8), kept)
    np.testing.assert_array_equal(
        embedder.embed_documents(texts), embedder.embed_documents(list(texts))
    )


def test_a_query_is_no_document_and_keeps_the_time_it_took(kept: Cache) -> None:
    inner = CountingEmbedder()
    embedder = CachedEmbedder(inner, kept)
    embedder.embed_documents(["who?"])
    first = embedder.embed_query("who?")
    np.testing.assert_array_equal(embedder.embed_query("who?"), first)
    assert inner.batches == [["who?"], ["who?"]]
    assert embedder.query_ms[0] == embedder.query_ms[1] > 0
    assert embedder.waited_ms > 0


def test_vectors_of_another_embedder_are_not_mistaken(kept: Cache) -> None:
    CachedEmbedder(HashEmbedder(8), kept).embed_query("who?")
    assert CachedEmbedder(HashEmbedder(16), kept).embed_query("who?").shape == (16,)


def test_an_embedder_that_was_trained_again_under_its_name_is_another_one(kept: Cache) -> None:
    class Trained(HashEmbedder):
        def embed_query(self, text):
            return super().embed_query(f"now {text}")

    before, after = CachedEmbedder(HashEmbedder(16), kept), CachedEmbedder(Trained(16), kept)
    assert before.name == after.name
    assert before.identity == CachedEmbedder(HashEmbedder(16), kept).identity != after.identity
    before.embed_query("who?")
    np.testing.assert_array_equal(after.embed_query("who?"), Trained(16).embed_query("who?"))


def test_a_file_that_is_damaged_later_is_the_same_error(tmp_path: Path) -> None:
    file = Cache(tmp_path)
    CachedModel(Counting(), file, identity="m").generate(request())
    file.close()
    with pytest.raises(InvalidInputError, match="delete it"):
        file.get(["any"])


@pytest.mark.parametrize("text", ["", '{"gone": 1}', "[]"])
def test_what_cannot_be_known_of_a_memory_has_it_built_anew(tmp_path: Path, text: str) -> None:
    with opened(tmp_path, add_one):
        pass
    (tmp_path / "key" / DONE).write_text(text)
    with opened(tmp_path, add_one) as built:
        assert len(built.notes()) == built.writes().notes == 1


def test_another_file_in_its_place_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database at all, but long enough to look like one" * 40)
    with pytest.raises(InvalidInputError, match="delete it"):
        Cache(tmp_path)


def test_the_file_can_be_read_by_anything(tmp_path: Path) -> None:
    file = Cache(tmp_path)
    CachedModel(Counting(), file, identity="m").generate(request())
    file.close()
    file.close()
    with sqlite3.connect(tmp_path / FILE) as plain:
        assert plain.execute("SELECT value FROM entries").fetchall()[0][0].startswith(b"{")


def add_one(built: Built) -> None:
    built.add([Turn(id="1", thread="t", text="a note")])


def opened(folder: Path, build):
    return kept_memory(
        folder / "key",
        build,
        namespace=("n",),
        embedder=HashEmbedder(8),
        model=None,
        config=MemoryConfig(),
    )


def test_a_memory_is_built_once(tmp_path: Path) -> None:
    with opened(tmp_path, add_one) as built:
        notes, writes = built.notes(), built.writes()
    assert writes.notes == 1
    assert writes.seconds > 0
    with opened(tmp_path, pytest.fail) as built:
        built.add([Turn(id="2", thread="t", text="another note")])
        assert built.notes() == notes
        assert built.writes() == writes


def test_a_memory_that_was_removed_is_built_anew(tmp_path: Path) -> None:
    with opened(tmp_path, add_one):
        pass
    shutil.rmtree(tmp_path / "key" / "memory")
    with opened(tmp_path, add_one) as built:
        assert len(built.notes()) == built.writes().notes == 1


def test_what_was_not_finished_is_built_from_its_beginning(tmp_path: Path) -> None:
    def broken(built: Built) -> None:
        built.add([Turn(id="0", thread="t", text="half of it")])
        raise ModelUnavailableError("down")

    with pytest.raises(ModelUnavailableError), opened(tmp_path, broken):
        pass
    assert not (tmp_path / "key" / DONE).exists()
    with opened(tmp_path, add_one) as built:
        assert [note.content for note in built.notes()] == ["a note"]
    assert json.loads((tmp_path / "key" / DONE).read_text())["notes"] == 1


def test_a_damaged_leftover_is_built_anew(tmp_path: Path) -> None:
    folder = tmp_path / "key" / "memory"
    folder.mkdir(parents=True)
    (folder / "amem.json").write_text("{")
    with opened(tmp_path, add_one) as built:
        assert len(built.notes()) == 1


def test_a_memory_that_is_being_built_is_left_alone(tmp_path: Path) -> None:
    def meanwhile(built: Built) -> None:
        with pytest.raises(StoreLockedError), opened(tmp_path, add_one):
            pass
        add_one(built)

    with opened(tmp_path, meanwhile) as built:
        assert len(built.notes()) == 1
