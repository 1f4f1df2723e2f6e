"""An embedder that runs on this machine: any text model of the FastEmbed library, by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigurationError, needed
from ..stored_note import Vector
from .embedders import CachedEmbedder, Prefixes, Role, prefixed, prefixes_of, unit_rows


class FastEmbedEmbedder(CachedEmbedder):
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
        given = Prefixes(query_prefix or "", document_prefix or "")
        self._prefixes = prefixes_of(model, query_prefix, document_prefix)
        self._batch_size = batch_size
        self._model = _load(model, options)
        self._tokenizer: Any = getattr(getattr(self._model, "model", None), "tokenizer", None)
        name = given.named(f"fastembed:{model}")
        super().__init__(name, cache_size, _max_tokens(self._tokenizer))
        self.dimensions = int(self._encode([""], "document").shape[1])

    def _encode(self, texts: list[str], role: Role) -> Vector:
        given = prefixed(getattr(self._prefixes, role), texts)
        if self.max_tokens is not None:
            cut = [bool(self._tokenizer.encode(text).overflowing) for text in given]
            self._truncation.add(sum(cut))
        embed = self._model.query_embed if role == "query" else self._model.passage_embed
        return unit_rows(np.stack([*embed(given, batch_size=self._batch_size)]).astype(np.float32))


def _load(model: str, options: dict[str, Any]) -> Any:  # noqa: ANN401 - ships no types of its own
    library = needed("fastembed", "fastembed")  # imports ONNX Runtime
    try:
        return library.TextEmbedding(model_name=model, **options)
    except Exception as error:  # ONNX Runtime and the hub have classes of their own
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"the embedder {model!r} could not be loaded by FastEmbed ({reason}); it knows the models of "
            "fastembed.TextEmbedding.list_supported_models(), and downloads what is not in its cache_dir"
        ) from error


def _max_tokens(tokenizer: Any) -> int | None:  # noqa: ANN401 - of the tokenizers library
    truncation = getattr(tokenizer, "truncation", None)
    return truncation.get("max_length") if isinstance(truncation, dict) else None
