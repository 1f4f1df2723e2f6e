"""On LoCoMo's conversations the evidence is found, by a language model's annotations and without, and links have their candidates."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amem_integrations import AgenticMemory
from amem_integrations.providers import MiniLmEmbedder
from amem_integrations.testing import RecordedModel
from benchmarks import data
from benchmarks.report import build
from benchmarks.runner import evaluate
from benchmarks.systems import Settings

DATA = os.environ.get("AMEM_DATA")
LOCOMO = Path(str(DATA)) / "locomo"
POINTING = Path(data.__file__).parent / "dialogues" / "pointing.json"
THOROUGH = bool(os.environ.get("AMEM_THOROUGH"))  # takes all five conversations
# By the name of a conversation the share of annotated links whose target is a candidate.
CANDIDATES = {"conv-30": 0.78} | ({"conv-26": 0.86} if THOROUGH else {})
needs_data = pytest.mark.skipif(not DATA, reason="AMEM_DATA is not set: no LoCoMo here")


@pytest.fixture(scope="session")
def embedder():
    # Questions and bare turns come again in the second mode.
    return MiniLmEmbedder(cache_size=20_000)


def measured(embedder, *names, annotated, turns=None):
    known = data.load(LOCOMO / "locomo_dev.json")
    files = [LOCOMO / f"{name}.annotations.jsonl" for name in names if annotated]
    written = data.load_annotations(files, known)
    asked = data.select(known, names)
    asked = [data.first_turns(one, turns) if turns else one for one in asked]
    results = evaluate(asked, Settings(), embedder=embedder, annotations=written)
    return build(list(results), (10,), {}, embedder=embedder)


@needs_data
@pytest.mark.parametrize("name", CANDIDATES)
def test_with_a_language_model_the_evidence_is_found(embedder, name):
    report = measured(embedder, name, annotated=True)
    assert report["retrieval"]["amem"]["recall@10"]["mean"] >= 0.85
    made = report["builds"]["amem"]
    assert made["candidate_recall"] >= CANDIDATES[name]
    # A bulk add costs less than a third of a call for a note.
    assert (made["model_calls"] <= 0.3 * report["notes"], made["unfinished"]) == (True, 0)


class Watched(RecordedModel):
    """A recorded model that remembers the keys of the candidates that it was shown with each note."""

    def __init__(self, records):
        super().__init__(records)
        self.shown = {}

    def generate(self, request):
        if request.task == "evolve":
            every = (*request.inputs["candidates"], *request.inputs["notes"])
            keys = {one["alias"]: one["key"] for one in every}
            for note in request.inputs["notes"]:
                shown = {keys[candidate["alias"]] for candidate in note["candidates"]}
                self.shown.setdefault(note["key"], set()).update(shown)
        return super().generate(request)


@needs_data
def test_what_a_turn_points_to_is_a_candidate(embedder):
    # Turns that point to something said long before ("that book you recommended"), each with those that it may mean.
    marks = json.loads(POINTING.read_text(encoding="utf-8"))["conv-30"]
    known = data.load(LOCOMO / "locomo_dev.json")
    (written,) = data.load_annotations([LOCOMO / "conv-30.annotations.jsonl"], known).values()
    model, (one,) = Watched(written.records), data.select(known, ["conv-30"])
    with AgenticMemory.open(":memory:", model=model, embedder=embedder) as memory:
        memory.add_many(one.turns, namespace=one.namespace)
    found = [not model.shown.get(turn, set()).isdisjoint(marks[turn]) for turn in marks]
    reported = found[1::2]  # the other half is for choosing
    assert sum(reported) >= 0.85 * len(reported)


@needs_data
@pytest.mark.timeout(900)
def test_without_a_language_model_most_of_the_evidence_is_found(embedder):
    if THOROUGH:
        report, least = measured(embedder, annotated=False), 0.65
    else:
        report, least = measured(embedder, *CANDIDATES, annotated=False, turns=150), 0.84
    assert report["retrieval"]["amem"]["recall@10"]["mean"] >= least
    assert report["builds"]["amem"]["model_calls"] == 0
