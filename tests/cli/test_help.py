"""What can be read about the commands."""

from __future__ import annotations

import re

import pytest
import typer
from cli_kit import ROOT

from amem_integrations.cli.app import app

COMMANDS = sorted(typer.main.get_command(app).commands)
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_a_place_in_the_docs(amem, name):
    help_ = amem(name, "--help").stdout
    assert help_.startswith("Usage: amem ")
    assert re.search(rf"`{name}`", PAGE)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"eval"}))
def test_every_command_speaks_json_and_says_which_memory(amem, name):
    help_ = amem(name, "--help").stdout
    for option in ("--json", "--memory", "--collection", "--api-key"):
        assert option in help_


def test_without_anything_the_help_is_shown(amem):
    done = amem()
    assert done.exit_code == 2
    assert "Commands:" in done.stderr


def test_the_docs_name_no_command_that_is_not_there():
    first = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## Which memory")[0], flags=re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(COMMANDS)
