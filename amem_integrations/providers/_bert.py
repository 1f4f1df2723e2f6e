"""The forward pass of a BERT encoder with mean pooling, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Self

import numpy as np

from ..stored_note import Vector

# gelu(x) = x * Phi(x), and the logit of Phi is close to x times this polynomial of x². Fitted (minimax) on
# |x| <= 5.6, beyond which Phi is 0 or 1 in float32; gelu is off by at most 7e-8, less than float32 rounds.
_LOGIT = (
    *(1.59576854e00, 7.26682983e-02, -6.60534916e-05, -1.10546746e-04),
    *(7.94813771e-06, -2.67566159e-07, 3.62784914e-09),
)
_LOGIT_NEGATED = [np.float32(-coefficient) for coefficient in _LOGIT]
_LOGIT_END = np.float32(5.6)
_BLOCK = 16_384  # floats: the few arrays of a block stay in the second-level cache


Span = tuple[
    slice, int, int
]  # the rows of a batch at which so many texts of so many tokens each stand


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer; `weight` is [in, out]."""

    weight: Vector
    bias: Vector

    def __call__(self, x: Vector) -> Vector:
        """Return a new array."""
        y: Vector = x @ self.weight
        y += self.bias
        return y


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Brings each row to mean 0 and variance 1, then scales and shifts it."""

    weight: Vector
    bias: Vector
    epsilon: float

    def __call__(self, x: Vector) -> Vector:
        """Change the array in place and return it."""
        x -= x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
        x /= np.sqrt(variance + np.float32(self.epsilon))[:, None]
        x *= self.weight
        x += self.bias
        return x


@dataclass(frozen=True, slots=True)
class Layer:
    """Attention, then two linear layers, each with a residual connection."""

    heads: int
    query_key_value: Dense
    attention_output: Dense
    attention_norm: LayerNorm
    intermediate: Dense
    output: Dense
    output_norm: LayerNorm

    def __call__(self, x: Vector, spans: Sequence[Span]) -> Vector:
        """Return what the layer makes of the rows."""
        y = self.attention_output(self._attention(self.query_key_value(x), spans))
        y += x
        x = self.attention_norm(y)
        y = self.output(gelu(self.intermediate(x)))
        y += x
        return self.output_norm(y)

    def _attention(self, projected: Vector, spans: Sequence[Span]) -> Vector:
        width = projected.shape[1] // 3
        mixed = np.empty((len(projected), width), dtype=np.float32)
        for rows, texts, length in spans:
            shape = (texts, length, 3, self.heads, width // self.heads)
            query, key, value = projected[rows].reshape(shape).transpose(2, 0, 3, 1, 4)
            weights = softmax(query @ key.swapaxes(-1, -2))
            by_token = (weights @ value).swapaxes(1, 2)
            mixed[rows] = by_token.reshape(texts * length, width)
        return mixed


@dataclass(frozen=True, slots=True)
class Bert:
    """A BERT encoder; texts are not padded, so a vector does not depend on what it is encoded with."""

    words: Vector
    positions: Vector
    embedding_norm: LayerNorm
    layers: Sequence[Layer]

    @classmethod
    def from_weights(
        cls, weights: Mapping[str, Vector], *, layers: int, heads: int, epsilon: float
    ) -> Self:
        """Return the encoder whose weights have the names that transformers gives them.

        Raises:
            KeyError: A weight is missing.
        """
        # All tokens are of the first segment.
        positions = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        return cls(
            words=weights["embeddings.word_embeddings.weight"],
            positions=positions,
            embedding_norm=_norm(weights, "embeddings.LayerNorm", epsilon),
            layers=[
                _layer(weights, f"encoder.layer.{number}", heads, epsilon)
                for number in range(layers)
            ],
        )

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self.words.shape[1])

    def encode(self, texts: Sequence[Sequence[int]]) -> Vector:
        """Return a unit-length row for each text, given as token ids, shortest text first."""
        lengths = [len(ids) for ids in texts]
        x = self.words[np.concatenate([np.asarray(ids) for ids in texts])]
        x += np.concatenate([self.positions[:length] for length in lengths])
        x = self.embedding_norm(x)
        spans = _spans(lengths)
        for layer in self.layers:
            x = layer(x, spans)
        starts = [0, *accumulate(lengths[:-1])]
        rows: Vector = np.add.reduceat(x, starts, axis=0)  # a sum points where the mean does
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


def gelu(x: Vector) -> Vector:
    """Change a contiguous array in place, x to x * Phi(x), and return it."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        clipped = np.clip(block, -_LOGIT_END, _LOGIT_END)
        square = clipped * clipped
        logit = square * _LOGIT_NEGATED[-1]
        for coefficient in _LOGIT_NEGATED[-2:0:-1]:
            logit += coefficient
            logit *= square
        logit += _LOGIT_NEGATED[0]
        logit *= clipped
        np.exp(logit, out=logit)
        logit += 1
        block /= logit
    return x


def softmax(x: Vector) -> Vector:
    """Change an array in place, so that the last axis sums to 1, and return it."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def _norm(weights: Mapping[str, Vector], name: str, epsilon: float) -> LayerNorm:
    return LayerNorm(weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)


def _layer(weights: Mapping[str, Vector], prefix: str, heads: int, epsilon: float) -> Layer:
    def dense(name: str, scale: float = 1) -> Dense:
        weight, bias = weights[f"{prefix}.{name}.weight"], weights[f"{prefix}.{name}.bias"]
        # Contiguous this way round, the products of a query take .6 of the time.
        return Dense(np.ascontiguousarray(weight.T) * np.float32(scale), bias * np.float32(scale))

    width = len(weights[f"{prefix}.attention.self.query.bias"]) // heads
    scales = {"query": width**-0.5, "key": 1, "value": 1}
    projections = [dense(f"attention.self.{name}", scale) for name, scale in scales.items()]
    return Layer(
        heads=heads,
        query_key_value=Dense(
            np.concatenate([one.weight for one in projections], axis=1),
            np.concatenate([one.bias for one in projections]),
        ),
        attention_output=dense("attention.output.dense"),
        attention_norm=_norm(weights, f"{prefix}.attention.output.LayerNorm", epsilon),
        intermediate=dense("intermediate.dense"),
        output=dense("output.dense"),
        output_norm=_norm(weights, f"{prefix}.output.LayerNorm", epsilon),
    )


def _spans(lengths: Sequence[int]) -> list[Span]:
    spans, start = list[Span](), 0
    for length, equal in groupby(lengths):
        count = len(list(equal))
        spans.append((slice(start, start + count * length), count, length))
        start += count * length
    return spans
