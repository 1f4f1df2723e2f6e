"""`amem eval …`: how well the memory finds things again, and what a model answers from it."""

from __future__ import annotations

import typer

from . import eval_dialsim, eval_locomo, eval_scale, eval_sweep

app = typer.Typer(help="Measure the memory.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Measure the memory."""


for module in (eval_locomo, eval_sweep, eval_dialsim, eval_scale):
    module.register(app)
