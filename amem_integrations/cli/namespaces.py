"""How a namespace is written on the command line, and read back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..errors import NamespaceError
from ..ids import check_namespace
from ..notes import Namespace


def parse_namespace(text: str) -> Namespace:
    """Return the namespace that a text stands for: labels with `/` between them, or a JSON list.

    `team/ann` is `("team", "ann")`. A label that holds a slash itself is written in JSON, as in
    `["a/b", "c"]`; so is one that starts with a bracket.

    Raises:
        NamespaceError: It holds no label, or an empty one.
    """
    if not text.startswith("["):
        return check_namespace(text.split("/"))
    try:
        return check_namespace(json.loads(text))
    except ValueError as error:
        raise NamespaceError(
            f"namespace {text!r} must be labels such as team/ann, or a JSON list of labels: {error}"
        ) from error


def format_namespace(namespace: Sequence[str]) -> str:
    """Return the text that `parse_namespace` takes for this namespace."""
    if namespace[0].startswith("[") or any("/" in label for label in namespace):
        return json.dumps(list(namespace), ensure_ascii=False)
    return "/".join(namespace)
