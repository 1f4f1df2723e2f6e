"""What is counted, for which task and for which model."""

from __future__ import annotations

import pytest
from support import models

from amem_integrations import (
    AgenticMemory,
    ConfigurationError,
    ModelReplyError,
    ModelUnavailableError,
)
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)


class Nameless:
    """A model without a name of its own, and with an answer to everything."""

    def generate(self, request):
        return models.model(models.link_to_first).generate(request)


def opened(model):
    return AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ScriptedModel({"construct": models.construct, "evolve": models.nothing}), "scripted"),
        (ScriptedModel(models.construct, name="gpt-x"), "gpt-x"),
        (Nameless(), "Nameless"),
        (None, "rules"),
    ],
)
def test_a_model_is_counted_by_the_name_that_notes_and_history_have(model, name):
    with opened(model) as memory:
        note = memory.add("I joined a choir", namespace=ANN)
        (change,) = memory.history(note.id, namespace=ANN)[1:2]
        assert (change.kind, change.by, note.contexts[0].model) == ("construct", name, name)
        usage = memory.stats()["usage"]
        assert usage["models"] == {name: usage["total"]}
        assert usage["models"][name]["calls"] == 1


FAILURES = {
    "unreadable": ("no JSON here", {"calls": 2, "rejected_replies": 2}),
    "unavailable": (ModelUnavailableError("it is down"), {"unavailable": 1}),
    "broken": (RuntimeError("it broke"), {"unavailable": 1}),
    "a revoked key": (ConfigurationError("check the API key"), {"unavailable": 1}),
    "refused": (ModelReplyError("too long"), {"refused": 1}),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failures_are_counted_by_task_and_by_model(failure):
    answer, counted = FAILURES[failure]
    with opened(ScriptedModel(lambda _request: answer, name="poor")) as memory:
        if isinstance(answer, ConfigurationError):
            with pytest.raises(ConfigurationError):
                memory.add("I joined a choir", namespace=ANN)
        else:
            memory.add("I joined a choir", namespace=ANN)
        usage = memory.stats()["usage"]
        for counts in (usage["construct"], usage["total"], usage["models"]["poor"]):
            tokens = {"input_tokens", "output_tokens"}
            assert {key: n for key, n in counts.items() if key not in tokens} == counted
