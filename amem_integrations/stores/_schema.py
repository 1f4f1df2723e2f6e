"""The schema of payloads: forward by migrations, never back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import StoreError

Payload = dict[str, Any]

SCHEMA = 1
# How a payload of an earlier schema becomes one of the next, by the schema it has. A payload is brought
# forward whenever it is read, and stored so when its note is next written.
MIGRATIONS: dict[int, Callable[[Payload], Payload]] = {}


def current(payload: Payload) -> Payload:
    """Return a payload in the present schema.

    Raises:
        StoreError: It was written by a later version of this package.
    """
    while (schema := payload["schema"]) != SCHEMA:
        if schema not in MIGRATIONS:
            message = (
                f"a note is stored in format {schema!r}, this version of amem-integrations "
                f"reads up to format {SCHEMA}; install a newer version"
            )
            raise StoreError(message)
        payload = {**MIGRATIONS[schema](payload), "schema": schema + 1}
    return payload
