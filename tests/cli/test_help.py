"""What can be read about the commands."""

from __future__ import annotations

import re
import subprocess
import sys

import typer
from cli_kit import ROOT

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
    command = [sys.executable, "-c", HELP, "--help"]
    options = {"capture_output": True, "text": True, "timeout": 60, "cwd": ROOT}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_every_command_has_help_json_and_a_place_in_the_docs(amem):
    for name in COMMANDS:
        help_ = " ".join(amem(name, "--help").stdout.split())
        assert help_.startswith("Usage: amem ")
        for option in ("--json", "--memory", "--collection", "--api-key"):
            assert option in help_
        assert f"`{name}`" in PAGE


def test_the_docs_name_no_command_that_is_not_there():
    first = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## Which memory")[0], flags=re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(COMMANDS)
