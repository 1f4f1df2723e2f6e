"""The commands, put together."""

from __future__ import annotations

import typer

from . import adding, doctor, editing, graph, history, reading, upkeep
from ._plain import PlainGroup
from .lazy import lazy

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
app.add_typer(lazy("amem_integrations.evaluation.commands:app", "Measure the memory."), name="eval")
