"""A memory on the command line, empty or with a dialogue in it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("typer")

from cli_kit import DIALOGUE, Amem


@pytest.fixture
def amem(tmp_path: Path) -> Amem:
    return Amem(tmp_path / "memory")


@pytest.fixture
def talk(amem: Amem) -> Amem:
    """A memory that holds the dialogue of the examples."""
    assert amem("import", DIALOGUE).exit_code == 0
    amem.names.clear()
    return amem


@pytest.fixture
def wedding(amem: Amem) -> Amem:
    """A memory of two notes, of which the second is linked to the first and evolved it."""
    said = "My sister Lena's wedding in Porto is on {} June."
    amem("add", said.format(14), "--key", "first", "--thread", "March", "--speaker", "Mira")
    amem("add", said.format(21), "--key", "second", "--thread", "May", "--speaker", "Mira")
    return amem
