"""`python -m benchmarks.evaluation`: measures a memory."""

from .commands import app

app(prog_name="python -m benchmarks.evaluation")
