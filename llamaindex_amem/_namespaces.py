"""Whose memory it is; nobody's is never a default."""

from __future__ import annotations

from collections.abc import Sequence

from amem_integrations import NamespaceError
from amem_integrations.adapting import check_namespace


def namespace_of(user_id: str | None, namespace: Sequence[str] | None) -> tuple[str, ...]:
    """Return the namespace that one of the two stands for.

    Raises:
        NamespaceError: Neither is given, or both, or one that cannot be used.
    """
    if (user_id is None) == (namespace is None):
        raise NamespaceError(
            f"user_id={user_id!r} and namespace={namespace!r}: give one of them, to say whose memory "
            "this is; there is no shared default"
        )
    return check_namespace((user_id,) if namespace is None else namespace)
