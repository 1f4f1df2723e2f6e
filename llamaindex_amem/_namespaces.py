"""Whose memory it is; nobody's is never a default."""

from __future__ import annotations

from collections.abc import Sequence

from amem_integrations import NamespaceError


def checked_namespace(namespace: object) -> tuple[str, ...]:
    """Return the namespace as a tuple.

    Raises:
        NamespaceError: It is no non-empty sequence of non-empty strings.
    """
    labels = tuple(namespace) if isinstance(namespace, list | tuple) else ()
    if not labels or not all(isinstance(label, str) and label for label in labels):
        raise NamespaceError(
            f"namespace={namespace!r} must be a tuple of non-empty strings, such as ('user-42',)"
        )
    return labels


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
    return checked_namespace((user_id,) if namespace is None else namespace)
