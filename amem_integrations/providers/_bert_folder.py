"""A folder with a model in the layout of sentence-transformers, of which BERT with mean pooling is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import ConfigurationError, needed
from ._bert import Bert

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What is read; a download brings these and no others.
FILES = (
    "1_Pooling/config.json",
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
WEIGHTS = "model.safetensors"

_EXTRA = "minilm"
_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_BERT = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}


@dataclass(frozen=True, slots=True)
class BertFolder:
    """The settings in such a folder.

    Attributes:
        path: Where it is.
        config: Sizes of the encoder.
        max_tokens: How many tokens of a text are read.
        lower_case: Whether a text is lower-cased before its tokens are made.
        prompts: What goes before a text, by role.
    """

    path: Path
    config: Mapping[str, Any]
    max_tokens: int
    lower_case: bool
    prompts: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the settings in a folder.

        Raises:
            ConfigurationError: They are incomplete, or of a model that is not BERT with mean pooling.
        """
        config = _json(path, "config.json")
        _check_encoder(path, config)
        _check_modules(path)
        sentences = _json(path, "sentence_bert_config.json", optional=True)
        most = config["max_position_embeddings"]
        tokenizer = _json(path, "tokenizer_config.json", optional=True)
        limit = sentences.get("max_seq_length") or tokenizer.get("model_max_length", most)
        return cls(
            path=path,
            config=config,
            max_tokens=int(min(most, limit)),
            lower_case=bool(sentences.get("do_lower_case")),
            prompts=_prompts(_json(path, "config_sentence_transformers.json", optional=True)),
        )

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer, which neither cuts nor pads.

        Raises:
            MissingExtraError: tokenizers is not installed.
            ConfigurationError: The file is missing or damaged.
        """
        library = needed("tokenizers", _EXTRA)
        file = _existing(self.path, "tokenizer.json")
        try:
            tokenizer: Tokenizer = library.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises nothing narrower
            raise _damaged(file, error) from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def encoder(self) -> Bert:
        """Return the encoder with its weights.

        Raises:
            MissingExtraError: safetensors is not installed.
            ConfigurationError: The file is missing, damaged, or lacks a weight.
        """
        refused = needed("safetensors", _EXTRA).SafetensorError
        safetensors = needed("safetensors.numpy", _EXTRA)
        file = _existing(self.path, WEIGHTS)
        try:
            loaded = safetensors.load_file(file)
            weights = {name: array.astype(np.float32, copy=False) for name, array in loaded.items()}
            return Bert.from_weights(
                weights,
                layers=self.config["num_hidden_layers"],
                heads=self.config["num_attention_heads"],
                epsilon=self.config["layer_norm_eps"],
            )
        except (refused, OSError, KeyError, TypeError, ValueError) as error:
            raise _damaged(file, error) from error


def _check_encoder(path: Path, config: Mapping[str, Any]) -> None:
    for name, wanted in _BERT.items():
        if (value := config.get(name, wanted)) != wanted or "model_type" not in config:
            raise _unsupported(path, f"{name}={value!r}")
    for name in ("max_position_embeddings", "num_hidden_layers", "num_attention_heads"):
        if not isinstance(config.get(name), int):
            raise ConfigurationError(f"{path / 'config.json'} does not say {name!r}")


def _check_modules(path: Path) -> None:
    modules = _json(path, "modules.json")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in _MODULES:
        raise _unsupported(path, f"modules {', '.join(kinds)}")
    pooling = _json(path, f"{modules[1]['path']}/config.json")
    mode = _pooling_mode(pooling)
    if mode != ["mean"]:
        raise _unsupported(path, f"pooling by {' and '.join(mode)}")
    if not pooling.get("include_prompt", True):
        raise _unsupported(path, "pooling without the prompt")


def _pooling_mode(pooling: Mapping[str, Any]) -> list[str]:
    if mode := pooling.get("pooling_mode"):
        return [mode] if isinstance(mode, str) else list(mode)
    prefix = "pooling_mode_"
    named = [
        key.removeprefix(prefix) for key, on in pooling.items() if key.startswith(prefix) and on
    ]
    return ["mean" if name == "mean_tokens" else name for name in named] or ["mean"]


def _prompts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what sentence-transformers puts before a query and a document."""
    prompts = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name")) or ""
    document = prompts.get("document") or prompts.get("passage")
    return {"query": prompts.get("query") or default, "document": document or default}


def _existing(path: Path, name: str) -> Path:
    file = path / name
    if not file.is_file():
        raise ConfigurationError(
            f"{str(path)!r} lacks {name!r}: it is not a model in the layout of sentence-transformers "
            "with weights as safetensors"
        )
    return file


def _json(path: Path, name: str, *, optional: bool = False) -> Any:  # noqa: ANN401 - JSON
    if optional and not (path / name).is_file():
        return {}
    file = _existing(path, name)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{str(file)!r} cannot be read as part of a BERT model: {error!r}")


def _unsupported(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the model in {str(path)!r} has {what}; MiniLmEmbedder runs BERT with gelu and mean pooling only. "
        "Use SentenceTransformerEmbedder: pip install 'amem-integrations[sentence-transformers]'"
    )
