"""Nothing of Python's own blocks the event loop: every asynchronous door, over every store, from the first call on."""

from __future__ import annotations

import asyncio
import time

import pytest
from blockbuster import blockbuster_ctx
from support import models
from support.ports import cancel

from amem_integrations import NoteInput

ANN = ("ann",)
pytestmark = pytest.mark.enable_socket


@pytest.mark.parametrize("kind", ["folder", ":memory:", "server"])
async def test_the_twins_do_what_the_methods_do_and_do_not_block_the_loop(fake, tmp_path, kind):
    model = models.model(models.update_first("It continues."))
    location = {"folder": tmp_path / "memory", "server": fake.url}.get(kind, kind)
    memory = await asyncio.to_thread(models.opened, location, model)
    closed = []
    memory.on_close(lambda: closed.append(True))
    with blockbuster_ctx():
        async with memory:
            first = await memory.aadd("one", namespace=ANN, thread="t")
            item = NoteInput(content="two", thread="t")
            (second,) = await memory.aadd_many([item], namespace=ANN, evolve=False)
            made = await memory.aconstruct([second.id], namespace=ANN)
            assert made["constructed"] == [second.id]
            plan = await memory.apropose([second.id], namespace=ANN)
            report = await memory.acommit(plan, namespace=ANN)
            assert (report.done, report.links, report.evolved) == ((second.id,), 1, (first.id,))
            assert (await memory.asearch("two", namespace=ANN))[0].note.id == second.id
            assert "two" in await memory.acontext("two", namespace=ANN)
            await memory.asupersede(first.id, second.id, namespace=ANN)
            await memory.aupdate(second.id, namespace=ANN, content="I live in Bergen. " * 99)
            changed = await memory.aget(second.id, namespace=ANN)
            assert (changed.state, changed.content[:9]) == ("pending", "I live in")
            assert (await memory.aevolve()).done == (second.id,)
            await memory.adelete(second.id, namespace=ANN)
            assert [n.id for n in await memory.aget_all(namespace=ANN)] == [first.id]
    assert closed == [True]


@pytest.mark.parametrize("times", [1, 100])
async def test_a_call_that_is_cancelled_writes_nothing_later_and_the_next_one_finishes_it(
    fake, monkeypatch, times
):
    def slow(*given):
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.2)
        swap(*given)

    model, loop = models.model(models.update_first("It continues.")), asyncio.get_running_loop()
    begun = asyncio.Event()
    async with await asyncio.to_thread(models.opened, fake.url, model) as memory:
        first = await memory.aadd("one", namespace=ANN, thread="t")
        second = await memory.aadd("two", namespace=ANN, thread="t")
        store, swap = memory._runtime.store, memory._runtime.store.swap_notes
        monkeypatch.setattr(store, "swap_notes", slow)
        task = asyncio.create_task(memory.aupdate(second.id, namespace=ANN, content="three"))
        await cancel(task, begun, times)
        monkeypatch.undo()
        assert (await memory.aget(second.id, namespace=ANN)).content == "three"
        assert len((await memory.aget(first.id, namespace=ANN)).contexts) == 2
        await memory.aadd("four", namespace=ANN, evolve=False)
        assert len((await memory.aget(first.id, namespace=ANN)).contexts) == 1
        assert store.unfinished() == []


@pytest.mark.parametrize("times", [1, 100])
async def test_a_memory_is_closed_when_its_task_has_ended_however_often_it_is_cancelled(
    tmp_path, times
):
    async def use():
        async with await asyncio.to_thread(models.opened, tmp_path) as memory:
            memory.on_close(lambda: time.sleep(0.2))
            begun.set()
            await asyncio.Future()  # for ever

    begun = asyncio.Event()
    await cancel(asyncio.create_task(use()), begun, times)
    (await asyncio.to_thread(models.opened, tmp_path)).close()
