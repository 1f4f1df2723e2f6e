"""What defines each rival: what it looks up, forgets, files, or rewrites, with scripted replies."""

import json
import os
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amem_integrations import NoteInput
from amem_integrations.errors import AmemError, InvalidInputError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from benchmarks import locomo
from benchmarks.answering import Served
from benchmarks.cache import Cache
from benchmarks.data import Spent
from benchmarks.rivals import RIVALS, table
from benchmarks.rivals.base import Memory, Rival
from benchmarks.rivals.memgpt import QUEUE_TOKENS, STEPS
from benchmarks.rivals.piped import Piped

TINY = Path(__file__).with_name("tiny_locomo.json")


def turn(number: int, text: str, *, days: float = 0) -> NoteInput:
    at = datetime(2023, 5, 8, tzinfo=UTC) + timedelta(days=days)
    return NoteInput(content=text, at=at, key=f"D1:{number}", thread="one", speaker="Ann")


def made(name: str, script: object, **more: object) -> tuple[Memory, ScriptedModel, Rival]:
    model = ScriptedModel(script)
    rival = Rival(RIVALS[name], model, HashEmbedder(), Cache(), **more)
    return rival.memory, model, rival


def long(number: int, words: str) -> NoteInput:
    return turn(number, " ".join([words, *["and"] * 99]))


def test_readagent_pauses_where_it_is_told_and_looks_a_page_up():
    memory, model, rival = made("readagent", {
        "readagent_pause": {"pause": 4},
        "readagent_gist": [{"gist": "Ann kept birds."}, {"gist": "Ann moved."}],
        "readagent_look_up": lambda request: {"pages": [1, 7] if "where" in request.prompt else []},
    })  # fmt: skip
    memory.add([long(number, f"word{number}") for number in range(1, 10)])
    (asked,) = model.asked("readagent_pause")  # what is left then is less than a page
    labels = [number for number in range(1, 10) if f"<{number}>" in asked.prompt]
    assert labels == [3, 4, 5, 6]  # from 280 to 600 words
    assert [f"word{n}" in model.asked("readagent_gist")[0].prompt for n in (4, 5)] == [True, False]
    assert memory.recall("Who?") == "Ann kept birds.\n\nAnn moved."
    text = memory.recall("Tell me where")
    assert text.startswith("Ann kept birds.\n\n[8 May 2023]\nAnn: word5 ")
    assert "Ann moved." not in text
    assert rival.spent("build").calls == 5


def test_memorybank_forgets_what_is_not_recalled_and_finds_what_is():
    summary = {"memorybank_day": {"events": "They spoke.", "portrait": "Calm."},
               "memorybank_all": {"events": "A year of talk.", "portrait": "Ann is calm."}}  # fmt: skip
    memory, model, _ = made("memorybank", summary)
    memory.add([turn(n, f"The heron number{n} stood still") for n in range(40)])
    assert "Ann: The heron number7 " in memory.recall("heron number7")
    memory.add([turn(99, "kettle", days=60)])
    text = memory.recall("heron number7")
    assert ("heron" in text, "kettle" in text) == (
        False,
        True,
    )  # after two months the curve is near 0
    assert text.startswith("Events: A year of talk.\nPortrait: Ann is calm.\n")
    assert [len(model.asked(f"memorybank_{what}")) for what in ("day", "all")] == [2, 2]
    assert "[7 July 2023] They spoke." in model.asked("memorybank_all")[-1].prompt

    # What later days speak of is recalled by them, and so grows in strength and is young again.
    memory, _, _ = made("memorybank", summary)
    both = ("The heron stood still", "An old kettle whistled")
    memory.add([turn(n, f"{both[n % 2]} {n}") for n in range(40)])
    memory.add([turn(100 + n, "The heron again", days=1 + n / 4) for n in range(80)])
    text = memory.recall("heron stood still")
    assert "[8 May 2023] Ann: The heron stood still" in text
    assert "Ann: An old kettle" not in memory.recall("An old kettle whistled")
    assert memory.recall("heron stood still") == text  # questions change nothing


def test_memgpt_files_evicts_and_reaches_all_its_memories_by_functions():
    def step(request):
        if "Question" not in request.inputs["event"]:
            call = {"function": "archival_memory_insert", "content": "Ann's heron is called Otto."}
            core = {"function": "core_memory_append", "block": "Ann", "content": "likes herons"}
            return {"calls": [call, core] if "word0" in request.inputs["context"] else []}
        if "endless" in request.inputs["event"]:
            return {"heartbeat": True}
        if "Otto" not in request.inputs["results"]:
            return {"calls": [{"function": "archival_memory_search", "query": "name of the heron"}], "heartbeat": True}  # fmt: skip
        edit = {"function": "core_memory_append", "block": "Ann", "content": "was asked"}
        return {"calls": [{"function": "conversation_search", "query": "WORD0 and"}, edit]}

    script = {"memgpt_step": step, "memgpt_evict": {"summary": "Ann said words."}}
    memory, model, rival = made("memgpt", script)
    memory.add([long(number, f"word{number}") for number in range(30)])
    assert len(model.asked("memgpt_step")) == 2  # batches of twenty
    assert "word0 " in model.asked("memgpt_evict")[0].prompt
    text = memory.recall("What is it called?")
    before, _, after = text.partition("Found in archival memory")
    assert "Summary of evicted messages:\nAnn said words." in before
    assert "<Ann>\nlikes herons" in before
    assert ("word0 " in before, "word29 " in before) == (False, True)
    for shown in ("Ann's heron is called Otto.", "Ann: word0 and", "not edited for a question"):
        assert shown in after
    assert len(before) / 4 < 2 * QUEUE_TOKENS
    assert rival.spent("build").calls == len(model.requests)
    memory.recall("endless")
    assert len(model.asked("memgpt_step")) == 2 + 2 + STEPS


HERONS = [turn(n, f"heron text{n}") for n in range(12)]


def test_a_mem_as_published_rewrites_its_neighbours_and_follows_links_up_to_k():
    memory, model, _ = made("amem-published", {
        "amem_construct": {"keywords": ["k"], "context": "first", "tags": ["t"]},
        "amem_link": {"links": [0, 99]},  # 99 was not shown
        "amem_evolve": lambda r: {"rewrite": "text0" in r.inputs["neighbour"], "context": "second"},
    })  # fmt: skip
    memory.add(HERONS)
    asked = [len(model.asked(f"amem_{task}")) for task in ("construct", "link", "evolve")]
    assert asked == [12, 11, 1 + 2 + 3 + 4 + 7 * 5]  # the first note has no neighbour
    text = memory.recall("heron")
    assert "heron text0\ncontext: second\nkeywords: \n" in text
    shown = text.count("Ann: heron")
    assert 10 < shown <= 20
    assert shown - 10 == text.count("Ann: heron text0") - 1  # all links lead there


def test_recorded_annotations_stand_for_the_model_of_a_mem_as_published():
    records = [
        {"id": "D1:0", "keywords": ["a"], "context": "first", "tags": ["t"]},
        {"id": "D1:1", "keywords": ["b"], "context": "new", "tags": ["u"], "links": [{"to": "D1:0", "why": ""}],
         "updates": [{"to": "D1:0", "context": "second", "tags": ["v"]}]},
    ]  # fmt: skip
    memory, model, rival = made("amem-published", {}, records=records)
    memory.add(HERONS[:2])
    assert "heron text0\ncontext: second\nkeywords: a\ntags: v" in memory.recall("heron")
    assert memory.recall("heron").count("Ann: heron text0") == 2  # once as a hit, once as linked
    assert (rival.spent("build").calls, rival.spent("recall")) == (4, Spent())
    assert rival.spent("build").input_tokens > 100
    assert model.requests == []


SHOUTING = f"{Path(__file__).with_name('shouting_memory.py')}:Shouting"
ANYTHING = {
    "answer": "Otto", "gist": "Short.", "pages": [0], "events": "They spoke.", "portrait": "Calm.", "summary": "Old.",
    "context": "About herons.", "keywords": ["heron"], "tags": ["birds"], "links": [0],
}  # fmt: skip


@pytest.mark.enable_socket
def test_all_systems_answer_in_one_table_with_what_they_cost_and_nothing_is_paid_for_twice(
    openai_server, tmp_path, capsys
):
    openai_server.answer = lambda _: json.dumps(ANYTHING)
    given = ["--systems", f"full,{','.join(RIVALS)}", "--system", SHOUTING, "--python", os.path.relpath(sys.executable)]  # fmt: skip
    given += ["--answer", "--turns", "6", "--rule-notes", "--conversations", "conv-1"]
    given += ["--model", "m", "--base-url", openai_server.base_url, "--embedder", "hash"]

    def run() -> dict[str, Any]:
        assert locomo.main([str(TINY), "--out", str(tmp_path), *given]) == 0, capsys.readouterr()
        return json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))

    report = run()
    asked = len(openai_server.requests)
    names = ["amem", "full", *RIVALS, "shouting"]
    assert list(report["answers"]) == names
    questions = report["answers"]["amem"]["questions"]
    calls = {stage: one["calls"] for stage, one in report["costs"].items()}
    built, recalled = ([calls[f"{of} {name}"] for name in names[2:]] for of in ("build", "recall"))
    assert built == [1, 2, 1, 6 + 5 + 1 + 2 + 3 + 4 + 5, 1]
    assert recalled == [questions, 0, questions, 0, 0]
    assert report["costs"]["build shouting"]["input_tokens"] > 0
    heard = [one["messages"][-1]["content"] for one in openai_server.requests]
    assert sum(one.startswith("Note down 20") for one in heard) == 1
    for file, shown in (
        ("report.md", ["no order", "27.02 / 20.09", "](report-cost.png)"]),
        ("report.tex", ["\\begin{tabular}{lrrrrr", "\n amem-published "]),
    ):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert [one for one in shown if one not in text] == []
    assert (tmp_path / "report-cost.png").exists()
    again = run()
    assert len(openai_server.requests) == asked
    assert again["costs"] == report["costs"]
    for more, said in (["--systems", "memgtp"], "no system"), (["--system", "none.py:X"], "needs a --python"):  # fmt: skip
        assert locomo.main([str(TINY), "--out", str(tmp_path), *given, *more]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.enable_socket
def test_a_memory_whose_process_dies_or_has_no_file_is_an_error():
    served = Served(model="m", base_url="http://127.0.0.1:9/v1")
    make = partial(Piped, python=sys.executable, served=served)
    shouting = Rival(partial(make, system=SHOUTING), ScriptedModel({}), HashEmbedder(), Cache())
    with closing(shouting) as rival:
        assert rival.find(["anything"])[0].context(5) == ""
        with pytest.raises(AmemError, match="status 3 at 'recall'"):
            rival.find(["die"])
    with pytest.raises(InvalidInputError, match="path/to/file"):
        make(rival, system="nowhere.py:X")


def test_ranks_are_those_of_the_paper_and_an_order_is_claimed_only_where_it_is_sure():
    found = {"a": {"1": [0.5], "2": [0.2]}, "b": {"1": [0.5], "2": [0.3]}, "c": {"1": [0.1], "2": [0.1]}}  # fmt: skip
    assert table.ranks(found) == {"a": 1.75, "b": 1.25, "c": 3.0}
    assert list(table.ranks(table.paper()).values()) == [2.4, 4.2, 4.8, 2.4, 1.2]  # as printed
    for low, high, so in ((-0.01, 0.2, "no order"), (0.01, 0.2, "ours"), (-0.3, -0.1, "dense")):
        gain = {"difference": 0.1, "low": low, "high": high, "by_category": {}}
        assert table.gain_over("dense", gain)["so"] == so
