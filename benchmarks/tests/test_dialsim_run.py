"""A memory hears a show, and is asked on the way: what it may know by then, and what is made of it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import models as scripts

from amem_integrations import ModelRequest, ModelUnavailableError
from amem_integrations.errors import InvalidInputError
from amem_integrations.testing import HashEmbedder, ScriptedModel
from benchmarks.evaluation import (
    Condition,
    Models,
    Named,
    Result,
    Settings,
    dialsim,
    evaluate,
)
from benchmarks.evaluation.dialsim import figures
from benchmarks.evaluation.document import markdown
from benchmarks.evaluation.provenance import describe
from benchmarks.tests.dialsim import AGENT, JSON, UNKNOWN, loaded, question, session

CHOICE, OPEN = dialsim.Format.CHOICE, dialsim.Format.OPEN
EMBEDDER = HashEmbedder(256)


@pytest.fixture
def show() -> dialsim.Show:
    return dialsim.load(JSON, agent=AGENT)


def named(model: ScriptedModel) -> Named:
    return Named(model=model, identity=model.name)


def answering(reply: Any = "(A)", **tasks: Any) -> ScriptedModel:
    """A model that answers the same in every format, and judges everything correct."""
    said = {"answer": reply} if isinstance(reply, str) else reply
    return ScriptedModel(
        {"dialsim_choice": said, "dialsim_open": said, "judge": {"correct": True}, **tasks}
    )


def settings_of(
    k: int = 20, formats: tuple[dialsim.Format, ...] = (CHOICE, OPEN), concurrency: int = 1
) -> Settings:
    tasks = tuple(one.task for one in formats)
    return Settings(ks=(k,), answer_ks=(k,), tasks=tasks, concurrency=concurrency)


def simulated(
    show: dialsim.Show,
    model: ScriptedModel | None = None,
    judge: bool = False,
    *,
    models: Models | None = None,
    seed: int = 0,
    questions: int | None = None,
    cache: Path | None = None,
    progress: Any = None,
    **options: Any,
) -> Result:
    choice = dialsim.choose(show, seed=seed, questions=questions)
    answerer = named(model or answering())
    (result,) = evaluate(
        [choice.conversation(show)],
        settings_of(**options),
        embedder=EMBEDDER,
        models=models or Models(answerer=answerer, judge=answerer if judge else None),
        cache=cache,
        progress=progress,
    )
    return result


def contexts(model: ScriptedModel) -> list[str]:
    """Return what was put before each question, in the order of the show."""
    return [one.inputs["context"] for one in model.asked("dialsim_open")]


def place(show: dialsim.Show, key: str) -> tuple[int, int]:
    """Return where in the show a note is from."""
    session_id, _, turn = key.rpartition("#")
    return [one.id for one in show.sessions].index(session_id), int(turn)


@pytest.mark.parametrize("seed", [0, 2])
def test_nothing_is_recalled_that_is_said_later(show, seed):
    result = simulated(show, seed=seed, k=50)
    assert len(result.outcomes) == 5
    for asked, outcome in zip(dialsim.choose(show, seed=seed).asked, result.outcomes, strict=True):
        where = (show.sessions.index(asked.session), asked.turn)
        found = {place(show, key) for key in outcome.found["amem"]}
        heard = {
            (number, turn)
            for number, session_ in enumerate(show.sessions)
            for turn in range(len(session_.turns))
            if (number, turn) <= where
        }
        assert found == heard  # all of it: k is larger
        assert outcome.question.after == len(heard)


def test_not_even_the_very_words_of_the_question_are_recalled_from_later_on(tmp_path):
    words = "What does Ann keep in the green box?"
    asked = {"cur": [question(questions={"default": words})]}
    first = session("Ben: Hello.\nAnn: Hello.\nAnn: Tea.", hard_q=asked)
    show = loaded(
        tmp_path,
        replace_last(first, f"Ben: {words}"),
        session(f"Cy: {words}\nCy: In the green box she keeps rain.", hard_q={}),
        session("Ben: So?\nAnn: Well.\nAnn: A key.", hard_q=asked),
    )
    model = answering()
    early, late = simulated(show, model, k=50).outcomes
    first_context, second_context = contexts(model)
    assert words in early.question.text
    assert words in late.question.text
    assert "green box" not in first_context
    keys = early.found["amem"]
    assert [key.partition("#")[0] for key in keys] == ["S01E01/1"] * len(keys)
    assert "green box she keeps rain" in second_context


def replace_last(one: dict[str, Any], line: str) -> dict[str, Any]:
    """Return a session with another line after its last one."""
    return {**one, "script": f"{one['script']}\n{line}"}


def test_what_a_later_turn_adds_to_a_note_is_not_recalled_before_it(tmp_path):
    asked = {"cur": [question()]}
    first = session("Ben: The kettle is on.\nAnn: Good.\nAnn: The kettle, at last.", hard_q=asked)
    second = session("Ben: The kettle boils.\nAnn: Yes.\nAnn: Off with it.", hard_q=asked)
    show = loaded(tmp_path, first, second)

    def telling(request: ModelRequest) -> dict[str, Any]:
        said = {note["alias"]: note["content"] for note in request.inputs["notes"]}
        reply = scripts.link_to_first(request)
        for note in reply["notes"]:
            about = f"The kettle again: {said[note['id']]}"
            note["updates"] = [{"to": note["links"][0]["to"], "context": about, "tags": []}]
        return reply

    writer = scripts.model(evolve=telling)
    model = answering()
    result = simulated(show, models=Models(writer=named(writer), answerer=named(model)), k=50)
    early, late = contexts(model)
    assert (
        "boils" in late
    )  # said by the turn itself, so not again as what it added to an earlier one
    assert "boils" not in early
    assert result.writes["amem"].updates > 0
    assert result.written_by == "scripted"
    assert result.writes["amem"].model_calls == len(writer.requests)


def test_the_show_is_heard_in_its_order_and_no_further_than_the_last_question(show):
    result = simulated(show, questions=2, k=50)
    first, second = (set(outcome.found["amem"]) for outcome in result.outcomes)
    assert first < second
    turns = sum(len(one.turns) for one in show.sessions[:2])
    assert result.notes == len(second) == result.outcomes[-1].question.after < turns


def test_questions_and_answers_are_not_remembered(show):
    model = answering("a walrus")
    simulated(show, model, k=50)
    shown = "".join(contexts(model))
    assert "walrus" not in shown
    assert not any(asked.text in shown for asked in dialsim.choose(show).asked)


def test_a_question_says_when_it_is_asked_by_whom_and_shows_its_options(show):
    model = answering()
    simulated(show, model)
    first = dialsim.choose(show).asked[0]
    choice, open_ = model.asked("dialsim_choice")[0], model.asked("dialsim_open")[0]
    head = f"On March 4, 2011, {first.asker} asks Nell: {first.text}"
    options = [
        f"({letter}) {option}"
        for letter, option in zip("ABCDE", first.question.options, strict=True)
    ]
    assert choice.inputs["question"] == "\n".join([head, *options])
    assert open_.inputs["question"] == head
    assert choice.inputs["context"] == open_.inputs["context"]
    for request in (choice, open_):
        assert request.inputs["question"] in request.prompt
        assert request.inputs["context"] in request.prompt
        assert first.question.gold not in request.system


def test_no_right_answer_is_shown_to_a_model_that_answers_in_its_own_words(tmp_path):
    asked = {"cur": [question("Quince cordial", options=["Quince cordial", "Milk", UNKNOWN])]}
    show = loaded(tmp_path, session("Ben: Thirsty?\nAnn: Yes.\nAnn: Very.", hard_q=asked))
    model = answering()
    simulated(show, model, judge=True)
    assert all("Quince" not in one.prompt for one in model.asked("dialsim_open"))
    assert all("Quince" in one.prompt for one in model.asked("dialsim_choice"))
    assert [one.inputs["gold"] for one in model.asked("judge")] == ["Quince cordial"]


def test_the_same_run_twice_is_the_same_and_another_seed_is_not(show):
    def figures_of(seed: int) -> Any:
        report = reported(show, by_letter(), judge=True, seed=seed)
        shown = {name: report[name] for name in ("questions", "answers", "notes")}
        return shown, report["builds"]["amem"]["links"]

    assert figures_of(1) == figures_of(1)
    assert figures_of(1) != figures_of(2)


def by_letter() -> ScriptedModel:
    """A model whose answer depends on the question."""

    def answer(request: ModelRequest) -> dict[str, str]:
        return {"answer": f"({'ABCDE'[len(request.inputs['question']) % 5]})"}

    return answering(dialsim_choice=answer, dialsim_open=answer)


def knowing(show: dialsim.Show, **changes: str) -> ScriptedModel:
    """A model that knows every answer, but for those of some kinds."""

    def options(request: ModelRequest) -> str:
        asked = request.inputs["question"].splitlines()[0].partition(": ")[2]
        for one in (one for session_ in show.sessions for one in session_.questions):
            if asked in one.wordings.values():
                gold = "ABCDE"[one.right] if request.task == "dialsim_choice" else one.gold
                return changes.get(f"{request.task}/{one.kind}", gold)
        raise AssertionError(asked)

    def answer(request: ModelRequest) -> dict[str, str]:
        return {"answer": options(request)}

    def verdict(request: ModelRequest) -> dict[str, bool]:
        return {"correct": request.inputs["gold"] == request.inputs["answer"]}

    return answering(dialsim_choice=answer, dialsim_open=answer, judge=verdict)


def reported(
    show: dialsim.Show, model: ScriptedModel, prices: Any = None, **options: Any
) -> dict[str, Any]:
    chosen = {name: options[name] for name in ("seed", "questions") if name in options}
    choice, result = dialsim.choose(show, **chosen), simulated(show, model, **options)
    about = {"made": "here"}
    return figures.build(show, choice, result, about, embedder=EMBEDDER, prices=prices)


def render(report: dict[str, Any]) -> str:
    title = f"DialSim: {report['show']}"
    return markdown(title, figures.sections(report), report["settings"])


def test_who_knows_everything_is_right_everywhere(show):
    report = reported(show, knowing(show), judge=True, seed=2)
    for found in report["answers"].values():
        assert found["accuracy"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
        assert found["refused"] == 0.2
        assert found["unreadable"] == 0
        assert found["unanswerable"]["refused"] == 1.0
        assert found["answerable"]["refused"] == 0.0
    open_ = report["answers"]["open"]
    assert set(open_["official"]) == set(open_["amem"]) == {
        "f1", "bleu1", "rouge1", "rouge2", "rougeL", "meteor", "sbert",
    }  # fmt: skip
    assert open_["official"]["f1"]["mean"] == open_["amem"]["f1"]["mean"] == 1.0
    assert open_["unanswerable"]["amem"]["f1"]["mean"] == 1.0  # "I don't know." is its gold
    assert "official" not in report["answers"]["choice"]
    assert report["questions"] == {
        "asked": 5,
        "unanswerable": 1,
        "by_source": {"quiz": 1, "graph": 4},
        "by_kind": {"cur": 2, "dont_know_unans": 1, "past": 1, "past_past": 1},
        "sessions_left_out": {"the agent says nothing": 1, "nobody else is near": 1},
        "questions_left_out": {"the answer is none of the options": 1, "no wording": 1},
    }


def test_a_wrong_and_an_unreadable_choice_count_as_wrong_where_they_belong(show):
    model = knowing(
        show,
        **{
            "dialsim_choice/past": "(A) or (B)",
            "dialsim_choice/dont_know_unans": "(A)",
            "dialsim_open/past": "The Kestrel",
        },
    )
    report = reported(show, model, judge=True, seed=2)
    choice, open_ = report["answers"]["choice"], report["answers"]["open"]
    assert choice["accuracy"]["mean"] == 0.6
    assert choice["unreadable"] == 1
    assert choice["answerable"]["accuracy"]["mean"] == 0.75
    assert choice["unanswerable"]["accuracy"]["mean"] == 0.0
    assert choice["by_kind"]["graph/past"]["accuracy"]["mean"] == 0.0
    assert choice["by_kind"]["graph/cur"] == {
        "questions": 2,
        "accuracy": {"mean": 1.0, "low": 1.0, "high": 1.0},
        "refused": 0.0,
    }
    assert open_["accuracy"]["mean"] == 0.8
    assert open_["by_kind"]["graph/past"]["amem"]["f1"]["mean"] == 0.5  # "The" is shared


def test_without_a_judge_open_answers_have_measures_and_no_accuracy(show):
    report = reported(show, knowing(show), formats=(OPEN,))
    assert list(report["answers"]) == ["open"]
    found = report["answers"]["open"]
    assert found["accuracy"] == {"mean": None, "low": None, "high": None}
    assert found["official"]["f1"]["mean"] == 1.0
    assert "there was none" in render(report)
    assert set(report["costs"]) == {"build", "answer"}


def test_choices_alone_need_no_judge_and_no_measures(show):
    model = knowing(show)
    report = reported(show, model, judge=True, formats=(CHOICE,))
    assert list(report["answers"]) == ["choice"]
    assert not model.asked("judge")
    assert "wording against" not in render(report)


def test_the_report_says_what_it_cost_and_that_the_real_files_were_not_run(show):
    report = reported(show, answering(), {"answer": (1_000_000.0, 0.0)}, judge=True)
    assert {stage: one["calls"] for stage, one in report["costs"].items()} == {
        "build": 0,
        "answer": 10,
        "judge": 5,
    }
    answered = report["costs"]["answer"]
    assert answered["cost"] == answered["input_tokens"] > 0
    assert report["builds"]["amem"]["notes"] == report["notes"] == report["turns"]
    assert report["builds"]["amem"]["unfinished"] == 0
    assert 0 < report["latency_ms"]["embed_query_p50"] < report["latency_ms"]["search_p50"]
    assert "has not run this on the published DialSim files" in report["caution"]
    assert json.loads(json.dumps(report)) == report


def test_the_page_shows_every_figure_there_is(show):
    report = reported(show, knowing(show), judge=True, seed=2)
    page = render(report)
    assert page.startswith("# DialSim: harbour\n\nThis project has not run this")
    for text in (
        "Nell hears 42 turns of 7 sessions",
        "is asked 5 questions on the way",
        "in 20.0 %",
        "| all | 5 | 1.000 (1.000 to 1.000) | .200 |",
        "| graph/past_past | 1 | 1.000 (1.000 to 1.000) | .000 |",
        "scoring of the authors of A-MEM",
        "| session left out: the agent says nothing | 1 |",
        "| question left out: no wording | 1 |",
        "| made | `here` |",
    ):
        assert text in page, text
    assert not re.search(r"\{|None", page)


def test_a_show_in_which_nothing_can_be_asked_is_an_error_that_says_why(show):
    wrong = replace(show, agent="Nelly")
    with pytest.raises(InvalidInputError, match=r"of 'Nelly' in 'harbour': .*says nothing': 7"):
        simulated(wrong)


def test_a_second_run_on_the_same_cache_asks_no_model(show, tmp_path):
    def run() -> tuple[Result, ScriptedModel, ScriptedModel]:
        writer, model = scripts.model(evolve=scripts.link_to_first), by_letter()
        models = Models(
            writer=named(writer),
            answerer=Named(model=model, identity="answerer"),
            judge=Named(model=model, identity="judge"),
        )
        return simulated(show, models=models, cache=tmp_path / "cache"), writer, model

    first, *asked = run()
    second, *again = run()
    assert all(one.requests for one in asked)
    assert [one.requests for one in again] == [[], []]
    assert second.answers == first.answers
    assert second.writes["amem"].links == first.writes["amem"].links > 0
    assert second.spent == first.spent  # as if it had been asked
    assert second.outcomes == first.outcomes


def test_a_model_that_is_down_stops_the_run_and_what_was_paid_for_is_kept(show, tmp_path):
    down = ModelUnavailableError("no answer")
    reply = {"answer": "(B)"}
    first = answering(dialsim_choice=[reply, reply, down], dialsim_open=reply)
    with pytest.raises(ModelUnavailableError):
        simulated(show, first, cache=tmp_path)
    second = answering("(B)")
    result = simulated(show, second, cache=tmp_path)
    assert len(result.answers[Condition("dialsim_choice", "amem", 20)]) == 5
    assert len(second.asked("dialsim_choice")) == 3


def test_a_writer_that_is_down_stops_the_run(show):
    writer = ScriptedModel(lambda _: ModelUnavailableError("no answer"))
    with pytest.raises(ModelUnavailableError):
        simulated(show, models=Models(writer=named(writer), answerer=named(answering())))


def test_without_a_model_that_answers_nothing_is_run(show):
    with pytest.raises(InvalidInputError, match="answered by a chat model"):
        simulated(show, models=Models())


def test_progress_names_the_show_and_what_is_done(show):
    reports: list[tuple[str, str, int, int]] = []
    simulated(show, judge=True, progress=lambda *report: reports.append(report))
    assert [report for report in reports if report[1] == "hear"][-1][:2] == ("harbour", "hear")
    assert ("harbour", "answer", 10, 10) in reports
    assert ("harbour", "judge", 5, 5) in reports


def test_fewer_than_one_question_is_an_error(show):
    with pytest.raises(InvalidInputError, match="questions=0"):
        dialsim.choose(show, questions=0)


def test_the_report_says_all_that_it_depends_on():
    made = describe(settings_of(k=7), dataset=JSON, embedder=EMBEDDER, models={"x": 1}, seed=4)
    assert made["dataset"]["file"] == "harbour_dialsim.json"
    assert made["seed"] == 4
    assert set(made["prompts"]) == {"dialsim_choice", "dialsim_open", "judge"}
    assert str(Path(JSON).parent) not in json.dumps(made)
    choices = describe(settings_of(formats=(CHOICE,)), dataset=JSON, embedder=EMBEDDER, models={})
    assert choices["scoring"] is None
