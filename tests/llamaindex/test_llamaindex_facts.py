"""`remember=`: turns, facts beside them, or facts in their place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.memory import Memory
from llamaindex_fakes import ANN, annotated, assistant, user

from amem_integrations import AgenticMemory, ConfigurationError, ModelRequest
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory, AMemMemoryBlock

MOVED = "Ann moved to Oslo in May 2023."


def learn(request: ModelRequest) -> dict[str, Any]:
    """Learn where Ann lives, if facts are wanted of a turn that says so."""
    said = {note["alias"]: note["content"] for note in request.inputs["notes"]}
    wanted = request.inputs.get("facts_of", ())
    facts = [{"f": MOVED, "of": [alias]} for alias in wanted if "I moved to Oslo" in said[alias]]
    return {**annotated(request), **({"facts": facts} if request.task == "construct" else {})}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(learn)


@pytest.fixture
def memory(model: ScriptedModel) -> Iterator[AgenticMemory]:
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as opened:
        yield opened


def by_memory(memory: AgenticMemory, **options: Any) -> Any:
    made = AMemMemory.from_defaults(memory=memory, user_id="ann", **options)
    return lambda text: made.put_messages([user(text), assistant("Nice.")])


def by_block(memory: AgenticMemory, **options: Any) -> Any:
    block = AMemMemoryBlock(memory, ANN, **options)
    chat = Memory.from_defaults(memory_blocks=[block])

    def say(text: str) -> None:
        chat.put_messages([user(text), assistant("Nice.")])
        block.flush_from(chat)

    return say


DOORS = pytest.mark.parametrize("door", [by_memory, by_block])


def contents(memory: AgenticMemory, kind: Any) -> list[str]:
    return [note.content for note in memory.get_all(namespace=ANN, where={"kind": kind})]


@DOORS
def test_turns_are_what_is_remembered_by_default(
    memory: AgenticMemory, model: ScriptedModel, door: Any
) -> None:
    door(memory)("I moved to Oslo.")
    assert contents(memory, "fact") == []
    assert not any("remember" in note.metadata for note in memory.get_all(namespace=ANN))
    assert all("facts" not in request.system for request in model.asked("construct"))


@DOORS
@pytest.mark.parametrize("remember", ["facts", "facts_only"])
def test_facts_are_stored_beside_their_turns_by_the_same_call(
    memory: AgenticMemory, model: ScriptedModel, door: Any, remember: str
) -> None:
    door(memory, remember=remember)("I moved to Oslo.")
    assert contents(memory, {"$ne": "fact"}) == ["I moved to Oslo.", "Nice."]
    assert contents(memory, "fact") == [MOVED]
    assert len(model.asked("construct")) == 1
    later = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="later")
    shown = str(later.get(input="Who moved to Oslo?")[0].content)
    assert MOVED in shown
    assert ("I moved to Oslo." in shown) == (remember == "facts")


def test_facts_written_in_the_background_are_there_when_it_has_caught_up(
    memory: AgenticMemory,
) -> None:
    made = AMemMemory.from_defaults(
        memory=memory, user_id="ann", remember="facts", evolve="background"
    )
    made.put_messages([user("I moved to Oslo."), assistant("Nice.")])
    made.flush(timeout=20)
    assert contents(memory, "fact") == [MOVED]


@DOORS
def test_facts_need_a_language_model(door: Any) -> None:
    with AgenticMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        with pytest.raises(ConfigurationError, match="needs a language model"):
            door(memory, remember="facts")
        door(memory, remember="turns")


@DOORS
def test_another_word_is_refused(memory: AgenticMemory, door: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be one of"):
        door(memory, remember="everything")
