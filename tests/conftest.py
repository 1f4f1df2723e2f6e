"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

# Before anything imports a library that would ask a model hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The workers of a run share the cores: more threads for a product of matrices, or for a plot of a few points,
# wait for each other, and take twice the CPU and four times the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support import models
from support.openai_server import openai_server

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder

__all__ = ["openai_server"]

SHM = Path("/dev/shm")
# Tests with one of these marks are skipped where the package is not installed.
ELSEWHERE = {"torch": "sentence_transformers", "web": "fastapi"}
# A file is run by one worker as a whole: those that take long come first, so that no worker waits at the end.
LONG = """
locomo protocol examples langgraph_crashes kills folder workers processes follow_ups first_hit graph upkeep currency
memory_machine
"""


# The same cases in every run, and no limit of time, which a busy machine would break. With a number of examples, tests of
# any value look for new cases. Their fixtures may be shared by all cases.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize="AMEM_EXAMPLES" not in os.environ,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("suite")


def pytest_configure() -> None:
    """Put temporary folders into memory: a memory's indexes take dozens of fsyncs, and a kill spares both."""
    # What is imported while tests are collected stays: to look through it for garbage takes a third of that time.
    gc.disable()
    roomy = os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > 4 * 2**30
    if roomy and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = str(SHM)  # also for the processes that tests start
        tempfile.tempdir = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort long files first; with `AMEM_TEST_STORE` (see `support.other_store`) run what it can, with a network."""
    places = {f"test_{name}.py": place for place, name in enumerate(LONG.split())}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    for mark, package in ELSEWHERE.items():
        if find_spec(package) is None:
            skip = pytest.mark.skip(reason=f"has an environment of its own: make test-{mark}")
            for item in items:
                if item.get_closest_marker(mark):
                    item.add_marker(skip)
    for item in items if os.environ.get("AMEM_TEST_STORE") else ():
        item.add_marker(pytest.mark.enable_socket)


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection of garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def other_store() -> Iterator[None]:
    """Let the tests that use ":memory:" run on a server, if one is chosen."""
    if not os.environ.get("AMEM_TEST_STORE"):
        yield
        return
    from support.other_store import instead_of_memory  # noqa: PLC0415 - it takes time

    with instead_of_memory():
        yield


@pytest.fixture(scope="session")
def minilm():
    """The default embedder, loaded once."""
    from amem_integrations import MiniLmEmbedder  # noqa: PLC0415 - of an extra

    return MiniLmEmbedder()


@pytest.fixture
def memory():
    """A memory without a language model; `":memory:"` is a folder of the same engine, which goes when it is closed."""
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as opened:
        yield opened


@pytest.fixture
def open_memory():
    """Opens memories, by default in memory, that are closed after the test; the gate lets HashEmbedder's rough cosines pass."""
    made = []

    def open_(model=None, embedder=None, **settings):
        made.append(models.opened(model=model, embedder=embedder, **settings))
        return made[-1]

    yield open_
    for memory in made:
        memory.close()
