"""Facts: what is learned in a turn, in notes of their own that name their turns as sources."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from support import models
from support.openai_server import OpenAIServer

from amem_integrations import AgenticMemory, ModelUnavailableError, NoteInput
from amem_integrations.config import PARTED
from amem_integrations.conversation import remembered
from amem_integrations.prompts import TEMPLATES
from amem_integrations.prompts.replies import ConstructReply
from amem_integrations.providers.openai import OpenAIChatModel
from amem_integrations.testing import CopyingModel, HashEmbedder, ScriptedModel

ANN = ("ann",)
MAY, JUNE = datetime(2023, 5, 8, tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC)


def tell(memory, *contents, remember="facts", **fields):
    """Add turns of one conversation, and return their notes."""
    given = {"thread": "t", "speaker": "Ann", **fields}
    items = [NoteInput(content=content, **given) for content in contents]
    return memory.add_many(remembered(items, remember), namespace=ANN)


def learning(*facts, **options):
    """A model that learns these facts, one call after the other: dicts, or texts shown by the first note."""
    left = [one if isinstance(one, list) else [one] for one in facts]

    def construct(request):
        learned = left.pop(0) if left and request.inputs.get("facts_of") else []
        entries = [{"f": f, "of": ["n1"]} if isinstance(f, str) else f for f in learned]
        return {"facts": entries, **models.construct(request)}

    return ScriptedModel({"construct": construct, "evolve": models.nothing}, **options)


def facts(memory, namespace=ANN):
    return memory.get_all(namespace=namespace, where={"kind": "fact"})


def texts(memory):
    return [fact.content for fact in facts(memory)]


# --- what is asked


def test_without_facts_the_prompt_and_the_form_of_the_reply_are_as_ever(open_memory):
    model = learning()
    memory = open_memory(model)
    tell(memory, "I moved to Oslo", remember="turns", at=MAY)
    (request,) = model.asked("construct")
    system, _, rest = TEMPLATES["construct"].partition(PARTED)
    values = {
        "speakers": "Ann",
        "before": "(none)",
        "notes": "(Monday 8 May 2023)\n[n1] Ann: I moved to Oslo",
    }
    for name, value in values.items():
        rest = rest.replace(f"${name}", value)
    assert request.system == system.strip()
    assert request.prompt == rest.strip()
    assert request.reply is ConstructReply
    assert request.inputs.keys() == {"notes", "before"}


def test_with_facts_only_something_is_added_behind(open_memory):
    model = learning()
    memory = open_memory(model, instructions="Be brief.")
    tell(memory, "I moved to Oslo", remember="turns", at=MAY, thread="1")
    tell(memory, "I moved to Oslo", at=MAY, thread="2")
    plain, asked = model.asked("construct")
    own = plain.system.removeprefix(TEMPLATES["construct"].partition(PARTED)[0].strip())
    assert asked.system.startswith(plain.system.removesuffix(own))
    assert asked.system.endswith(own)
    assert own.count("Be brief.") == asked.system.count("Be brief.") == 1
    assert asked.prompt.startswith(plain.prompt)
    assert "facts" not in plain.system + plain.prompt


def test_facts_are_asked_of_marked_notes_only_and_found_ones_are_shown(open_memory):
    model = learning("Ann moved to Oslo")
    memory = open_memory(model)
    tell(memory, "I moved to Oslo")
    plain = NoteInput(content="I like Oslo", thread="t")
    marked = remembered([NoteInput(content="I left Oslo", thread="t")], "facts")
    memory.add_many([plain, *marked], namespace=ANN)
    request = model.asked("construct")[-1]
    assert request.inputs["facts_of"] == ["n2"]
    assert request.inputs["known_facts"] == [{"alias": "f1", "content": "Ann moved to Oslo"}]
    assert "Facts of: n2" in request.prompt
    assert "Ann moved to Oslo" in request.prompt


@pytest.mark.enable_socket
def test_an_endpoint_is_asked_once_and_its_facts_are_stored(openai_server: OpenAIServer):
    def answer(_payload):
        fact = {"f": "Ann moved to Oslo on 7 May 2023.", "of": ["n1"]}
        return json.dumps({"facts": [fact], "notes": [{"id": "n1", "c": "Ann moved to Oslo."}]})

    openai_server.answer = answer
    model = OpenAIChatModel("m", base_url=openai_server.base_url, api_key="k")
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder()) as memory:
        tell(memory, "I moved to Oslo yesterday", at=MAY)
        assert len(openai_server.requests) == 1
        tell(memory, "Hello", remember="turns", thread="other")
        wanted, plain = (json.dumps(payload) for payload in openai_server.requests[:2])
        assert '"facts"' not in plain.replace("\\", "")
        assert '"facts"' in wanted.replace("\\", "")
        assert texts(memory) == ["Ann moved to Oslo on 7 May 2023."]


# --- what is stored


@pytest.mark.on_a_server
def test_a_fact_is_a_dated_note_beside_its_turn_and_names_it(open_memory):
    memory = open_memory(learning("Ann moved to Oslo on 7 May 2023"))
    (turn,) = tell(memory, "I moved there yesterday", at=MAY)
    (fact,) = facts(memory)
    assert (fact.source, fact.sources, fact.when) == ("derived", (turn.id,), MAY)
    assert (fact.state, fact.thread, fact.content) == (
        "done",
        None,
        "Ann moved to Oslo on 7 May 2023",
    )
    hits = memory.recall("When did Ann move to Oslo?", namespace=ANN)
    assert {hit.note.id for hit in hits} == {turn.id, fact.id}
    assert "8 May 2023" in memory.context("When did Ann move to Oslo?", namespace=ANN)
    (made,) = memory.history(fact.id, namespace=ANN)
    assert (made.kind, made.model, made.cause) == ("add", "scripted", turn.id)


@pytest.mark.parametrize("again", ["ann moved to  Oslo.", "Ann moved to Oslo!"])
def test_what_is_learned_again_is_stored_once_and_gains_a_source(open_memory, again):
    memory = open_memory(learning("Ann moved to Oslo", again))
    turns = [tell(memory, text)[0].id for text in ("I moved to Oslo", "Yes, Oslo it is")]
    (fact,) = facts(memory)
    assert fact.content == "Ann moved to Oslo"
    assert fact.sources == tuple(turns)
    assert [made.cause for made in memory.history(fact.id, namespace=ANN)] == turns


def test_the_same_fact_twice_in_one_reply_is_stored_once(open_memory):
    both = [{"f": "Ann has a dog", "of": ["n1"]}, {"f": "Ann has a dog.", "of": ["n2"]}]
    memory = open_memory(learning(both))
    turns = tell(memory, "I have a dog", "My dog is old")
    assert [fact.sources for fact in facts(memory)] == [tuple(turn.id for turn in turns)]


@pytest.mark.parametrize(
    "other", ["Ann moved to Rome", "Ann never moved to Oslo", "Bob moved to Oslo"]
)
def test_what_differs_in_one_word_is_another_fact(open_memory, other):
    memory = open_memory(learning("Ann moved to Oslo", other))
    tell(memory, "I moved to Oslo")
    tell(memory, "Something else")
    assert texts(memory) == ["Ann moved to Oslo", other]


@pytest.mark.on_a_server
def test_a_fact_that_is_no_longer_so_is_superseded_and_that_can_be_undone(open_memory):
    bergen = {"f": "Ann lives in Bergen", "of": ["n1"], "old": ["f1"]}
    memory = open_memory(learning("Ann lives in Oslo", bergen))
    tell(memory, "I live in Oslo", at=MAY)
    tell(memory, "I live in Bergen now", at=JUNE)
    old, new = facts(memory)
    assert old.superseded_by == new.id
    assert old.superseded_since == JUNE
    change = memory.history(old.id, namespace=ANN)[-1]
    assert (change.kind, change.model) == ("supersede", "scripted")
    memory.undo(change.id, namespace=ANN)
    assert facts(memory)[0].superseded_by is None


def test_back_again_is_a_fact_of_its_own(open_memory):
    replies = [
        {"f": f"Ann lives in {city}", "of": ["n1"], "old": ["f1"]}
        for city in ("Oslo", "Bergen", "Oslo")
    ]
    memory = open_memory(learning(*replies))
    for day, city in enumerate(("Oslo", "Bergen", "Oslo"), start=1):
        tell(memory, f"I live in {city} now", at=MAY.replace(day=day))
    assert texts(memory) == ["Ann lives in Oslo", "Ann lives in Bergen", "Ann lives in Oslo"]
    assert [fact.superseded_by is None for fact in facts(memory)] == [False, False, True]


def test_what_an_assistant_said_replaces_a_fact_only_if_a_person_agrees(open_memory):
    rome = {"f": "Ann lives in Rome", "of": ["n1"], "old": ["f1"]}
    memory = open_memory(learning("Ann lives in Oslo", rome))
    tell(memory, "I live in Oslo")
    tell(memory, "So you live in Rome", source="assistant", speaker="assistant")
    old, new = facts(memory)
    assert old.superseded_by is None
    (proposal,) = memory.proposals(namespace=ANN)
    memory.approve(proposal.id, namespace=ANN)
    assert facts(memory)[0].superseded_by == new.id


def test_with_review_a_supersession_of_facts_waits(open_memory):
    rome = {"f": "Ann lives in Rome", "of": ["n1"], "old": ["f1"]}
    memory = open_memory(learning("Ann lives in Oslo", rome), review=True)
    tell(memory, "I live in Oslo")
    tell(memory, "I live in Rome")
    assert facts(memory)[0].superseded_by is None
    assert len(memory.proposals(namespace=ANN)) == 1


def test_a_fact_holds_as_long_as_it_says_and_expires_with_its_turns(open_memory):
    memory = open_memory(learning([{"f": "Ann is in Rome", "of": ["n1"], "until": "2023-05-12"}]))
    tell(memory, "I am in Rome until Friday", at=MAY, expires_at=datetime(2999, 1, 1, tzinfo=UTC))
    (fact,) = facts(memory)
    assert fact.until == datetime(2023, 5, 13, tzinfo=UTC)
    assert fact.expires_at == datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "entry",
    [
        {"f": "Ann is rich", "of": ["n7"]},
        {"f": "  ", "of": ["n1"]},
        {"of": ["n1"]},
        {"f": "Ann is rich", "of": ["f1"]},
    ],
)
def test_a_fact_that_no_turn_shows_is_dropped_and_counted(open_memory, entry):
    memory = open_memory(learning([entry]))
    (turn,) = tell(memory, "I am here")
    assert turn.state == "done"
    assert texts(memory) == []
    assert memory.stats()["usage"]["construct"]["dropped"] == 1


def test_a_reply_without_facts_is_a_reply(open_memory):
    memory = open_memory(models.model(models.nothing))
    (turn,) = tell(memory, "I am here")
    assert (turn.state, texts(memory)) == ("done", [])


def test_a_reply_that_breaks_off_before_its_facts_is_not_taken(open_memory):
    notes = '{"notes":[{"id":"n1","c":"One."},{"id":"n2","c":"Two."}],"facts":[{"f":"Ann has'
    memory = open_memory(ScriptedModel({"construct": notes, "evolve": models.nothing}))
    turns = tell(memory, "I have a dog", "I have a cat")
    assert {turn.state for turn in turns} == {"failed"}
    assert next(hit.note.content for hit in memory.search("dog", namespace=ANN)) == "I have a dog"


def test_a_reply_that_breaks_off_after_its_facts_gives_those_of_the_finished_notes(open_memory):
    both = '{"facts":[{"f":"Ann has a dog","of":["n1"]},{"f":"Ann has a cat","of":["n2"]}],'
    cut = both + '"notes":[{"id":"n1","c":"One."},{"id":"n2","c":"Tw'
    memory = open_memory(ScriptedModel({"construct": cut, "evolve": models.nothing}))
    turns = tell(memory, "I have a dog", "I have a cat")
    assert [turn.state for turn in turns] == ["done", "failed"]
    assert texts(memory) == ["Ann has a dog"]


def test_a_model_that_is_down_leaves_the_turn_and_a_later_call_learns(open_memory):
    answers = [
        ModelUnavailableError("down"),
        {"facts": [{"f": "Ann has a dog", "of": ["n1"]}], "notes": [{"id": "n1", "c": "A dog."}]},
    ]
    memory = open_memory(ScriptedModel({"construct": answers, "evolve": models.nothing}))
    (turn,) = tell(memory, "I have a dog", remember="facts_only")
    assert (turn.state, texts(memory)) == ("pending", [])
    assert [hit.note.id for hit in memory.recall("dog", namespace=ANN)] == [turn.id]
    memory.evolve(namespace=ANN)
    assert texts(memory) == ["Ann has a dog"]


def test_a_batch_that_is_too_long_for_the_model_is_asked_about_in_parts(open_memory):
    def construct(request):
        learned = [
            {"f": f"Ann said {note['content'].split()[-1]}", "of": [note["alias"]]}
            for note in request.inputs["notes"]
        ]
        return {"facts": learned, **models.construct(request)}

    model = ScriptedModel({"construct": construct, "evolve": models.nothing})
    memory = open_memory(model, context_tokens=1900, link=False)
    tell(memory, *(f"{'a long story of mine ' * 12}{n}" for n in range(8)))
    assert len(model.asked("construct")) > 1
    assert len(texts(memory)) == 8


# --- gone is gone


@pytest.mark.on_a_server
def test_a_fact_goes_with_its_last_source(open_memory):
    memory = open_memory(learning("Ann moved to Oslo", "Ann moved to Oslo"))
    first, second = (tell(memory, text)[0] for text in ("I moved to Oslo", "Yes, moved to Oslo"))
    memory.delete(first.id, namespace=ANN)
    assert [fact.sources for fact in facts(memory)] == [(second.id,)]
    memory.delete(second.id, namespace=ANN)
    assert texts(memory) == []


def test_a_fact_whose_words_only_a_deleted_turn_has_goes_although_another_shows_it(open_memory):
    memory = open_memory(learning("Ann moved to Oslo", "Ann moved to Oslo"))
    first, _ = (tell(memory, text)[0] for text in ("I moved to Oslo", "Yes, there"))
    memory.delete(first.id, namespace=ANN)
    assert texts(memory) == []


@pytest.mark.on_a_server
def test_a_fact_of_a_corrected_turn_is_made_anew(open_memory):
    memory = open_memory(learning("Ann moved to Oslo", "Ann moved to Rome"))
    (turn,) = tell(memory, "I moved to Oslo")
    memory.update(turn.id, namespace=ANN, content="I moved to Rome")
    assert texts(memory) == []
    memory.evolve(namespace=ANN)
    assert texts(memory) == ["Ann moved to Rome"]


def test_another_metadata_or_end_leaves_the_fact(open_memory):
    memory = open_memory(learning("Ann moved to Oslo"))
    (turn,) = tell(memory, "I moved to Oslo")
    memory.update(turn.id, namespace=ANN, until=JUNE)
    assert texts(memory) == ["Ann moved to Oslo"]


def test_a_fact_that_was_corrected_by_hand_says_that(open_memory):
    memory = open_memory(learning("Ann moved to Oslo"))
    tell(memory, "I moved to Oslo")
    memory.update(facts(memory)[0].id, namespace=ANN, content="Ann moved to Bergen")
    memory.evolve(namespace=ANN)
    assert [(fact.content, fact.state) for fact in facts(memory)] == [
        ("Ann moved to Bergen", "done")
    ]


def test_a_turn_that_is_constructed_again_has_the_facts_of_the_last_time(open_memory):
    memory = open_memory(learning("Ann moved to Oslo", "Ann is in Oslo since May"))
    (turn,) = tell(memory, "I moved to Oslo")
    memory.undo(memory.history(turn.id, namespace=ANN)[-1].id, namespace=ANN)
    memory.evolve(namespace=ANN)
    assert texts(memory) == ["Ann is in Oslo since May"]


@pytest.mark.on_a_server
@pytest.mark.parametrize("corrected", [False, True])
def test_no_fact_has_words_of_a_text_that_is_gone(open_memory, tmp_path, corrected):
    memory = open_memory(CopyingModel(), min_gate_similarity=-1)
    (secret,) = tell(memory, "The safe opens with zanzibar4711")
    for text in ("Thanks a lot", "See you tomorrow then"):
        tell(memory, text)
    assert sum("zanzibar4711" in text for text in texts(memory)) == 3
    if corrected:
        memory.update(secret.id, namespace=ANN, content="The safe is open")
    else:
        memory.delete(secret.id, namespace=ANN)
    memory.export(tmp_path / "all.jsonl", namespace=ANN)
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    holding = [line for line in lines if "zanzibar4711" in line]
    assert all(secret.id in line for line in holding)
    assert bool(holding) == corrected  # in its own history


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("shown", ["new", "before"])
def test_what_goes_while_the_model_answers_is_in_no_fact(open_memory, corrected, shown):
    copying, going = CopyingModel(), []

    def generate(request):
        while going and request.task == "construct":
            note_id = going.pop()
            if corrected:
                memory.update(note_id, namespace=ANN, content="Nothing")
            else:
                memory.delete(note_id, namespace=ANN)
        return copying.generate(request)

    memory = open_memory(ScriptedModel(generate), min_gate_similarity=-1)
    said = NoteInput(content="zanzibar4711 opens it", thread="t")
    remember = "turns" if shown == "before" else "facts"
    (secret,) = memory.add_many(remembered([said], remember), namespace=ANN, evolve=False)
    items = remembered([NoteInput(content="Thanks a lot", thread="t")], "facts")
    memory.add_many(items, namespace=ANN, evolve=False)
    going.append(secret.id)
    memory.evolve(namespace=ANN)
    assert not any("zanzibar4711" in text for text in texts(memory))


def test_a_write_that_failed_half_way_leaves_no_fact_twice(open_memory, monkeypatch):
    memory = open_memory(learning("Ann moved to Oslo", "Ann went to live in Oslo"))
    store = memory._runtime.store
    replace, failed = store.replace, []

    def fails_once(namespace, items, *rest, **options):
        if items and not failed:
            failed.append(True)
            raise ModelUnavailableError("the disk is full")
        return replace(namespace, items, *rest, **options)

    monkeypatch.setattr(store, "replace", fails_once)
    tell(memory, "I moved to Oslo")
    assert texts(memory) == ["Ann moved to Oslo"]
    memory.evolve(namespace=ANN)
    assert texts(memory) == ["Ann went to live in Oslo"]


# --- facts in the place of turns


@pytest.mark.on_a_server
def test_a_turn_gives_way_to_its_facts_and_is_stored_and_searched_all_the_same(open_memory):
    memory = open_memory(learning("Ann moved to Oslo", []))
    (turn,) = tell(memory, "I moved to Oslo", remember="facts_only")
    (other,) = tell(memory, "Oslo is cold", remember="facts_only")
    (fact,) = facts(memory)
    hits = memory.recall("Who moved to Oslo, is it cold?", namespace=ANN)
    assert {hit.note.id for hit in hits} == {fact.id, other.id}  # of the other nothing was learned
    assert "I moved" not in memory.context("Who moved to Oslo?", namespace=ANN)
    assert turn.id in {h.note.id for h in memory.search("Who moved to Oslo?", namespace=ANN)}
    memory.delete(fact.id, namespace=ANN)
    assert turn.id in {h.note.id for h in memory.recall("Who moved to Oslo?", namespace=ANN)}


def test_a_fact_that_may_not_be_shown_hides_no_turn(open_memory):
    memory = open_memory(learning("Ann moved to Oslo"))
    (turn,) = tell(memory, "I moved to Oslo", remember="facts_only")
    for where in ({"speaker": "Ann"}, {"kind": "statement"}, {"source": "user"}):
        hits = memory.recall("Who moved to Oslo?", namespace=ANN, where=where)
        assert [hit.note.id for hit in hits] == [turn.id]


def test_turns_that_give_way_take_no_places_of_others(open_memory):
    def construct(request):
        learned = [
            {"f": f"Ann bought boat {note['content'].split()[-1]}", "of": [note["alias"]]}
            for note in request.inputs["notes"]
        ]
        return {"facts": learned, **models.construct(request)}

    memory = open_memory(ScriptedModel({"construct": construct, "evolve": models.nothing}))
    tell(memory, *(f"I bought boat {number}" for number in range(12)), remember="facts_only")
    hits = memory.recall("Which boat did Ann say that I bought?", namespace=ANN, k=10)
    assert [hit.note.kind for hit in hits] == ["fact"] * 10


def test_facts_and_their_sources_come_with_an_export(open_memory, tmp_path):
    memory = open_memory(learning("Ann moved to Oslo"))
    tell(memory, "I moved to Oslo")
    memory.export(tmp_path / "ann.jsonl", namespace=ANN)
    memory.import_(tmp_path / "ann.jsonl", namespace=("copy",))
    (fact,) = facts(memory, ("copy",))
    turn = memory.get(*fact.sources, namespace=("copy",))
    assert turn.content == "I moved to Oslo"
    memory.delete(turn.id, namespace=("copy",))
    assert facts(memory, ("copy",)) == []


def test_facts_are_no_candidates_for_links_and_stay_out_of_the_thread(open_memory):
    model = learning("Ann moved to Oslo")
    memory = open_memory(model)
    tell(memory, "I moved to Oslo")
    tell(memory, "Oslo is where I moved")
    (asked,) = model.asked("evolve")
    assert [c["content"] for c in asked.inputs["candidates"]] == ["I moved to Oslo"]
    before = model.asked("construct")[-1].inputs["before"]
    assert [turn["content"] for turn in before] == ["I moved to Oslo"]
