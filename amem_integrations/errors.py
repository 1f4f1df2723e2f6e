"""Every error this package raises.

::

    AmemError
    ├── ConfigurationError (ValueError)
    ├── InvalidInputError (ValueError)
    ├── NamespaceError (ValueError)
    ├── NoteNotFoundError (KeyError)
    ├── RevisionConflictError
    ├── ModelReplyError
    ├── ModelUnavailableError
    │   └── BudgetExceededError
    ├── MissingExtraError (ImportError)
    └── StoreError
        ├── StoreClosedError
        ├── StoreLockedError
        ├── StoreFullError
        ├── StoreUnavailableError
        └── EmbedderMismatchError

A message says what happened and what to do next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any


class AmemError(Exception):
    """Anything this package raises on purpose."""


class ConfigurationError(AmemError, ValueError):
    """A setting is wrong; fix it before running again."""


class InvalidInputError(AmemError, ValueError):
    """A note, a filter or a time cannot be used; nothing was stored."""


class NamespaceError(AmemError, ValueError):
    """A namespace is missing or malformed; nothing was read or written."""


class NoteNotFoundError(AmemError, KeyError):
    """No note with this id in this namespace."""

    def __str__(self) -> str:
        """Return the message itself; `KeyError` would show its repr."""
        return str(self.args[0]) if self.args else ""


class RevisionConflictError(AmemError):
    """A later change touched the same field; the message names it."""


class ModelReplyError(AmemError):
    """A chat model answered, but not with anything that could be used."""


class ModelUnavailableError(AmemError):
    """A chat model or an embedder could not be reached; try again later."""


class BudgetExceededError(ModelUnavailableError):
    """A limit of the day is reached and the model was not called; try again the next day, or raise the limit."""


class MissingExtraError(AmemError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    def __init__(self, package: str, extra: str) -> None:
        """Say which `package` is missing and which `extra` brings it."""
        super().__init__(
            f"{package!r} is not installed. Run in a clone of amem-integrations: pip install '.[{extra}]'",
            name=package,
        )


def needed(module: str, extra: str) -> Any:  # noqa: ANN401 - the module of an extra may lack types
    """Return a module that `extra` brings.

    Raises:
        MissingExtraError: The package of the module is not installed.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A part of a namespace package may lack where another part is there.
        if error.name not in (package, module):
            raise
        raise MissingExtraError(package, extra) from error


def without_secrets(url: str) -> str:
    """Return a URL as a message may show it: without user, password and query."""
    return re.sub(r"(?<=//).*@|[?#].*", "", url)


FORBIDDEN, UNKNOWN, REFUSED = {401, 403}, {404, 405}, {400, 413, 415, 422}


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error of any vendor's package, or of what caused it, if one of them has one."""
    while error is not None:
        given = [getattr(error, name, None) for name in ("status_code", "code", "status")]
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):  # of botocore
            given.append(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        else:
            given.append(getattr(response, "status_code", None))
        for status in given:
            if isinstance(status, int) and 400 <= status < 600:  # noqa: PLR2004 - errors of HTTP
                return status
        error = error.__cause__
    return None


def model_error(
    what: str, error: Exception, *, status: int | None = None, detail: str = ""
) -> AmemError:
    """Return the meaning of an error of anybody's model or embedder: a mistake, a request that it refuses, or no answer.

    `status` and `detail` take the place of what the error itself tells.
    """
    status = status or status_of(error)
    if status in FORBIDDEN:  # the message of a server may hold parts of the key
        told = status_of(error) or status
        return ConfigurationError(f"{what} refused access (HTTP {told}); check the API key")
    detail = " ".join((detail or repr(error)).split())[:300]
    if status in UNKNOWN:
        return ConfigurationError(f"{what} was not found ({detail}); check its name and address")
    if status in REFUSED:
        return ModelReplyError(f"{what} refused the request ({detail})")
    return ModelUnavailableError(f"{what} did not answer ({detail}); check it, or try again later")


class StoreError(AmemError):
    """The note store refused an operation or is damaged."""


class StoreClosedError(StoreError):
    """The memory was closed, or opened before this process was forked; open the memory again."""


class StoreLockedError(StoreError):
    """This folder is open already, in another process or in this one; use a Qdrant server to share it."""


class StoreFullError(StoreError):
    """There is too little disk space to write safely; nothing was written."""


class StoreUnavailableError(StoreError):
    """The Qdrant server did not answer; the same call may succeed later."""


class EmbedderMismatchError(StoreError):
    """The collection was built with another embedder; run `reindex` to change it."""
