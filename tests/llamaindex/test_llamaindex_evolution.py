"""Notes are linked and evolved in the caller's time, in a thread, or not at all."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llamaindex_fakes import ANN, BOB, annotated, assistant, open_memory, user

from amem_integrations import AgenticMemory, ConfigurationError, ModelRequest, ModelUnavailableError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory, AMemMemoryBlock, AMemToolSpec


class Gated:
    """A script that waits at a gate, and counts who is waiting."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, request: ModelRequest) -> Any:
        self.entered.set()
        assert self.gate.wait(10)
        return annotated(request)


@pytest.fixture
def gated() -> Iterator[Gated]:
    gated = Gated()
    yield gated
    gated.gate.set()


def states(memory: AgenticMemory, namespace: tuple[str, ...] = ANN) -> list[str]:
    return [note.state for note in memory.get_all(namespace=namespace)]


def turn(chat_memory: AMemMemory, said: str = "My dog is called Rex.") -> None:
    chat_memory.put(user(said))
    chat_memory.put(assistant("A fine name."))


def background(memory: AgenticMemory, user_id: str = "ann", **options: Any) -> AMemMemory:
    return AMemMemory.from_defaults(memory=memory, user_id=user_id, evolve="background", **options)


def test_in_the_background_a_slow_model_keeps_nobody_waiting(gated: Gated) -> None:
    memory, _ = open_memory(ScriptedModel(gated))
    chat_memory = background(memory)

    turn(chat_memory)
    assert gated.entered.wait(10)
    assert set(states(memory)) == {"pending"}

    gated.gate.set()
    chat_memory.block.flush(timeout=10)
    assert set(states(memory)) == {"done"}


@pytest.mark.parametrize("evolve", ["inline", "background", "worker", "off"])
def test_what_was_written_can_be_read_at_once(gated: Gated, evolve: str) -> None:
    memory, _ = open_memory(ScriptedModel(annotated if evolve == "inline" else gated))
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=evolve)

    turn(chat_memory)

    again = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="off")
    assert "Rex" in (again.get(input="What is my dog called?")[0].content or "")


def test_a_worker_evolves_what_the_chat_only_stored() -> None:
    memory, _ = open_memory(ScriptedModel(annotated))
    turn(AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="worker"))
    AMemToolSpec(memory, ANN, evolve="worker").remember("Rex likes the sea.")
    assert set(states(memory)) == {"pending"}
    assert memory.work(once=True).done == 3
    assert set(states(memory)) == {"done"}


def test_turned_off_it_leaves_notes_to_a_later_evolve() -> None:
    memory, _ = open_memory()
    turn(AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="off"))
    assert set(states(memory)) == {"pending"}

    memory.evolve(namespace=ANN)

    assert set(states(memory)) == {"done"}


def test_what_an_earlier_process_left_is_picked_up_at_the_start() -> None:
    memory, _ = open_memory()
    memory.add("My dog is called Rex.", namespace=ANN, evolve=False)

    background(memory).block.flush(timeout=10)

    assert states(memory) == ["done"]


def test_turns_that_wait_are_finished_together(gated: Gated) -> None:
    memory, _ = open_memory(ScriptedModel(gated))
    chat_memory = background(memory, session_id="s")
    turn(chat_memory)
    assert gated.entered.wait(10)
    for n in range(3):
        turn(chat_memory, f"I planted tree {n}.")

    gated.gate.set()
    chat_memory.block.flush(timeout=10)

    assert set(states(memory)) == {"done"}
    assert memory.stats()["usage"]["construct"]["calls"] == 2


def test_closing_finishes_what_is_under_way_and_leaves_the_rest(gated: Gated) -> None:
    memory, _ = open_memory(ScriptedModel(gated))
    chat_memory = background(memory)
    turn(chat_memory)
    assert gated.entered.wait(10)
    turn(chat_memory, "I planted a tree.")

    threading.Timer(0.1, gated.gate.set).start()
    chat_memory.block.close()

    assert states(memory) == ["done", "done", "pending", "pending"]
    turn(chat_memory, "I like tea.")
    chat_memory.block.close()
    background(memory).block.flush(timeout=10)
    assert set(states(memory)) == {"done"}


def test_one_user_leaving_does_not_stop_the_others() -> None:
    memory, _ = open_memory()
    one, other = background(memory), background(memory, "bob")
    one.block.close()

    turn(other)
    other.block.flush(timeout=10)

    assert set(states(memory, BOB)) == {"done"}


def test_all_users_of_a_memory_share_one_thread() -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("amem-")}

    def counted(request: ModelRequest) -> Any:
        at_once.append(len(threads() - before))
        return annotated(request)

    at_once: list[int] = []
    before = threads()
    memory, _ = open_memory(ScriptedModel(counted))

    for n in range(8):
        turn(background(memory, f"user-{n}"))
    background(memory).block.flush(timeout=10)

    assert set(at_once) == {1}


def test_a_long_backlog_is_worked_off_a_few_notes_at_a_time() -> None:
    memory, _ = open_memory(model := ScriptedModel(annotated))
    memory.add_many([f"fact {n}" for n in range(30)], namespace=ANN, evolve=False)

    background(memory).block.flush(timeout=10)

    assert set(states(memory)) == {"done"}
    shown = [len(r.inputs["notes"]) for r in model.requests if r.task == "construct"]
    assert max(shown) <= 8


def test_waiting_for_the_background_has_a_limit(gated: Gated) -> None:
    memory, _ = open_memory(ScriptedModel(gated))
    chat_memory = background(memory)
    turn(chat_memory)

    with pytest.raises(TimeoutError, match=r"still being evolved after 0\.05 seconds"):
        chat_memory.block.flush(timeout=0.05)


async def test_waiting_leaves_the_loop_free() -> None:
    memory, _ = open_memory()
    chat_memory = background(memory)
    await chat_memory.aput(user("My dog is called Rex."))
    await chat_memory.aput(assistant("A fine name."))

    await chat_memory.block.aflush(timeout=10)

    assert set(states(memory)) == {"done"}


def test_a_model_that_is_away_is_counted_and_its_notes_wait() -> None:
    memory, _ = open_memory(ScriptedModel(lambda request: ModelUnavailableError("away")))
    chat_memory = background(memory)

    turn(chat_memory)
    chat_memory.block.flush(timeout=10)

    assert chat_memory.block.failures["evolve"] >= 1
    assert set(states(memory)) == {"pending"}


@pytest.mark.parametrize("evolve", ["inline", "background"])
def test_a_mistake_that_shows_after_the_answer_is_logged_and_counted_and_raises_nothing(
    evolve: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory, _ = open_memory(ScriptedModel(lambda request: ConfigurationError("a wrong key")))
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve=evolve)

    turn(chat_memory)
    chat_memory.block.flush(timeout=10)

    assert chat_memory.block.failures["evolve"] >= 1
    assert "a wrong key" in caplog.text
    assert states(memory) == ["pending", "pending"]


@pytest.mark.parametrize("evolve", ["inline", "background"])
def test_what_a_passing_outage_left_is_finished_by_the_turns_after_it(evolve: str) -> None:
    answers: list[Any] = [ModelUnavailableError("away")] * 4
    memory, _ = open_memory(ScriptedModel(lambda r: answers.pop() if answers else annotated(r)))
    chat_memory = AMemMemory.from_defaults(
        memory=memory, user_id="ann", session_id="s", evolve=evolve
    )
    turn(chat_memory)
    chat_memory.block.flush(timeout=10)
    assert "pending" in states(memory)
    answers.clear()

    turn(chat_memory, "I planted a tree.")
    chat_memory.block.flush(timeout=10)

    assert states(memory) == ["done"] * 4


def test_what_another_object_left_is_finished_a_bounded_number_at_a_time() -> None:
    memory, _ = open_memory()
    memory.add_many([f"fact {n}" for n in range(20)], namespace=ANN, evolve=False)
    for expected in (12, 4, 0):
        turn(AMemMemory.from_defaults(memory=memory, user_id="ann"), f"Turn {expected}.")
        assert states(memory).count("pending") == expected


def test_a_message_put_by_one_object_and_answered_through_another_is_finished() -> None:
    memory, _ = open_memory()
    AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="s").put(user("Is it late?"))

    again = AMemMemory.from_defaults(memory=memory, user_id="ann", session_id="s")
    again.put(assistant("It is nine."))

    assert states(memory) == ["done", "done"]


@pytest.mark.parametrize("order", [["memory"], ["chat", "memory"], ["memory", "chat"]])
def test_closing_in_any_order_stops_the_worker_within_a_second_each_and_is_quiet(
    gated: Gated, caplog: pytest.LogCaptureFixture, order: list[str]
) -> None:
    memory, _ = open_memory(ScriptedModel(gated))
    chat_memory = background(memory)
    turn(chat_memory)
    assert gated.entered.wait(10)
    start = time.monotonic()
    for closed in order:
        {"chat": chat_memory, "memory": memory}[closed].close()

    assert time.monotonic() - start < 1.8 * len(order)
    workers = [thread for thread in threading.enumerate() if thread.name == "amem-background"]
    assert workers
    gated.gate.set()
    for worker in workers:
        worker.join(10)
    assert [record for record in caplog.records if record.name == "llamaindex_amem"] == []
    assert [record for record in caplog.records if record.exc_info] == []
    assert chat_memory.failures == {}


LEAVING = """
import atexit, sys, time
atexit.register(lambda: print(time.time()))  # the last to be called
from llama_index.core.base.llms.types import ChatMessage
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory

def slowly(request):
    time.sleep(float(sys.argv[2]))
    return {"notes": [{"id": note["alias"], "context": "said"} for note in request.inputs["notes"]]}

memory = AgenticMemory.open(sys.argv[1], model=ScriptedModel(slowly), embedder=HashEmbedder())
memory.add_many([f"fact {n}" for n in range(40)], namespace=("ann",), evolve=False)
chat_memory = AMemMemory.from_defaults(memory=memory, user_id="ann", evolve="background")
chat_memory.put_messages(
    [ChatMessage(role="user", content="Hello"), ChatMessage(role="assistant", content="Hi")]
)
time.sleep(0.3)
print(time.time())
"""


@pytest.mark.parametrize("takes", ["20", "0.05"])
def test_a_process_ends_in_time_without_a_traceback_and_the_next_one_goes_on(
    tmp_path: Path, takes: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(tmp_path), takes],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    started, ended = map(float, done.stdout.split())
    assert ended - started < 5  # a second for the step, and some for a busy machine
    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        assert "pending" in states(memory)
        background(memory).block.flush(timeout=30)
        assert set(states(memory)) == {"done"}


async def test_both_ways_give_the_same_notes() -> None:
    tags = []
    for evolve in ("inline", "background"):
        memory, _ = open_memory()
        block = AMemMemoryBlock(memory, ANN, evolve=evolve)
        await block.aput([user("My dog is called Rex."), assistant("A fine name.")])
        await block.aflush(timeout=10)
        tags.append([(n.content, n.state, n.tags) for n in memory.get_all(namespace=ANN)])

    assert tags[0] == tags[1]
