"""A BERT model of a few thousand numbers, in the layout of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

LAYERS, HEADS, HIDDEN, INTERMEDIATE, POSITIONS = 3, 4, 16, 40, 32
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "train", "is", "late", "##r", "tea", "?"]
MODULES = ["Transformer", "Pooling", "Normalize"]


def write(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    pooling: dict[str, Any] | None = None,
    modules: list[str] = MODULES,
    sentences: dict[str, Any] | None = None,
    prompts: dict[str, str] | None = None,
    dtype: type = np.float32,
) -> Path:
    """Write the model and return its folder; what is given differs from the usual settings."""
    files = {
        "config.json": _config() | (config or {}),
        "modules.json": [
            {
                "idx": number,
                "name": str(number),
                "path": f"{number}_{kind}" if number else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for number, kind in enumerate(modules)
        ],
        "1_Pooling/config.json": pooling
        or {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 12} if sentences is None else sentences,
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": 20},
        "config_sentence_transformers.json": {"prompts": prompts or {}},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "2_Normalize").mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    _tokenizer(lowercase="do_lower_case" not in (sentences or {})).save(
        str(folder / "tokenizer.json")
    )
    save_file(
        {name: array.astype(dtype) for name, array in _weights().items()},
        folder / "model.safetensors",
    )
    return folder


def _config() -> dict[str, Any]:
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": len(VOCABULARY),
    }


def _tokenizer(*, lowercase: bool) -> Tokenizer:
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(5)  # as in many published files; the model's own limit holds
    tokenizer.enable_padding(length=7)
    return tokenizer


def _weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)

    def dense(name: str, rows: int, columns: int) -> dict[str, np.ndarray]:
        return {
            f"{name}.weight": random.normal(0, 0.3, (rows, columns)),
            f"{name}.bias": random.normal(0, 0.3, rows),
        }

    def norm(name: str) -> dict[str, np.ndarray]:
        return {
            f"{name}.weight": random.normal(1, 0.1, HIDDEN),
            f"{name}.bias": random.normal(0, 0.1, HIDDEN),
        }

    tables = {"word": len(VOCABULARY), "position": POSITIONS, "token_type": 2}
    weights = {
        f"embeddings.{name}_embeddings.weight": random.normal(0, 1, (rows, HIDDEN))
        for name, rows in tables.items()
    } | norm("embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for name in ("query", "key", "value"):
            weights |= dense(f"{layer}.attention.self.{name}", HIDDEN, HIDDEN)
        weights |= dense(f"{layer}.attention.output.dense", HIDDEN, HIDDEN)
        weights |= norm(f"{layer}.attention.output.LayerNorm")
        weights |= dense(f"{layer}.intermediate.dense", INTERMEDIATE, HIDDEN)
        weights |= dense(f"{layer}.output.dense", HIDDEN, INTERMEDIATE)
        weights |= norm(f"{layer}.output.LayerNorm")
    return weights | dense("pooler.dense", HIDDEN, HIDDEN)
