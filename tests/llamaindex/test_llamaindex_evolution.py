"""Notes are linked and evolved by the memory's background worker, by another worker, or not at all."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from llamaindex_fakes import ANN, annotated, assistant, open_memory, user

from amem_integrations import AgenticMemory, ConfigurationError, ModelRequest, ModelUnavailableError
from amem_integrations.testing import ScriptedModel
from llamaindex_amem import AMemMemory, AMemToolSpec


class Gated:
    """A script that waits at a gate, and tells when somebody waits there."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, request: ModelRequest) -> Any:
        self.entered.set()
        assert self.gate.wait(10)
        return annotated(request)


@pytest.fixture
def gated():
    gated = Gated()
    yield gated
    gated.gate.set()


def states(memory: AgenticMemory, namespace: tuple[str, ...] = ANN) -> list[str]:
    return [note.state for note in memory.get_all(namespace=namespace)]


def turn(chat_memory: AMemMemory, said: str = "My dog is called Rex.") -> None:
    chat_memory.put(user(said))
    chat_memory.put(assistant("A fine name."))


def test_in_the_background_a_slow_model_keeps_nobody_waiting(gated):
    memory, _ = open_memory(ScriptedModel(gated))

    turn(AMemMemory.from_defaults(memory=memory, user_id="ann"))
    assert gated.entered.wait(10)
    assert set(states(memory)) == {"pending"}
    again = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=False)
    assert "Rex" in (again.get(input="What is my dog called?")[0].content or "")

    gated.gate.set()
    memory.flush(timeout=10)
    assert set(states(memory)) == {"done"}


def test_turned_off_notes_are_left_to_a_later_evolve_or_a_worker():
    memory, _ = open_memory()
    turn(AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=False))
    AMemToolSpec(memory, ANN, evolve=False).remember("Rex likes the sea.")
    memory.flush(timeout=10)
    assert set(states(memory)) == {"pending"}

    assert memory.work(once=True).done == 3
    assert set(states(memory)) == {"done"}


def test_a_block_that_does_not_remember_only_recalls():
    memory, store = open_memory()
    memory.add("My dog is called Rex.", namespace=ANN)
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", remember=False)

    turn(chat_memory, "Where do I live?")

    assert len(states(memory)) == 1
    assert "Rex" in (chat_memory.get(input="What is my dog called?")[0].content or "")
    assert store.calls["insert_notes"] == 1


@pytest.mark.parametrize("error", [ModelUnavailableError("away"), ConfigurationError("a bad key")])
def test_a_model_that_is_away_or_refused_costs_no_answer_and_its_notes_wait(error, caplog):
    answers: list[Any] = [error] * 4
    memory, _ = open_memory(ScriptedModel(lambda r: answers.pop() if answers else annotated(r)))
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="s")

    turn(chat_memory)
    if isinstance(error, ConfigurationError):
        with pytest.raises(ConfigurationError):
            memory.flush(timeout=10)
    memory.flush(timeout=10)
    assert str(error) in caplog.text
    assert "pending" in states(memory)
    answers.clear()

    turn(chat_memory, "I planted a tree.")
    memory.flush(timeout=10)
    assert states(memory) == ["done"] * 4
