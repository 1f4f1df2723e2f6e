"""Whatever a model or an embedder gives, what was said is kept, and other notes are finished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from support import models

from amem_integrations import Completion, ModelReplyError
from amem_integrations.testing import as_completion

ANN = ("ann",)
SAID = ("I joined a choir", "The choir meets on Monday")


class Giving:
    """A model that gives what a function makes of the text of a sensible answer."""

    name = "giving"

    def __init__(self, give):
        self.give = give

    def generate(self, request):
        answer = models.construct(request) if request.task == "construct" else {"notes": []}
        return self.give(as_completion(request, answer).text)


NO_TEXT = {
    "nothing": lambda _: None,
    "a completion without text": lambda _: Completion(text=None),
    "a text that is no completion": lambda text: text,
    "bytes": lambda text: Completion(text=text.encode()),
    "an error that cannot be stored": lambda _: (_ for _ in ()).throw(
        ModelReplyError("a\0\ud800b")
    ),
}


LIMITS = ({}, {"daily_tokens": 100_000})


def test_a_note_without_a_usable_answer_is_kept_and_tried_again(open_memory):
    for what, give in NO_TEXT.items():
        for limits in LIMITS:
            model = Giving(give)
            memory = open_memory(model, **limits)
            ids = {memory.add(text, namespace=ANN).id for text in SAID}
            assert {note.state for note in memory.get_all(namespace=ANN)} == {"failed"}, what
            assert {hit.note.id for hit in memory.search("choir", namespace=ANN)} == ids
            model.give = lambda text: Completion(text=text)
            assert set(memory.evolve(namespace=ANN).done) == ids


def test_notes_that_only_one_of_two_replies_names_are_all_made(open_memory):
    def construct(request):
        one, two, three = models.construct(request)["notes"]
        replies.append({"notes": [{**two, "context": "Later"}, three]} if replies else None)
        return replies[-1] or {"notes": [two], "filler": [one["id"]]}

    replies = []
    memory = open_memory(models.model(construct=construct))
    notes = memory.add_many([*SAID, "It sings Bach"], namespace=ANN)
    assert [note.state for note in notes] == ["done"] * 3
    assert [note.kind == "filler" for note in notes] == [True, False, False]
    assert [note.own_entry.text for note in notes[1:]] == ["Later", "About It sings Bach"]


def test_tokens_that_are_no_number_count_as_none(open_memory):
    for tokens in (None, "7", 7.5, float("nan"), -500):
        for limits in LIMITS:
            model = Giving(lambda t, n=tokens: Completion(text=t, input_tokens=n, output_tokens=5))
            memory = open_memory(model, **limits)
            assert memory.add(SAID[0], namespace=ANN).state == "done"
            total = memory.stats()["usage"]["total"]
            assert (total["input_tokens"], total["output_tokens"]) == (0, 5), tokens


def test_an_end_after_that_of_the_calendar_is_none(open_memory):
    for until in ("9999-12-31", "9999-12-31T23:59:59-14:00", "99999-01-01"):
        construct = models.each(lambda n, until=until: models.attributes(n) | {"until": until})
        note = open_memory(models.model(construct=construct)).add(SAID[0], namespace=ANN)
        assert (note.state, note.until, note.own_entry.until) == ("done", None, None)


def test_rules_read_what_was_said_on_the_last_day_of_the_calendar(open_memory):
    last, memory = datetime(9999, 12, 31, 10, tzinfo=UTC), open_memory()
    for end in ("this week", "until tomorrow", "for the next two months", "until next week"):
        for at in (None, last, last.replace(tzinfo=timezone(timedelta(hours=-12)))):
            assert memory.add(f"I am away {end}", namespace=ANN, at=at).state == "done"


def test_what_is_not_allowed_costs_its_own_note_and_few_requests(open_memory):
    def strict(forbidden):
        refused = ModelReplyError("400 - content policy")
        return lambda r: refused if forbidden in str(r.inputs) else models.construct(r)

    said = [f"Room {n} is booked for {n} o'clock{' sharp' * (n % 3)}." for n in range(12)]
    every_third = {2, 5, 8, 11}
    whole = (("Room 7 ", {7}, 20), ("sharp sharp", every_third, 33), ("Room", {*range(12)}, 12))
    for forbidden, failed, most in whole:
        model = models.model(construct=strict(forbidden))
        memory = open_memory(model, link=False)
        notes = memory.add_many(said, namespace=ANN)
        states = [memory.get(note.id, namespace=ANN).state for note in notes]
        assert {n for n, state in enumerate(states) if state == "failed"} == failed
        assert len(model.requests) <= most, forbidden
