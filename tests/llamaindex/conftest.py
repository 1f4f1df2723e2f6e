from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from llamaindex_fakes import open_memory
from support.ports import Silent

HERE = Path(__file__).parent

OF_THE_FRAMEWORK = (
    # Workflows look at every attribute of an agent, the deprecated ones too.
    "ignore::pydantic.warnings.PydanticDeprecationWarning",
    # `ReActAgent` asks its context whether it is running.
    "ignore:is_running called from within a step:DeprecationWarning",
    # A synchronous call looks for a loop, of which Python 3.12 and later warn.
    "ignore:There is no current event loop:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for warning in OF_THE_FRAMEWORK:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """Have the process live in another time zone than UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def memory() -> Iterator[Silent]:
    with open_memory() as memory:
        yield memory
