"""What can be read about the commands."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import typer
from cli_kit import ROOT

from amem_integrations import cli
from amem_integrations.cli.app import COMMANDS, app

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_the_first_sentence_of_each(amem, name):
    group = typer.main.get_command(app)
    text = group.get_command(None, name).help
    assert text.partition("\n\n")[0].replace("\n", " ") == COMMANDS[name][1]
    assert f"  {name} " in amem("--help").stdout


def test_help_imports_no_engine_and_no_embedder():
    code = (
        "import sys\n"
        "from amem_integrations.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = ['numpy', 'pydantic', 'qdrant_edge', 'qdrant_client', 'torch']\n"
        "    heavy += [f'amem_integrations.{n}' for n in ('memory', 'stores')]\n"
        "    assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line in done.stdout for _, line in COMMANDS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_a_place_in_the_docs(amem, name):
    help_ = amem(name, "--help").stdout
    assert help_.startswith("Usage: amem ")
    assert re.search(rf"`{name}`", PAGE)


@pytest.mark.parametrize("name", COMMANDS)
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


def test_without_typer_the_command_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("amem_integrations.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(cli, "app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"amem-integrations\[cli\]"):
        cli.main()
