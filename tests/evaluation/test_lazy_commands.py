"""`amem eval` is loaded when it is called, and by no other command."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")


@pytest.mark.parametrize(("command", "loaded"), [("search", False), ("eval", True)])
def test_the_evaluation_is_imported_by_its_own_commands_only(command: str, loaded: bool) -> None:
    code = (
        "import sys\n"
        "from amem_integrations.cli.app import app\n"
        f"app([{command!r}, '--help'], standalone_mode=False)\n"
        "print('amem_integrations.evaluation' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == str(loaded)
