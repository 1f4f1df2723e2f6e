"""One page with everything that the reports of a folder hold: a file that needs nothing else.

It works without scripts, asks nothing of a network, and shows names and texts as text, whatever they are.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from ...errors import InvalidInputError
from . import labels
from .sections import answers, dialsim, notes, retrieval, scale, sweep
from .sections.parts import Picture, Section, Values
from .style import DARK, LIGHT, png

PAGE = "report.html"
PICTURES = "plots"

Sections = Callable[[Values], Iterator[Section]]

# What each report is shown by, in the order of the page.
PARTS: dict[str, tuple[Sections, ...]] = {
    "report": (retrieval.sections, answers.sections),
    "sweep": (sweep.sections,),
    "dialsim": (dialsim.sections,),
    "notes": (notes.sections,),
    "scale": (scale.sections,),
}


@dataclass(frozen=True, slots=True)
class _Image:
    """A picture on both papers, as data URIs, and its size in pixels."""

    alt: str
    caption: str
    light: str
    dark: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Shown:
    """A section whose pictures have been drawn."""

    section: Section
    images: list[_Image]


def write(folder: Path) -> Path:
    """Write `report.html`, and its charts as PNG files in `plots/`, from the reports that a folder holds.

    Read are `report.json`, `sweep.json`, `dialsim.json`, `notes.json` and `scale.json`; what is not there is
    left out.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: The folder holds none of them, or one is in another form.
        OSError: A file cannot be read or written.
    """
    reports = {name: values for name in PARTS if (values := _read(folder / f"{name}.json"))}
    if not reports:
        raise InvalidInputError(
            f"{str(folder)!r} holds no report; `amem eval locomo --out {folder}` writes one"
        )
    pictures = folder / PICTURES
    pictures.mkdir(exist_ok=True)
    shown = list(
        chain.from_iterable(
            _shown(folder / f"{name}.json", values, pictures) for name, values in reports.items()
        )
    )
    text = _template().render(
        title="Evaluation of a memory",
        facts=_facts(reports),
        shown=shown,
        settings=_settings(reports),
    )
    page = folder / PAGE
    draft = page.with_name(f".{PAGE}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(page)
    return page


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInputError(f"{str(file)!r} is not a JSON file: {error}; remove it") from error
    return values


def _shown(file: Path, values: Values, pictures: Path) -> list[_Shown]:
    try:
        return [
            _Shown(section, [_image(picture, pictures) for picture in section.pictures])
            for sections in PARTS[file.stem]
            for section in sections(values)
        ]
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise InvalidInputError(
            f"{str(file)!r} is not in the form that this version writes ({error!r}): remove it, or run the "
            "evaluation again"
        ) from error


def _image(picture: Picture, pictures: Path) -> _Image:
    light, dark = (png(picture.draw(look)) for look in (LIGHT, DARK))
    (pictures / f"{picture.name}.png").write_bytes(light)
    width, height = struct.unpack(">II", light[16:24])  # where PNG says them
    return _Image(picture.alt, picture.caption, _uri(light), _uri(dark), width, height)


def _uri(image: bytes) -> str:
    return f"data:image/png;base64,{b64encode(image).decode('ascii')}"


def _facts(reports: Values) -> list[tuple[str, str]]:
    """Return what was measured, in short."""
    report = reports.get("report", {})
    settings = report.get("settings", {})
    conversations = report.get("conversations", {})
    writers = sorted(
        {str(one["written_by"]) for one in conversations.values() if "written_by" in one}
    )
    facts = {
        "Data": settings.get("dataset", {}).get("file"),
        "Conversations": ", ".join(conversations),
        "Notes": labels.number(report["notes"]) if "notes" in report else "",
        "Notes written by": ", ".join(writers),
        "Embedder": settings.get("embedder", {}).get("name"),
    }
    return [(name, str(value)) for name, value in facts.items() if value]


def _settings(reports: Values) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the settings of each report as rows, by the name of its file."""
    return [
        (f"{name}.json", labels.flat(values["settings"]))
        for name, values in reports.items()
        if values.get("settings")
    ]


def _template() -> Template:
    text = (files(__package__) / "page.html").read_text(encoding="utf-8")
    kept = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return kept.from_string(text)
