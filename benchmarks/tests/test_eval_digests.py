"""`python -m benchmarks.evaluation locomo --digests`: the memory with digests against the same memory without them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tests import tiny_locomo

pytest.importorskip("tokenizers")

from amem_integrations import InvalidInputError
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.testing import HashEmbedder
from benchmarks.evaluation import Models, Named, Result, Settings, evaluate, locomo
from benchmarks.evaluation.report import Report, build
from benchmarks.evaluation.report_sections import sections

EMBEDDER = HashEmbedder(256)
QUINCE = "Ines planted the quince tree behind the shed; in the heat the quince lost all its leaves."


class Gardener:
    """Gathers what is said of the quince in a digest, and answers what it is shown."""

    name = "gardener"

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def generate(self, request: ModelRequest) -> Completion:
        self.tasks.append(request.task)
        reply: dict[str, Any] = {"digests": []}
        if request.task == "answer":
            reply = {"answer": "planted, lost its leaves" if QUINCE in request.prompt else "no"}
        elif request.task == "digest" and not request.inputs["digests"]:
            words = ("quince", "Water it", "spade")
            add = [
                one["alias"]
                for one in request.inputs["notes"]
                if any(word in one["content"] for word in words)
            ]
            reply = {"digests": [{"topic": "Ines' quince tree", "text": QUINCE, "add": add}]}
        return Completion(text=json.dumps(reply), input_tokens=100, output_tokens=10)


def run(folder: Path, model: Gardener | None, **settings: Any) -> Result:
    dataset, recorded = tiny_locomo.write(folder)
    known = locomo.load(dataset)[:1]
    named = model and Named(model=model, identity="gardener")
    written = locomo.load_annotations([recorded], known)
    models = Models(writer=named, answerer=named)
    chosen = Settings(ks=(1, 2, 20), digests=True, **settings)
    (result,) = evaluate(
        known,
        chosen,
        embedder=EMBEDDER,
        models=models,
        annotations=written,
        cache=folder / "cache",
    )
    return result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(tmp_path_factory.mktemp("kept"), Gardener(), answer_ks=(2,), budgets=(110, 1000))


@pytest.fixture(scope="module")
def report(result: Result) -> Report:
    return build([result], (1, 2, 20), {"k": [1, 2, 20]}, embedder=EMBEDDER)


def test_digests_are_written_while_the_memory_is_built_and_their_tokens_stand_apart(
    result: Result, report: Report
) -> None:
    writes = result.writes["amem"]
    assert (result.notes, writes.notes, writes.digests) == (12, 12, 1)
    assert writes.digest_calls >= 1
    assert writes.digest_input_tokens == 100 * writes.digest_calls
    assert report["costs"]["build digests"]["output_tokens"] == 10 * writes.digest_calls
    assert report["builds"]["amem"]["digests"] == 1
    assert result.written_by == "annotations"


def test_a_digest_counts_as_its_sources_in_figures_of_their_own(result: Result) -> None:
    asked = result.outcomes[1]  # its evidence are two turns
    first, second = sorted(asked.question.evidence)
    (digest,) = asked.digests
    assert {first, second} < set(asked.digests[digest])
    found = {"amem": ("D9:9", digest, first), "amem_without_digests": (first, second, "D9:9")}
    outcome = replace(asked, found=found, within={110: (digest, second), 1000: (first, second)})
    made = build([replace(result, outcomes=(outcome,), answers={})], (1, 2, 3), {"k": [1, 2, 3]})

    figures = made["retrieval"]["amem"]
    assert figures["recall"] == {"1": 0, "2": 0, "3": 0.5}
    assert figures["all_evidence"] == {"1": 0, "2": 0, "3": 0}
    told = figures["with_digests"]
    assert told["recall"] == told["all_evidence"] == {"1": 0, "2": 1, "3": 1}
    assert "with_digests" not in made["retrieval"]["amem_without_digests"]
    shown = made["within"]["110"]["all"]
    assert (shown["recall"]["mean"], shown["with_digests"]["recall"]["mean"]) == (0.5, 1)
    assert made["within"]["1000"]["1"]["with_digests"]["all_evidence"]["mean"] == 1
    captions = [table.caption for one in sections(made) for table in one.tables]
    assert sum("a digest counts as all its sources" in one for one in captions) == 2


def test_answers_are_compared_with_those_of_the_same_memory_without_digests(
    report: Report,
) -> None:
    names = [
        f"{one} in {n} tokens" for one in ("amem", "amem_without_digests") for n in (110, 1000)
    ]
    assert list(report["answers"]) == [*names]
    gains = report["by_digests"]
    assert list(gains) == names[:2]
    assert gains["amem in 1000 tokens"]["by_category"]["1"]["difference"] > 0
    captions = [table.caption for one in sections(report) for table in one.tables]
    assert sum("answers with digests are better" in one for one in captions) == 1


def test_a_kept_memory_with_digests_is_opened_and_not_built_again(tmp_path: Path) -> None:
    model, again = Gardener(), Gardener()
    first, second = (run(tmp_path, one) for one in (model, again))
    assert set(model.tasks) == {"digest"}
    assert again.tasks == []
    assert second.writes == first.writes
    assert second.outcomes == first.outcomes


def test_digests_need_a_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="digests are written by a chat model"):
        run(tmp_path, None)
