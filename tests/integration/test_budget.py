"""What models cost is kept in the store, and a limit of the day stops evolution before it is passed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest
from support import models
from support.ports import WatchedStore, cancel

from amem_integrations import (
    AgenticMemory,
    Completion,
    LedgerEntry,
    MemoryConfig,
    NoteInput,
    Plan,
    errors,
)
from amem_integrations.ports import RecordQuery
from amem_integrations.stores import FolderStore
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN, BOB = ("ann",), ("bob",)
WRITES = ("insert_notes", "swap_notes", "insert_records", "swap_records")
FACTS = [f"I have bought {number} apples in Oslo" for number in range(6)]
OSLO = ("I moved to Oslo", "I like it in Oslo")
EVENING = datetime(2031, 5, 8, 23, 59, 50, tzinfo=UTC)
TODAY, TOMORROW = date(2031, 5, 8), date(2031, 5, 9)


@pytest.fixture(autouse=True)
def evening(clock):
    """Let no day end by itself: the clock stands ten seconds before midnight."""
    clock(EVENING)


def opened(location=":memory:", model=None, **settings):
    model = model or models.model(models.link_to_first)
    return models.opened(location, model, HashEmbedder(256), **settings)


def over_one_store(model, **settings):
    store = WatchedStore(FolderStore(":memory:", dimensions=256, embedder="hash"))
    more = (HashEmbedder(256), model, MemoryConfig(**settings))
    return store, partial(AgenticMemory._over, store, *more)


def costing(tokens_in, tokens_out, name="paid"):
    """A model each of whose answers costs the same."""
    scripted = models.model(models.link_to_first)

    def answer(request):
        text = scripted.generate(request).text
        return Completion(text=text, input_tokens=tokens_in, output_tokens=tokens_out)

    return ScriptedModel(answer, name=name)


def calls_in(memory):
    return sum(entry.calls for entry in memory.usage())


def states(memory, namespace=ANN):
    return memory.stats(namespace=namespace)["states"]


# The ledger


def test_the_ledger_says_what_was_spent_by_day_namespace_task_and_model(tmp_path, clock):
    with opened(tmp_path, costing(100, 10)) as memory:
        memory.add(OSLO[0], namespace=BOB, thread="t")
        asyncio.run(memory.aadd(OSLO[1], namespace=BOB, thread="t"))
        clock(EVENING + timedelta(minutes=1))
        memory.add("I moved to Rome", namespace=ANN)
        common = {"model": "paid", "input_tokens": 200, "output_tokens": 20, "calls": 2}
        one = {"model": "paid", "input_tokens": 100, "output_tokens": 10, "calls": 1}
        entries = memory.usage()
        assert entries == [
            LedgerEntry(day=TODAY, namespace=BOB, task="construct", **common),
            LedgerEntry(day=TODAY, namespace=BOB, task="evolve", **one),
            LedgerEntry(day=TOMORROW, namespace=ANN, task="construct", **one),
        ]
        assert [entry.namespace for entry in memory.usage(days=1)] == [ANN]
        assert len(memory.usage(days=2)) == len(memory.usage(days=10**9)) == 3
        assert {entry.task for entry in memory.usage(namespace=ANN)} == {"construct"}
        assert memory.stats()["usage"]["total"]["calls"] == 4
        spent = {"calls": 3, "input_tokens": 300, "output_tokens": 30}
        assert memory.stats(namespace=BOB)["cost"] == {**spent, "tokens_per_note": 165.0}
        assert memory.stats(namespace=("eve",))["cost"]["tokens_per_note"] == 0
        for days in (0, -1, True, 1.5, "1"):
            with pytest.raises(errors.InvalidInputError, match="days"):
                memory.usage(days=days)
    with opened(tmp_path, costing(7, 1, "second")) as memory:
        memory.add("I moved to Rome too", namespace=ANN)
        assert memory.stats()["usage"]["total"]["calls"] == 2
        assert [e for e in memory.usage() if e.model == "paid"] == entries
        assert sum(e.input_tokens for e in memory.usage() if e.model == "second") == 14


DOWN = errors.ModelUnavailableError("it is down")
AWAY = {"unavailable": 1}
FAILURES = (
    (["no JSON"] * 2, "failed", {"calls": 2, "rejected_replies": 2}),
    (["no JSON", DOWN], "pending", {"calls": 1, "rejected_replies": 1, **AWAY}),
    ([DOWN], "pending", AWAY),
    ([RuntimeError("it broke")], "pending", AWAY),
    ([errors.ConfigurationError("check the key")], "pending", AWAY),
    ([errors.ModelReplyError("too long")], "failed", {"refused": 1}),
)


def test_answers_that_cannot_be_used_cost_as_much_and_none_costs_nothing():
    for answers, state, counted in FAILURES:
        with opened(model=ScriptedModel({"construct": answers}, name="poor")) as memory:
            with suppress(errors.ConfigurationError):
                memory.add(OSLO[0], namespace=ANN)
            assert calls_in(memory) == counted.get("calls", 0), answers
            assert states(memory) == {state: 1}, answers
            usage = memory.stats()["usage"]
            for counts in (usage["construct"], usage["total"], usage["models"]["poor"]):
                found = {key: n for key, n in counts.items() if "tokens" not in key}
                assert found == counted, answers


def test_a_model_is_counted_by_the_name_that_notes_and_history_have():
    class Nameless:
        def generate(self, request):
            return models.model().generate(request)

    known = {"gpt-x": costing(1, 1, "gpt-x"), "Nameless": Nameless(), "rules": None}
    for name, model in known.items():
        with models.opened(model=model) as memory:
            note = memory.add("I joined a choir", namespace=ANN)
            (change,) = memory.history(note.id, namespace=ANN)[1:2]
            assert (change.kind, change.by, note.contexts[0].model) == ("construct", name, name)
            usage = memory.stats()["usage"]
            assert usage["models"] == {name: usage["total"]}
            assert usage["models"][name]["calls"] == 1


def test_the_ledger_costs_no_further_write_and_holds_no_content():
    def writes(model):
        store, opening = over_one_store(model)
        with opening() as memory:
            for said in OSLO:
                memory.add(said, namespace=ANN, thread="t")
        return sum(store.calls.count(name) for name in WRITES)

    assert writes(models.model(models.link_to_first)) == writes(None)
    replies = {"construct": ["The password: no JSON", models.construct]}
    store, opening = over_one_store(ScriptedModel(replies))
    with opening() as memory:
        note = memory.add("The password is swordfish", namespace=ANN, speaker="Ann", key="pw")
        (call,) = store.find_records(ANN, RecordQuery(calls_only=True)).values()
        assert [one.task for one in call.cost] == ["construct", "construct"]
        for secret in ("swordfish", "password", "Ann", "pw", note.id):
            assert secret not in repr(call.cost)
        with pytest.raises(errors.NoteNotFoundError, match="there is no change"):
            memory.undo(call.id, namespace=ANN)
        assert [c.kind for c in memory.history(None, namespace=ANN)] == ["add", "construct"]
    store, opening = over_one_store(ScriptedModel({"construct": [DOWN]}))
    with opening() as memory:  # what was never answered leaves nothing
        memory.add(OSLO[0], namespace=ANN)
        assert store.find_records(ANN, RecordQuery(calls_only=True)) == {}


def test_the_calls_of_a_plan_are_written_once_with_its_commit(clock):
    with opened(model=costing(100, 10)) as memory:
        memory.add(OSLO[0], namespace=ANN, thread="t")
        note = memory.add(OSLO[1], namespace=ANN, thread="t", evolve=False)
        memory.construct([note.id], namespace=ANN)
        plan = memory.propose([note.id], namespace=ANN)
        assert "evolve" not in {entry.task for entry in memory.usage()}
        clock(EVENING + timedelta(minutes=1))
        for _ in range(2):
            memory.commit(Plan.from_dict(plan.to_dict()), namespace=ANN)
        evolved = [entry for entry in memory.usage() if entry.task == "evolve"]
        assert [(entry.day, entry.calls) for entry in evolved] == [(TODAY, 1)]


def test_what_was_spent_stays_when_notes_go_and_moves_with_the_whole_memory_only(tmp_path):
    one, every = tmp_path / "one.jsonl", tmp_path / "all.jsonl"
    with opened() as memory:
        note, other = memory.add_many(FACTS[:2], namespace=ANN)
        memory.undo(memory.history(note.id, namespace=ANN)[1].id, namespace=ANN)
        before = memory.usage(namespace=ANN)
        memory.export(one, namespace=ANN)
        memory.export(every)
        memory.delete(note.id, namespace=ANN)
        memory.delete(other.id, namespace=ANN)
        memory.clear(namespace=ANN)
        assert memory.usage(namespace=ANN) == memory.usage() == before != []
        assert memory.stats()["cost"]["calls"] == calls_in(memory)
        assert {change.kind for change in memory.history(None, namespace=ANN)} == {"delete"}
    assert "input_tokens" not in one.read_text()
    for file, costs, where in ((one, [], ANN), (every, before, None)):
        with opened() as memory:
            memory.import_(file, namespace=where)
            assert memory.usage() == costs


# The limit


@pytest.mark.parametrize("calls", ["joint", "paper"])
def test_no_call_is_made_that_would_go_over_the_limit(calls):
    script = {"construct": models.construct, "evolve": models.link_to_first}
    settings = {"batch_size": 1, "recent": 0, "calls": calls, "max_concurrency": 3}
    for limit in range(1, 8):
        model = ScriptedModel({**script, "link": {"links": []}, "revise": {"change": False}})
        with opened(model=model, daily_calls=limit, **settings) as memory:
            memory.add_many(FACTS, namespace=ANN)
            report = memory.evolve(namespace=ANN)
            assert len(model.requests) == calls_in(memory) == limit
            assert report.limited
            assert f"{limit} of its {limit} calls" in report.interrupted
            assert sum(states(memory).values()) == len(FACTS)
            assert "failed" not in states(memory)


def test_what_is_not_evolved_waits_is_found_and_is_no_error_however_errors_are_treated(caplog):
    with opened(daily_calls=1, on_model_error="raise") as memory:
        assert memory.stats(namespace=ANN)["stopped"] == []
        made = [memory.add(fact, namespace=ANN).state for fact in FACTS[:3]]
        assert made == ["done", "pending", "pending"]
        found = {hit.note.content for hit in memory.search("apples", namespace=ANN)}
        assert found == set(FACTS[:3])
        assert FACTS[1] in memory.context("apples", namespace=ANN)
        words = "namespace ('ann',) has spent 1 of its 1 calls"
        assert len([r for r in caplog.records if words in r.getMessage()]) == 1  # not at every add
        assert [text for text in memory.stats()["stopped"] if words in text]
        assert memory.stats(namespace=BOB)["stopped"] == []
        waiting, _ = memory.get_all(namespace=ANN, where={"state": "pending"})
        for done in (memory.evolve(), memory.evolve_turn(namespace=ANN, ids=[waiting.id])):
            assert done.limited
            assert words in done.interrupted
    with models.opened(daily_calls=1, daily_tokens=1) as memory:  # rules cost nothing
        memory.add_many(FACTS, namespace=ANN)
        assert states(memory) == {"done": 6}
        assert (memory.stats()["stopped"], memory.usage()) == ([], [])


def test_the_next_day_goes_on_or_with_a_higher_limit_the_same(clock, tmp_path):
    with opened(tmp_path, daily_calls=1) as memory:
        memory.add_many(FACTS, namespace=ANN, evolve=True)
        assert states(memory) == {"constructed": 6}
    with opened(tmp_path, daily_calls=1) as memory:
        clock(EVENING + timedelta(seconds=9))
        assert memory.evolve().limited  # opened again it is the same day
        clock(EVENING + timedelta(seconds=10))
        assert memory.stats()["stopped"] == []
        report = memory.evolve()
        assert (len(report.done), report.interrupted, report.limited) == (6, None, False)
        memory.add(OSLO[0], namespace=ANN, thread="t")
        assert memory.evolve().limited
    with opened(tmp_path, daily_calls=4) as memory:
        assert memory.evolve().interrupted is None
        assert states(memory) == {"done": 7}


def test_what_other_processes_spend_counts():
    model = models.model(models.link_to_first)
    _, opening = over_one_store(model, daily_calls=2)
    one, other = opening(), opening()
    one.add(FACTS[0], namespace=ANN)
    other.add(FACTS[1], namespace=ANN)
    assert one.add(FACTS[2], namespace=ANN).state == "pending"
    assert other.evolve().limited
    assert len(model.requests) == 2


def test_each_namespace_has_its_own_limit_but_a_model_that_is_down_stops_all():
    with opened(daily_calls=2) as memory:
        for space in (ANN, BOB):
            memory.add_many(FACTS[:2], namespace=space, evolve=False)
        memory.add_many(FACTS[2:], namespace=ANN)  # spends what ann has
        report = memory.evolve()
        assert (report.limited, states(memory, BOB)) == (True, {"done": 2})
        assert "('ann',)" in report.interrupted
    model = ScriptedModel(lambda _request: DOWN)
    with opened(model=model, daily_calls=9) as memory:
        for space in (ANN, BOB):
            memory.add(FACTS[0], namespace=space, evolve=False)
        report = memory.evolve()
        assert (report.limited, len(model.requests)) == (False, 1)
        assert "it is down" in report.interrupted


def test_calls_without_an_answer_do_not_count_and_leave_room_for_another():
    script = {"construct": [DOWN, DOWN, DOWN, models.construct], "evolve": models.nothing}
    with opened(model=ScriptedModel(script), daily_calls=1) as memory:
        memory.add(FACTS[0], namespace=ANN)
        for _ in range(3):
            memory.evolve()
        assert states(memory) == {"done": 1}

    def down(_request):
        time.sleep(0.3)  # so long it counts, and another is refused
        return DOWN

    model = ScriptedModel({"construct": [down, models.construct], "evolve": models.nothing})
    with opened(model=model, daily_calls=1, batch_size=1, max_concurrency=2) as memory:
        memory.add_many(FACTS[:2], namespace=ANN)
        assert memory.stats()["stopped"] == []
        assert len(memory.evolve().constructed) == 1


def test_a_call_under_way_counts_whatever_is_read_of_the_ledger_meanwhile():
    def busy(request):
        if len(memory.get_all(namespace=ANN)) == 1:
            memory.stats()
            assert memory.add(FACTS[1], namespace=ANN).state == "pending"
        return models.construct(request)

    for limit in ({"daily_calls": 1}, {"daily_tokens": 600}):  # there is room for one call
        model = models.model(construct=busy)
        with opened(model=model, **limit) as memory:
            memory.add(FACTS[0], namespace=ANN)
            assert len(model.requests) == 1, limit


def test_a_smaller_call_is_made_where_a_larger_one_has_no_room():
    with opened(model=costing(0, 0), daily_tokens=1000, link=False) as memory:
        memory.add("word " * 800, namespace=ANN)
        assert "tokens" in memory.stats(namespace=ANN)["stopped"][0]
        assert memory.add(FACTS[0], namespace=ANN).state == "done"
        (entry,) = memory.usage()  # an endpoint that tells no tokens: they are estimated
        assert entry.input_tokens > 100
        assert entry.output_tokens > 10


def test_a_call_whose_prompt_would_go_over_the_tokens_is_not_made():
    with opened(model=costing(0, 0)) as memory:
        memory.add(FACTS[0], namespace=ANN)
        (entry,) = memory.usage()
        asked, once = entry.input_tokens, entry.input_tokens + entry.output_tokens
    for limit, calls in ((asked - 1, 0), (once, 1), (once + asked - 1, 1), (once + asked, 2)):
        model = costing(0, 0)
        with opened(model=model, daily_tokens=limit, link=False) as memory:
            for fact in FACTS[:3]:
                memory.add(fact, namespace=ANN)
            report = memory.evolve()
            assert len(model.requests) == calls
            assert f"of its {limit} tokens" in report.interrupted
            assert memory.stats()["stopped"]
    # Tokens of replies count too, and an answer as much as it has cost, also where that is little.
    for (told, given), calls in (((10, 990), 2), ((1, 1), len(FACTS))):
        model = costing(told, given)
        with opened(model=model, daily_tokens=2000, link=False) as memory:
            for fact in FACTS:
                memory.add(fact, namespace=ANN)
            assert len(model.requests) == calls


def test_the_single_steps_raise_and_what_they_spent_is_kept():
    model = models.model(models.link_to_first)
    with opened(model=model, daily_calls=4, batch_size=1, max_concurrency=1) as memory:
        ids = [note.id for note in memory.add_many(FACTS[:3], namespace=ANN, evolve=False)]
        memory.construct(ids, namespace=ANN)
        with pytest.raises(errors.BudgetExceededError):  # the first note has no candidates
            memory.propose(ids, namespace=ANN)
        assert calls_in(memory) == len(model.requests) == 4
        fourth = memory.add(FACTS[3], namespace=ANN, evolve=False)
        with pytest.raises(errors.BudgetExceededError, match="4 of its 4 calls"):
            memory.construct([fourth.id], namespace=ANN)
        assert states(memory) == {"constructed": 3, "pending": 1}


@pytest.mark.enable_socket
@pytest.mark.parametrize("times", [1, 100])
async def test_what_a_cancelled_task_has_spent_counts(fake, times):
    class Slow(ScriptedModel):
        calls, third = 0, asyncio.Event()

        async def agenerate(self, request):
            self.calls += 1
            if self.calls > 2:
                self.third.set()
                await asyncio.Future()  # for ever
            return super().generate(request)

    model = Slow(models.model(models.link_to_first).generate)
    with opened(fake.url, model=model) as memory:
        items = [NoteInput(content=text, thread=text) for text in FACTS[:2]]
        memory.add_many(items, namespace=ANN, evolve=False)
        task = asyncio.create_task(memory.aevolve(namespace=ANN))
        await cancel(task, model.third, times)
        assert calls_in(memory) == 2
