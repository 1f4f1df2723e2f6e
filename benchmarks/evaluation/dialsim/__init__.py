"""DialSim (Kim et al., 2024, arXiv 2406.13144): questions asked in the course of a TV show.

`tv_show` reads a show; `choosing` makes a conversation of it; `figures` makes the report.
"""

from __future__ import annotations

from .choosing import CONSTANTS, Choice, Format, choose
from .tv_show import Session, Show, ShowQuestion, load, renamed

__all__ = [
    "CONSTANTS",
    "Choice",
    "Format",
    "Session",
    "Show",
    "ShowQuestion",
    "choose",
    "load",
    "renamed",
]
