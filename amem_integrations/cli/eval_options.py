"""What the commands of `amem eval` have in common: data, models, and where results go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInputError
from ..evaluation.answering import Backend, Reply

RUN: Mapping[str, Any] = {
    "out": (
        Annotated[Path, typer.Option(help="Folder for the reports: JSON, Markdown, HTML.")],
        Path("report"),
    ),
    "cache": (
        Annotated[
            Path | None,
            typer.Option(
                help="Folder in which memories, replies and vectors are kept, so that a run that was "
                "stopped goes on; by default `cache` in the folder of the reports."
            ),
        ],
        None,
    ),
    "embedder": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="A model by name or folder, or openai:NAME; by default all-MiniLM-L6-v2.",
            ),
        ],
        None,
    ),
    "no_progress": (
        Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")],
        False,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print the report as JSON.")], False),
}
ASKING: Mapping[str, Any] = {
    "answer": (
        Annotated[
            bool,
            typer.Option(
                "--answer", help="Have a chat model answer the questions (needs --model)."
            ),
        ],
        False,
    ),
    "model": (
        Annotated[
            str | None,
            typer.Option(
                help="The chat model. It answers, and it writes the notes of the conversations that "
                "have no annotations; without one notes are made by rules."
            ),
        ],
        None,
    ),
    "backend": (
        Annotated[
            Backend, typer.Option(help="What serves the model; decides the default address.")
        ],
        Backend.OPENAI,
    ),
    "base_url": (
        Annotated[
            str | None,
            typer.Option(
                help="Where the model is served, if not at the backend's usual address. The key is "
                "read from OPENAI_API_KEY."
            ),
        ],
        None,
    ),
    "temperature": (Annotated[float, typer.Option(help="Of the model.")], 0.0),
    "reply": (
        Annotated[
            Reply,
            typer.Option(
                help="How JSON is asked for: by schema, as any JSON, by tool call, in words; auto "
                "takes the first of them that the endpoint accepts."
            ),
        ],
        Reply.AUTO,
    ),
    "rule_notes": (
        Annotated[
            bool,
            typer.Option("--rule-notes", help="The model only answers; notes are made by rules."),
        ],
        False,
    ),
    "judge": (
        Annotated[
            str | None,
            typer.Option(metavar="MODEL", help="A chat model that says which answers are correct."),
        ],
        None,
    ),
    "judge_base_url": (
        Annotated[
            str | None, typer.Option(help="Where the judge is served; by default like the model.")
        ],
        None,
    ),
    "concurrency": (Annotated[int, typer.Option(help="Questions asked at once.")], 4),
    "build_concurrency": (
        Annotated[
            int,
            typer.Option(
                help="Batches of new notes asked about at once; they do not see each other, so it is "
                "part of what decides a memory."
            ),
        ],
        4,
    ),
    "price_input": (
        Annotated[float | None, typer.Option(help="Price of a million input tokens of the model.")],
        None,
    ),
    "price_output": (
        Annotated[float | None, typer.Option(help="Price of a million output tokens.")],
        None,
    ),
}


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in `5,10,20`, in `10..50` (in steps of ten) or in `10..50:5`, sorted.

    Raises:
        InvalidInputError: It is written in another way.
    """
    try:
        return tuple(sorted({number for part in text.split(",") for number in _span(part)}))
    except ValueError as error:
        raise InvalidInputError(
            f"k={text!r} must be numbers such as 5,10,20 or 10..50:5"
        ) from error


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _span(part: str) -> Sequence[int]:
    if ".." not in part:
        return [int(part)]
    bounds, _, step = part.partition(":")
    first, last = map(int, bounds.split(".."))
    return range(first, last + 1, int(step or 10))
