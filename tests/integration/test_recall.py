"""`recall` and `context` show what has to do with a question, once, in few tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from support import models
from support.ports import WatchedEmbedder

from amem_integrations import AgenticMemory, InvalidInputError, NoteInput
from amem_integrations.conversation import Message
from amem_integrations.retrieval import ranking
from amem_integrations.thresholds import floor_of

ANN = ("ann",)
START = datetime(2024, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def memory(minilm):
    with AgenticMemory.open(":memory:", embedder=minilm) as opened:
        yield opened


def contents(memory, query, **options):
    return [hit.note.content for hit in memory.recall(query, namespace=ANN, **options)]


def talk(*texts, thread="t", day=0):
    at = START + timedelta(days=day)
    return [NoteInput(content=text, thread=thread, at=at, speaker="Ann") for text in texts]


def test_nothing_is_shown_for_what_nothing_is_known_about(memory):
    memory.add_many(["I earn 50,000 a year.", "I take aspirin.", "Thanks, bye!"], namespace=ANN)
    for query in ("What is 2 + 2?", "Thanks, bye!", "Спасибо!", "谢谢", "Write a haiku."):
        assert memory.context(query, namespace=ANN) == ""
    assert "50,000" in memory.context("How much do I earn?", namespace=ANN)


def test_what_stands_in_the_prompt_is_left_out_and_takes_no_place(memory):
    said, told = "I play the cello in a quartet.", "My quartet meets on Mondays."
    memory.add_many(talk(said, told, "What do you play?", "The cello."), namespace=ANN)
    question = "What about the quartet?"
    assert contents(memory, question, k=1, said=[said]) == [told]
    assert contents(memory, question, k=1, said=[told]) == [said]
    shown = contents(memory, "Is it the cello?", said=["What do you play?"])
    # The question of a short reply is left out, too.
    assert ("The cello." in shown, "What do you play?" in shown) == (True, False)
    with pytest.raises(InvalidInputError, match="must be a list of texts"):
        memory.recall(question, namespace=ANN, said=said)
    for k in ("5", None, -1, True):
        with pytest.raises(InvalidInputError, match=f"k={k!r}"):
            memory.recall(question, namespace=ANN, k=k)


def test_an_exact_name_passes_the_floor_also_without_a_vector(minilm):
    with models.opened(embedder=minilm, min_relevance=0.99) as memory:
        memory.add_many(["Zorbla sold the boat.", "I like jazz."], namespace=ANN)
        said = Message(role="user", text="We adopted a beagle, Rex.")
        memory.remember_turn([said], namespace=ANN, complete=False)
        assert contents(memory, "What about Zorbla?") == ["Zorbla sold the boat."]
        assert contents(memory, "Where does Rex sleep?") == ["We adopted a beagle, Rex."]


def test_an_embedder_that_nobody_measured_has_its_floor_found_once(tmp_path):
    class Unknown(WatchedEmbedder):
        name = "nobody's"

    embedder = Unknown()
    with AgenticMemory.open(tmp_path, embedder=embedder) as memory:
        memory.add_many(["I like jazz.", "My cat is 2 years old."], namespace=ANN)
        embedder.calls.clear()
        assert contents(memory, "What is 2+2?") == []
        assert contents(memory, "Do you like jazz?") == ["I like jazz."]
        gate = memory.info()["min_gate_similarity"]
        assert (memory.info()["min_relevance"], 0 < gate < 1) == (1.0, True)
        assert sum(len(call) > 1 for call in embedder.calls) == 1
    with AgenticMemory.open(tmp_path, embedder=embedder) as memory:
        embedder.calls.clear()
        assert contents(memory, "What is 2+2?") == []
        assert all(len(call) == 1 for call in embedder.calls)
        assert memory.info()["min_gate_similarity"] == gate


def test_an_embedder_that_tells_answers_from_other_notes_has_a_floor_between_them():
    documents = np.eye(3, dtype=np.float32)[[0] * 80 + [1] * 40]
    asked = np.eye(3, dtype=np.float32)[[1] * 40 + [2] * 40]
    assert floor_of(documents, asked)[0] == 1.0  # every answer is as near as can be
    near = np.array([[0.9, np.sqrt(1 - 0.81), 0.0]] * 40, dtype=np.float32)
    assert floor_of(documents, np.vstack([near[:, [1, 0, 2]], asked[40:]]))[0] == 0.9


def test_filler_is_found_but_not_shown_unless_it_answers(memory):
    filler, fact = memory.add_many(["Goodbye!", "Ann said she moves to Oslo."], namespace=ANN)
    assert filler.contexts[0].text == ""
    assert (*filler.keywords, *filler.tags, *filler.links) == ()
    found = memory.search("what did Ann say", namespace=ANN)
    assert [hit.note.id for hit in found] == [fact.id, filler.id]
    assert contents(memory, "What did Ann say?") == [fact.content]
    assert contents(memory, "What did Ann say?", min_similarity=-1) == [fact.content]
    assert filler.content in contents(memory, "Did Ann say goodbye?")
    assert memory.search("Goodbye!", namespace=ANN, k=1)[0].note.id == filler.id
    assert contents(memory, fact.content) == [fact.content]
    memory.add("What did Ann say?", namespace=ANN)  # nor is the question itself
    for where in (None, {"source": "user"}):
        assert contents(memory, "What did Ann say?", where=where) == [fact.content]
    for where in ({"kind": "filler"}, {"$and": [{"kind": "filler"}]}):
        shown = contents(memory, "What did Ann say?", where=where, min_similarity=-1)
        assert shown == ["Goodbye!"]


def test_what_is_said_again_is_shown_once_with_its_last_date(memory):
    for day in range(4):
        memory.add_many(talk("I live in Oslo.", thread=str(day), day=day), namespace=ANN)
    lines = memory.context("Where do I live?", namespace=ANN).splitlines()
    said = "- Ann: I live in Oslo. (said 4 times, last on 4 March 2024)"
    assert lines[2:-1] == ["4 March 2024:", said]


def test_a_short_reply_brings_the_question_it_answers(memory):
    texts = ("I pack. When does the ferry to Gotland leave?", "Half past nine.", "I packed.")
    asked, *_ = memory.add_many(talk(*texts), namespace=ANN)
    shown = memory.context("half past nine", namespace=ANN)
    assert shown.index("ferry to Gotland") < shown.index("Half past nine")
    later = {"seq": {"$gt": asked.seq}}
    assert "ferry" not in memory.context("half past nine", namespace=ANN, where=later)
    memory.update(asked.id, namespace=ANN, expires_at=asked.recorded_at)
    assert "ferry" not in memory.context("half past nine", namespace=ANN)
    with models.opened(model=models.model(models.link_to_first)) as linked:
        for thread, count in (("a", 2), ("b", 1)):  # a question of another thread is none of its
            linked.add("I pack. Do we leave at half past nine?", namespace=(thread,), thread="a")
            note = linked.add("Half past nine.", namespace=(thread,), thread=thread)
            assert len(note.links) == 1
            assert len(linked.recall("Half past nine", namespace=(thread,), k=1)) == count


def test_the_budget_holds_and_is_filled(memory):
    texts = [f"Ann visited town number {n} and liked the old harbour there." for n in range(80)]
    memory.add_many(talk(*texts), namespace=ANN, evolve=False)
    for least, most in ((150, 200), (700, 800)):
        text = memory.context("Which towns did Ann visit?", namespace=ANN, max_tokens=most)
        assert least < len(text.encode()) / 4 <= most


def test_three_hundred_questions_do_not_hide_a_statement(memory):
    asked = [f"What is my dog called, number {n}?" for n in range(300)]
    memory.add_many(["We adopted a beagle, Rex.", *asked], namespace=ANN, evolve=False)
    hits = memory.search("What is my dog called?", namespace=ANN, k=3)
    assert hits[0].note.content == "We adopted a beagle, Rex."


def test_what_an_assistant_says_in_a_conversation_counts_less_than_what_it_stores_by_itself(memory):
    scores = []
    for thread in (None, "t"):
        said = {"namespace": (f"{thread}",), "thread": thread, "source": "assistant"}
        memory.add("Rex the beagle likes carrots.", evolve=False, **said)
        (hit,) = memory.search("What does Rex like?", namespace=said["namespace"])
        scores.append(hit.score)
    assert scores[0] > 2 * scores[1]


def sailing(memory, other, times=1):
    """Add two notes that are linked, and many others."""
    said = {"namespace": ANN, "thread": "t"}
    texts = ("We sail our boat to Gotland. " * times, "Half past nine on Tuesday.")
    linked = [memory.add(text, **said) for text in texts]
    memory.add_many([f"{other} {n}" for n in range(80)], namespace=ANN, evolve=False)
    return linked


def test_a_hit_says_how_its_score_came_about_and_over_which_link_it_was_found():
    with models.opened(model=models.model(models.link_to_first)) as memory:
        first, second = sailing(memory, "Decoy")
        match, _, hit = memory.search("our boat to Gotland", namespace=ANN, k=3, explain=True)
        assert (match.note.id, match.why.dense_rank, match.why.lexical_rank) == (first.id, 1, 1)
        assert match.why.fusion == pytest.approx(match.why.match) == pytest.approx(2 / 11)
        assert (hit.note.id, hit.why.lexical_rank) == (second.id, None)
        assert [(step.note_id, step.relation) for step in hit.via] == [(first.id, "continues")]
        assert hit.why.spread == pytest.approx(ranking.SPREAD * match.why.fusion)
        assert hit.score == pytest.approx(hit.why.fusion + hit.why.spread)
        alone = memory.search("our boat to Gotland", namespace=ANN, k=3, links=False)
        assert [found.why for found in alone] == [None] * 3
        assert second.id not in [found.note.id for found in alone]


def meddle(memory, monkeypatch, is_moment, happens):
    """Let something happen before a read of notes by their ids, once."""
    store = memory._runtime.store

    def read(namespace, ids, **options):
        if is_moment(ids, options):
            monkeypatch.undo()
            happens()
        return type(store).notes(store, namespace, ids, **options)

    monkeypatch.setattr(store, "notes", read)


def test_a_link_that_goes_while_a_search_is_under_way_is_still_the_way_to_its_hit(monkeypatch):
    def unlink():
        (made,) = [c for c in memory.history(second.id, namespace=ANN) if c.kind == "link"]
        memory.undo(made.id, namespace=ANN)

    with models.opened(model=models.model(models.link_to_first)) as memory:
        first, second = sailing(memory, "Decoy", times=60)
        meddle(memory, monkeypatch, lambda _, options: options.get("vectors"), unlink)
        *_, hit = memory.search("our boat to Gotland", namespace=ANN, k=3)
        assert memory.get(second.id, namespace=ANN).links == {}
        assert [step.note_id for step in hit.via] == [first.id]


def test_a_note_that_is_deleted_while_a_search_is_under_way_is_no_hit(monkeypatch):
    def is_linked(ids, _options):  # its link was read
        return second.id in ids and first.id not in ids

    with models.opened(model=models.model(models.link_to_first)) as memory:
        first, second = sailing(memory, "Our boat")
        meddle(memory, monkeypatch, is_linked, lambda: memory.delete(second.id, namespace=ANN))
        hits = memory.search("our boat to Gotland", namespace=ANN, k=3)
        assert memory.get_all(namespace=ANN, where={"id": second.id}) == []
        assert hits[0].note.id == first.id
        assert second.id not in {hit.note.id for hit in hits}


def test_a_name_in_the_message_before_a_question_passes_the_floor(minilm):
    with models.opened(embedder=minilm, min_relevance=0.9) as memory:
        memory.add_many(["Anna sells old maps.", "Bob plays chess."], namespace=ANN)
        memory.add("They open in March.", namespace=ANN)
        before = ["Anna is off to Rome."]
        found = contents(memory, "And where does she work?", messages=before)
        assert found == ["Anna sells old maps."]
        assert contents(memory, "What did we do in March?") == ["They open in March."]


def test_settings_override_what_is_found_for_an_embedder():
    with models.opened(min_relevance=-1, min_gate_similarity=0.0) as memory:
        memory.add("I like jazz.", namespace=ANN)
        assert contents(memory, "What is 2 + 2?") == ["I like jazz."]
        told = memory.info()
        assert (told["min_relevance"], told["min_gate_similarity"]) == (-1, 0.0)
