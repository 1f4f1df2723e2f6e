"""What can be read about the commands."""

from __future__ import annotations

import re

import typer
from cli_kit import ROOT
from support.processes import run_alone

from amem_integrations.cli import commands

COMMANDS = typer.main.get_command(commands()).commands
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


HELP = """
import sys
from amem_integrations.cli import main
try:
    main()
finally:
    heavy = {"numpy", "pydantic", "qdrant_edge", "qdrant_client", "torch"}
    heavy |= {f"amem_integrations.{name}" for name in ("memory", "stores")}
    assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_help_imports_no_engine_and_no_embedder():
    done = run_alone(HELP, "--help")
    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_every_command_has_help_and_json(amem):
    for name in COMMANDS:
        help_ = " ".join(amem(name, "--help").stdout.split())
        assert help_.startswith("Usage: amem ")
        for option in ("--json", "--memory", "--collection", "--api-key"):
            assert option in help_


def test_the_docs_name_every_command_and_no_other():
    first = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## Which memory")[0], flags=re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(COMMANDS)
