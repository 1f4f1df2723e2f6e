"""The synchronous and the asynchronous face of the memory are the same."""

from __future__ import annotations

import inspect

import pytest

from amem_integrations import AgenticMemory

RUN_TIME = [
    "add", "add_many", "add_messages", "construct", "propose", "commit", "evolve",
    "search", "recall", "context", "get", "get_all", "profile", "update", "supersede", "delete", "fill",
    "work", "recall_turn", "search_turn", "remember_turn", "remember_fact", "evolve_turn",
]  # fmt: skip

IN_THREADS = ["compact", "optimize", "flush"]  # upkeep, whose twins say so


@pytest.mark.parametrize("name", [*RUN_TIME, *IN_THREADS])
def test_a_method_and_its_twin_take_and_return_the_same(name):
    method, twin = getattr(AgenticMemory, name), getattr(AgenticMemory, f"a{name}")
    assert inspect.signature(method) == inspect.signature(twin)
    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(method)


@pytest.mark.parametrize("name", RUN_TIME)
def test_a_method_and_its_twin_have_one_documentation(name):
    method, twin = getattr(AgenticMemory, name), getattr(AgenticMemory, f"a{name}")
    assert inspect.getdoc(method) == inspect.getdoc(twin) != ""
    assert (method.__name__, twin.__name__) == (name, f"a{name}")


def test_there_is_no_twin_without_a_method():
    twins = {
        name
        for name, value in vars(AgenticMemory).items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_")
    }
    public = {
        name
        for name, value in inspect.getmembers(AgenticMemory, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    # `aclose` also ends what the running loop holds.
    assert twins <= public == {*(f"a{name}" for name in (*RUN_TIME, *IN_THREADS)), "aclose"}
