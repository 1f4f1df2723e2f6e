"""A memory on the command line, empty or with a dialogue in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_kit import DIALOGUE, Amem, add_wedding
from support.processes import copy_folder


@pytest.fixture
def amem(tmp_path: Path) -> Amem:
    return Amem(tmp_path / "memory")


@pytest.fixture(scope="session")
def dialogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a memory that holds the dialogue of the examples."""
    amem = Amem(tmp_path_factory.mktemp("dialogue") / "memory")
    assert amem("import", DIALOGUE).exit_code == 0
    return amem.folder


@pytest.fixture
def talk(amem: Amem, dialogue: Path) -> Amem:
    """A memory that holds the dialogue of the examples."""
    copy_folder(dialogue, amem.folder)
    return amem


@pytest.fixture
def wedding(amem: Amem) -> Amem:
    """A memory of two notes, of which the second is linked to the first and evolved it."""
    add_wedding(amem)
    return amem
