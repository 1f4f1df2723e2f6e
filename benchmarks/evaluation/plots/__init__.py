"""Charts: each is a function of plain report values and of a `Look` (light or dark paper) that returns a figure."""

from __future__ import annotations

from importlib.util import find_spec

from amem_integrations.errors import MissingExtraError

for _package in ("jinja2", "matplotlib", "networkx", "sklearn"):
    if find_spec(_package) is None:
        raise MissingExtraError(_package, "evaluation")
