"""DialSim (Kim et al., 2024, arXiv 2406.13144): a memory hears the script of a show and is asked on the way.

`loading` reads the file of a show (`containers` safely, `scripts` into turns), `names` gives its characters
other names, `choosing` says what is asked where, `simulating` lets a memory hear it and `examining` has a
model answer. `marking` and `reporting` make figures of the answers, `page` a page of the figures, and
`provenance` says how they came about. It has not been run on the published files yet.
"""

from __future__ import annotations

from .choosing import Asked, Choice, choose
from .loading import load
from .names import renamed
from .reporting import build
from .results import Recalled, Result
from .settings import Format, Settings
from .simulating import simulate
from .values import Question, Session, Show, Turn

__all__ = [
    "Asked",
    "Choice",
    "Format",
    "Question",
    "Recalled",
    "Result",
    "Session",
    "Settings",
    "Show",
    "Turn",
    "build",
    "choose",
    "load",
    "renamed",
    "simulate",
]
