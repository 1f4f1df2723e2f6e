"""The commands, put together."""

from __future__ import annotations

import typer

from . import adding, doctor, editing, graph, history, reading, upkeep
from ._plain import PlainGroup
from .evaluation import app as evaluation

app = typer.Typer(
    name="amem",
    cls=PlainGroup,
    help="Long-term memory for LLM agents that organises itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors as plain lines, for terminals and logs alike
)
for module in (adding, reading, editing, history, graph, upkeep, doctor):
    module.register(app)
app.add_typer(evaluation, name="eval")
