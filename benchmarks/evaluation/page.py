"""One page with everything that the reports of a folder hold: a file without scripts that loads nothing else."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from .plots.style import LOOKS, png  # isort: skip - says which extra is missing

from jinja2 import Environment, StrictUndefined

from amem_integrations.errors import InvalidInputError

from . import embedding_views, report_sections, scaling, sweep
from .cache import write_whole
from .dialsim import figures as dialsim
from .document import Picture, Section, System, Values, flat, number, system

PAGE = "report.html"
PICTURES = "plots"

# What each report is shown by, in the order of the page.
PARTS: dict[str, Callable[[Values], Iterator[Section]]] = {
    "report": report_sections.sections,
    "sweep": sweep.sections,
    "dialsim": dialsim.sections,
    "notes": embedding_views.sections,
    "scale": scaling.sections,
}


def write(folder: Path) -> Path:
    """Write `report.html` and `plots/` from the reports in a folder (else an `InvalidInputError`); return its path."""
    reports = {name: values for name in PARTS if (values := _read(folder / f"{name}.json"))}
    if not reports:
        raise InvalidInputError(
            f"{str(folder)!r} holds no report; `python -m benchmarks.evaluation locomo --out {folder}` writes one"
        )
    pictures = folder / PICTURES
    pictures.mkdir(exist_ok=True)
    parts = (_drawn(folder / f"{name}.json", values, pictures) for name, values in reports.items())
    html = (files(__package__) / "page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(html).render(
        title="Evaluation of a memory",
        facts=[fact for fact in _facts(reports.get("report", {})).items() if fact[1]],
        shown=list(chain.from_iterable(parts)),
        settings=[
            (f"{name}.json", flat(values["settings"]))
            for name, values in reports.items()
            if values.get("settings")
        ],
        label=lambda cell: system(cell) if isinstance(cell, System) else cell,
    )
    page = folder / PAGE
    write_whole(page, text)
    return page


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInputError(f"{str(file)!r} is not a JSON file: {error}; remove it") from error
    return values


def _drawn(
    file: Path, values: Values, pictures: Path
) -> list[tuple[Section, list[dict[str, Any]]]]:
    try:
        return [
            (section, [_image(picture, pictures) for picture in section.pictures])
            for section in PARTS[file.stem](values)
        ]
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise InvalidInputError(
            f"{str(file)!r} is not in the form that this version writes ({error!r}): remove it, or run the "
            "evaluation again"
        ) from error


def _image(picture: Picture, pictures: Path) -> dict[str, Any]:
    images = {look.name: png(picture.draw(look)) for look in LOOKS}
    light = images[LOOKS[0].name]
    (pictures / f"{picture.name}.png").write_bytes(light)
    width, height = struct.unpack(">II", light[16:24])  # of the PNG's header
    texts = {"alt": picture.alt, "caption": picture.caption, "width": width, "height": height}
    data = {name: b64encode(image).decode("ascii") for name, image in images.items()}
    return {**texts, **{name: f"data:image/png;base64,{text}" for name, text in data.items()}}


def _facts(report: Values) -> dict[str, str]:
    if not report:
        return {}
    settings, conversations = report["settings"], report.get("conversations", {})
    return {
        "Data": settings["dataset"]["file"],
        "Conversations": ", ".join(conversations),
        "Notes": number(report["notes"]),
        "Notes written by": ", ".join(
            sorted({one["written_by"] for one in conversations.values()})
        ),
        "Embedder": settings["embedder"]["name"],
    }
