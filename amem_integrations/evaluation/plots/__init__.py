"""Charts of what an evaluation found, and one page with all of them.

`views` looks at notes through the embedder; `page` reads the reports of a folder and writes `report.html`.
A chart is a function of plain report values and of a `Look` (light or dark paper) that returns a figure of
matplotlib; `style` makes PNG of it.
"""

from __future__ import annotations

from importlib.util import find_spec

from ...errors import MissingExtraError

for _package in ("jinja2", "matplotlib", "networkx", "sklearn"):
    if find_spec(_package) is None:
        raise MissingExtraError(_package, "evaluation")
