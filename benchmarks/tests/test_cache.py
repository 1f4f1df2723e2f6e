"""Replies and vectors are kept, so that none is paid for twice."""

from contextlib import closing

import numpy as np
import pytest
from pydantic import BaseModel

from amem_integrations.errors import InvalidInputError
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.testing import HashEmbedder
from benchmarks.cache import FILE, PROBE, Cache, CachedEmbedder, CachedModel, key_of


class Reply(BaseModel):
    answer: str


class OtherReply(BaseModel):
    verdict: str


def request(prompt: str = "why?", reply: type[BaseModel] = Reply) -> ModelRequest:
    return ModelRequest(task="answer", system="be brief", prompt=prompt, reply=reply, inputs={})


class Counting:
    """Answers with the number of the call."""

    name = "counting"
    calls = 0

    def generate(self, _request: ModelRequest) -> Completion:
        self.calls += 1
        return Completion(text=str(self.calls), input_tokens=7, output_tokens=2)


class CountingEmbedder(HashEmbedder):
    max_tokens = 99

    def __init__(self, trained: str = "") -> None:
        super().__init__(16)
        self.batches: list[list[str]] = []
        self.trained = trained

    def embed_documents(self, texts):
        self.batches += [list(texts)] if texts != [PROBE] else []
        return HashEmbedder(16).embed_documents(texts)

    def embed_query(self, text):
        self.batches += [[text]] if text != PROBE else []
        return HashEmbedder(16).embed_query(f"{self.trained}{text}")


def test_a_reply_is_asked_for_once_in_all_runs_and_all_that_decides_it_counts(tmp_path):
    for calls in (4, 0):
        file, model = Cache(tmp_path), Counting()
        remembered = CachedModel(model, file, identity="m at 0")
        first = Completion(text="1", input_tokens=7, output_tokens=2)
        assert remembered.generate(request()) == remembered.generate(request()) == first
        assert remembered.generate(request("why not?")).text == "2"
        assert remembered.generate(request(reply=OtherReply)).text == "3"
        assert CachedModel(model, file, identity="m at 1").generate(request()).text == "4"
        file.close()
        assert model.calls == calls
    assert key_of("a", {"x": 1, "y": None}) == key_of("a", {"y": None, "x": 1})
    assert len({key_of("ab"), key_of("a", "b"), key_of(["a", "b"]), key_of("a b")}) == 4


def test_no_text_is_encoded_twice_and_all_new_ones_in_one_batch(tmp_path):
    texts = ["a b", "c d", "a b", *(f"text {number}" for number in range(1203))]  # SQLite's limit
    for batches in ([[*texts[:2], *texts[3:]], ["who?"]], []):
        inner, file = CountingEmbedder(), Cache(tmp_path)
        embedder = CachedEmbedder(inner, file)
        assert (embedder.name, embedder.dimensions, embedder.max_tokens) == (inner.name, 16, 99)
        rows = embedder.embed_documents(texts)
        np.testing.assert_array_equal(rows, HashEmbedder(16).embed_documents(texts))
        np.testing.assert_array_equal(embedder.embed_query("who?"), embedder.embed_query("who?"))
        assert inner.batches == batches
        assert embedder.embed_documents([]).shape == (0, 16)
        file.close()


def test_an_embedder_that_was_trained_again_under_its_name_is_another_one():
    with closing(Cache()) as kept:  # in memory
        before, after = (CachedEmbedder(CountingEmbedder(word), kept) for word in ("", "now "))
        again = CachedEmbedder(CountingEmbedder(), kept)
        assert before.identity == again.identity != after.identity
        before.embed_query("who?")
        expected = HashEmbedder(16).embed_query("now who?")
        np.testing.assert_array_equal(after.embed_query("who?"), expected)
        assert CachedEmbedder(HashEmbedder(8), kept).embed_query("who?").shape == (8,)


def test_another_file_in_its_place_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / FILE).write_text("no database at all, but long enough to look like one" * 40)
    with pytest.raises(InvalidInputError, match="delete it"):
        Cache(tmp_path)
