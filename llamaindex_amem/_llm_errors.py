"""What goes wrong in an LLM, in the words of the core; each vendor has error classes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from amem_integrations import (
    AmemError,
    ConfigurationError,
    ModelReplyError,
    ModelUnavailableError,
)

# A server says by these that it does not take a request in this form, rather than that it is down.
REFUSALS = {400, 404, 415, 422, 501}

FORBIDDEN = {401, 403}
UNKNOWN = 404
LATER = {408, 409, 425, 429}
OF_THE_SERVER = 500
LONGEST_DETAIL = 300


def refuses_tools(error: Exception) -> bool:
    """Return whether the same may be asked again without functions."""
    return isinstance(error, NotImplementedError) or _status(error) in REFUSALS


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise what goes wrong in the model `name` as an `AmemError`."""
    try:
        yield
    except AmemError:
        raise
    except Exception as error:
        raise _translated(error, name) from error


def _translated(error: Exception, name: str) -> AmemError:
    status = _status(error)
    if status in FORBIDDEN:
        # The message may hold parts of the key.
        return ConfigurationError(f"{name!r} refused access (HTTP {status}); check the API key")
    detail = " ".join(repr(error).split())[:LONGEST_DETAIL]
    if status == UNKNOWN:
        return ConfigurationError(
            f"{name!r} was not found ({detail}); check the name of the model and its address"
        )
    if status is None or status in LATER or status >= OF_THE_SERVER:
        return ModelUnavailableError(f"{name!r} did not answer ({detail}); try again later")
    return ModelReplyError(f"{name!r} refused the request ({detail})")


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, if it has one."""
    response = getattr(error, "response", None)
    found = (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
    )
    return next((status for status in found if isinstance(status, int)), None)
