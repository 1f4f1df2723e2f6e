"""Whatever a model or an embedder gives, what was said is kept, and other notes are finished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
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


@pytest.mark.parametrize("give", NO_TEXT.values(), ids=NO_TEXT)
@pytest.mark.parametrize("limits", [{}, {"daily_tokens": 100_000}], ids=["free", "limited"])
def test_a_note_without_a_usable_answer_is_kept_and_tried_again(open_memory, give, limits):
    model = Giving(give)
    memory = open_memory(model, **limits)
    notes = [memory.add(text, namespace=ANN) for text in SAID]
    assert [note.state for note in notes] == ["failed", "failed"]
    assert {hit.note.id for hit in memory.search("choir", namespace=ANN)} == {n.id for n in notes}
    model.give = lambda text: Completion(text=text)
    assert len(memory.evolve(namespace=ANN).done) == len(SAID)


BADLY_COUNTED = [None, "7", 7.5, float("nan"), -500]


@pytest.mark.parametrize("tokens", BADLY_COUNTED, ids=repr)
@pytest.mark.parametrize("limits", [{}, {"daily_tokens": 100_000}], ids=["free", "limited"])
def test_tokens_that_are_no_number_count_as_none(open_memory, tokens, limits):
    model = Giving(lambda text: Completion(text=text, input_tokens=tokens, output_tokens=5))
    memory = open_memory(model, **limits)
    assert memory.add(SAID[0], namespace=ANN).state == "done"
    assert memory.stats()["usage"]["total"]["input_tokens"] == 0
    assert memory.stats()["usage"]["total"]["output_tokens"] == 5


@pytest.mark.parametrize("until", ["9999-12-31", "9999-12-31T23:59:59-14:00", "99999-01-01"])
def test_an_end_after_that_of_the_calendar_is_none(open_memory, until):
    def construct(request):
        return {
            "notes": [{**models.attributes(n), "until": until} for n in request.inputs["notes"]]
        }

    note = open_memory(models.model(construct=construct)).add(SAID[0], namespace=ANN)
    assert (note.state, note.until, note.own_entry.until) == ("done", None, None)


LAST = datetime(9999, 12, 31, 10, tzinfo=UTC)
ENDS = ["this week", "until tomorrow", "for the next two months", "until the end of next week"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("at", [LAST, LAST.replace(tzinfo=timezone(timedelta(hours=-12)))])
def test_rules_read_what_was_said_on_the_last_day_of_the_calendar(open_memory, end, at):
    memory = open_memory(None)
    notes = memory.add_many([f"The office is closed {end}", *SAID], namespace=ANN)
    dated = memory.add(f"I am away {end}", namespace=ANN, at=at)
    assert {note.state for note in (*notes, dated)} == {"done"}
