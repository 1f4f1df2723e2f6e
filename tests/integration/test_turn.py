"""The turn of a conversation: what every adapter is built on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support import models
from support.ports import WatchedEmbedder

from amem_integrations import AgenticMemory, adapting, errors
from amem_integrations.conversation import Message, message_key, occurrence_key

ANN, BOB = ("ann",), ("bob",)


class Deaf(WatchedEmbedder):
    """An embedder that hears no question either while it is down."""

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture
def embedder():
    return Deaf()


@pytest.fixture
def memory(embedder):
    with AgenticMemory.open(":memory:", embedder=embedder) as memory:
        yield memory


def user(text, known=None, **more):
    return Message(role="user", text=text, id=known, **more)


def bot(text, known=None, **more):
    return Message(role="assistant", text=text, id=known, **more)


def answer(text, known=None):
    """What is said to the question `q`."""
    return bot(text, known or text, metadata={adapting.ANSWERS: "q"})


@contextmanager
def outage(memory):
    """Notes cannot be stored meanwhile."""

    def refuse(*_):
        raise errors.StoreError("no room")

    with pytest.MonkeyPatch.context() as down:
        down.setattr(memory._runtime.store, "insert_notes", refuse)
        yield


def contents(memory, namespace=ANN):
    return [note.content for note in memory.get_all(namespace=namespace)]


def test_what_is_said_is_recalled_and_what_the_prompt_says_is_not(memory):
    memory.remember_turn([user("I moved to Oslo in May.", "m1")], namespace=ANN, thread="a")
    asked = [user("Hello!"), bot("Hi"), user("Where is Oslo?")]
    recalled = memory.recall_turn(asked, namespace=ANN)
    assert [hit.note.content for hit in recalled.hits] == ["I moved to Oslo in May."]
    assert "I moved to Oslo in May." in recalled.text
    again = [user("I moved to Oslo in May."), user("Where is Oslo?")]
    assert memory.recall_turn(again, namespace=ANN).text == ""
    odd = [user(f"I moved to Paris\0.{'!' * memory.config.max_content_chars}", "m2")]
    memory.remember_turn(odd, namespace=("odd",))
    assert memory.recall_turn([*odd, user("Where is Paris?")], namespace=("odd",)).text == ""
    assert memory.recall_turn([bot("Oslo?")], namespace=ANN).hits == []
    answered = [bot("The canteen is on the roof."), user("Where is the canteen?")]
    memory.remember_turn(answered[:1], namespace=("eve",))
    counts = [len(memory.recall_turn(m, namespace=("eve",)).hits) for m in (answered, answered[1:])]
    assert counts == [0, 1]
    memory.add("The office is in Oslo.", namespace=BOB, evolve=False)
    recalled = memory.recall_turn([user("Where is the office?")], namespace=ANN, also={"team": BOB})
    assert "from team: The office is in Oslo." in recalled.text
    assert "from team" in memory.context("the office", namespace=ANN, also={"team": list(BOB)})
    for k in (1, 2):
        assert len(memory.recall("the office in Oslo", namespace=ANN, also={"team": BOB}, k=k)) == k
    again = {"team": list(BOB), "again": BOB, "own": ANN}  # each is read once
    hits = memory.search("the office", namespace=ANN, also=again)
    assert [hit.note.namespace for hit in hits] == [BOB, ANN]
    with pytest.raises(errors.InvalidInputError, match="also"):
        memory.search("the office", namespace=ANN, also={"": BOB})
    with pytest.raises(errors.NamespaceError):
        memory.recall("the office", namespace=ANN, also={"team": ()})


def test_what_was_said_before_a_question_makes_it_clear_as_far_back_as_the_window(memory):
    memory.add("Ella is a guide at the museum.", namespace=ANN, evolve=False)
    talk = [user("My sister Ella is coming."), user("And where does she work?")]
    for window, found in ((2, True), (0, False)):
        recalled = memory.recall_turn(talk, namespace=ANN, window=window)
        assert ("museum" in recalled.text) == found


def test_a_message_is_known_by_its_id_or_by_its_text_and_occurrence(memory):
    talk = [user("ok", "m1"), user("ok"), bot("ok"), user("ok")]
    for _ in range(2):
        notes = memory.remember_turn(talk, namespace=ANN, thread="a").notes
        assert [note.key for note in notes] == [
            message_key("a", "user", "m1"),
            occurrence_key("a", "user", "ok", 1),
            occurrence_key("a", "assistant", "ok", 1),
            occurrence_key("a", "user", "ok", 2),
        ]
    assert contents(memory) == ["ok"] * 4
    for message in talk:  # each as it is said is the same
        memory.remember_turn([message], namespace=BOB, thread="a", new=True)
    memory.remember_turn(talk, namespace=BOB, thread="a")
    assert contents(memory, BOB) == ["ok"] * 4


def test_equal_messages_that_are_new_are_notes_of_their_own(memory):
    for _ in range(11):
        memory.remember_turn([user("ok")], namespace=ANN, thread="a", new=True)
    memory.remember_turn([user("ok"), user("ok")], namespace=ANN, thread="a", new=True)
    assert contents(memory) == ["ok"] * 13
    memory.remember_turn([user("ok")] * 13, namespace=ANN, thread="a")
    assert len(contents(memory)) == 13


def test_an_edited_message_edits_its_note_and_a_corrected_or_deleted_note_stays(memory):
    said = [user("I live in Munich.", "m1"), user("I like tea.", "m2"), user("I sing.", "m3")]
    munich, tea, _ = memory.remember_turn(said, namespace=ANN, complete=False).notes
    memory.update(munich.id, namespace=ANN, content="I live in Berlin.")
    memory.delete(tea.id, namespace=ANN)
    memory.remember_turn([bot("Nice!", "a")], namespace=ANN)  # what became of a question stays
    said[2] = user("I dance.", "m3")
    notes = memory.remember_turn(said, namespace=ANN).notes
    assert sorted(contents(memory)) == ["I dance.", "I live in Berlin.", "Nice!"]
    assert [note.content for note in notes] == ["I live in Berlin.", "I dance."]
    assert without_vectors(memory, "I live") == []
    memory.update(notes[1].id, namespace=ANN, content="I waltz.")
    memory.remember_turn(said, namespace=ANN)
    assert "I waltz." in contents(memory)
    said = [user("Hi"), Message(role="tool", text="42"), Message(role="system", text="Be kind.")]
    said[1] = replace(said[1], metadata={"room": "b"})  # its own counts
    options = {"namespace": BOB, "roles": ("tool", "system"), "metadata": {"room": "a"}}
    notes = memory.remember_turn(said, **options).notes
    found = [(note.content, note.metadata["room"]) for note in notes]
    assert found == [("42", "b"), ("Be kind.", "a")]
    with pytest.raises(errors.InvalidInputError):
        memory.remember_turn(said, namespace=BOB, roles="user")


def test_answers_that_are_given_again_in_a_thread_take_the_place_of_the_old_and_are_returned(
    memory,
):
    for text in ("It is 41.", "It is 42."):
        turn = [user("How much?", "q"), answer(text)]
        done = memory.remember_turn(turn, namespace=ANN, thread="t")
        assert [note.content for note in done.notes] == ["How much?", text]
    assert contents(memory) == ["How much?", "It is 42."]
    # So too are several that take the place of one.
    turn = [user("How much?", "q"), answer("One moment."), answer("It is 43.")]
    memory.remember_turn(turn, namespace=ANN, thread="t")
    assert contents(memory) == ["How much?", "One moment.", "It is 43."]
    # In another thread whose messages have the same ids it is another.
    turn = [user("How much?", "q"), answer("It is 44.", "It is 43.")]
    memory.remember_turn(turn, namespace=ANN, thread="u")
    assert contents(memory)[2:] == ["It is 43.", "How much?", "It is 44."]


def test_each_of_several_agents_has_its_own_answer_to_a_question(memory):
    question = user("How much?", "q")
    for agent, speaker, text in (("", "Eva", "1"), ("", "Tom", "2"), ("a", "Eva", "3")):
        for given in (f"{text}?", text):  # each of them is asked again
            said = replace(answer(given), speaker=speaker)
            memory.remember_turn([question, said], namespace=ANN, thread="t", agent=agent)
    assert contents(memory) == ["How much?", "1", "2", "3"]


def test_an_answer_is_given_again_also_to_a_question_that_no_embedder_takes(memory, embedder):
    make = embedder.embed_documents
    embedder.embed_documents = lambda texts: make(texts) * [["x" not in text] for text in texts]
    for text in ("It is 41.", "It is 42."):
        memory.remember_turn([user("x?", "q")], namespace=ANN, thread="t", complete=False)
        memory.remember_turn([answer(text)], namespace=ANN, thread="t")
    assert contents(memory) == ["x?", "It is 42."]


def test_of_a_message_that_another_process_stores_at_once_the_later_wording_stands(
    memory, monkeypatch
):
    def meddle(namespace, notes):
        monkeypatch.undo()
        memory.remember_turn([user("I live in Rome.", "m")], namespace=ANN, thread="t")
        return memory._runtime.store.insert_notes(namespace, notes)

    monkeypatch.setattr(memory._runtime.store, "insert_notes", meddle)
    done = memory.remember_turn([user("I live in Oslo.", "m")], namespace=ANN, thread="t")
    assert [note.content for note in done.notes] == contents(memory) == ["I live in Oslo."]


def test_a_message_that_another_process_stores_before_the_vectors_are_made_is_one_note(
    memory, monkeypatch
):
    find = memory._runtime.store.find_notes

    def meddle(namespace, query):
        monkeypatch.undo()
        memory.remember_turn([user("I live in Rome.", "m")], namespace=ANN, complete=False)
        memory.remember_turn([user("Yes.")], namespace=ANN, new=True, complete=False)
        return find(namespace, query)

    monkeypatch.setattr(memory._runtime.store, "find_notes", meddle)
    said = [user("I live in Oslo.", "m"), user("Yes.")]
    done = memory.remember_turn(said, namespace=ANN, new=True)
    assert [note.content for note in done.notes] == ["I live in Oslo.", "Yes."]
    assert contents(memory) == ["I live in Oslo.", "Yes.", "Yes."]
    earlier = [change.before for change in memory.history(done.notes[0].id, namespace=ANN)]
    assert any("I live in Rome." in str(one) for one in earlier)


def test_what_no_store_takes_is_an_error_of_its_own_turn_also_in_an_outage(memory):
    own = [{adapting.HASH: "x"}, {adapting.ANSWERS: "q"}]
    for bad in ({"by_year": {2026: "x"}}, {"huge": 2**70}, *own):
        wrong = pytest.raises(errors.InvalidInputError, match=next(iter(bad)))
        with outage(memory), wrong:
            memory.remember_turn([user("Bad.")], namespace=ANN, thread="t", metadata=bad)
    memory.remember_turn([user("Good.")], namespace=ANN, thread="t")
    assert contents(memory) == ["Good."]


def test_a_turn_calls_the_embedder_twice(memory, embedder):
    asked = user("I moved to Oslo.", "m1")
    memory.recall_turn([asked], namespace=ANN)
    memory.remember_turn([asked], namespace=ANN, thread="a", complete=False)
    assert memory.search("Oslo", namespace=ANN, k=1)
    embedder.calls.clear()
    memory.remember_turn([bot("Nice!", "m2")], namespace=ANN, thread="a")
    assert len(embedder.calls) == 1
    assert without_vectors(memory, "I moved to Oslo.") == []
    embedder.calls.clear()
    said = [asked, bot("Nice!", "m2"), user("And since when do I live there?", "m3")]
    memory.recall_turn(said, namespace=ANN)  # what was said before has its vectors
    assert len(embedder.calls) == 1


def without_vectors(memory, query):
    hits = memory.search(query, namespace=ANN)
    assert hits
    return [hit.note.content for hit in hits if hit.similarity is None]


def test_the_next_turn_gives_vectors_to_what_was_stored_without(
    memory, embedder, monkeypatch, tmp_path
):
    memory.remember_turn([user("Hello there, I am Ann.", "m0")], namespace=ANN)

    def interrupted(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed_documents", interrupted)
        memory.remember_turn([user("I moved to Oslo.", "m1")], namespace=ANN, complete=False)
        with pytest.raises(KeyboardInterrupt):
            memory.remember_turn([bot("Nice!", "m2")], namespace=ANN)
    embedder.down = True
    memory.add("I like tea.", namespace=ANN, evolve=False)
    embedder.down = False
    memory.remember_turn([user("I have a cat.", "m3")], namespace=ANN)
    hits = memory.search("I moved to Oslo, and like tea.", namespace=ANN)
    assert {"I moved to Oslo.", "I like tea."} <= {hit.note.content for hit in hits}
    assert None not in [hit.similarity for hit in hits]
    for complete, message in ((False, user("I moved to Oslo.", "m1")), (True, bot("Nice!", "m2"))):
        with models.opened(tmp_path) as other:  # the turn is cut off, and another process goes on
            other.remember_turn([message], namespace=ANN, thread="a", complete=complete)
            assert bool(without_vectors(other, "I moved to Oslo.")) is not complete


def test_more_notes_than_a_page_get_their_vectors_turn_by_turn(memory, embedder):
    embedder.down = True
    memory.add_many([f"Fact {n} is this." for n in range(100)], namespace=ANN, evolve=False)
    embedder.down = False
    for known in ("1", "2"):
        memory.remember_turn([bot("Good.", known)], namespace=ANN)
    assert sum(map(len, embedder.calls)) == 101  # the answer once


@pytest.mark.enable_socket
def test_a_turn_that_another_process_goes_on_with_has_vectors_and_one_answer(fake, open_memory):
    def stores(memory, complete, *messages):
        memory.remember_turn(messages, namespace=ANN, thread="t", complete=complete)

    asked, more = user("I moved to Oslo.", "q"), user("I like tea.", "r")
    killed, other = (open_memory(location=fake.url) for _ in range(2))
    stores(other, True, user("Hello!", "h"))
    for process, text in ((killed, "first"), (other, "second")):
        stores(process, False, asked)
        stores(process, True, answer(text))
    assert contents(other) == ["Hello!", "I moved to Oslo.", "second"]
    for process in (killed, other):
        stores(process, False, more)
    stores(other, True, bot("So do I.", "s"))
    assert without_vectors(other, "I like tea.") == []


def test_what_an_agent_remembers_takes_the_place_of_a_users_words_only_if_it_may(memory):
    for may in (False, True):
        old = memory.add(f"Ann lives in Oslo, {may}.", namespace=ANN)
        own = memory.add(f"Ann rents a flat, {may}.", namespace=ANN, source="assistant")
        given = {"supersedes": [old.id, own.id, old.id], "assistant_supersedes": may}
        moved = f"Ann moved to Rome, {may}."
        note, taken = memory.remember_fact(moved, namespace=ANN, thread="a", **given)
        assert (note.source, note.thread) == ("assistant", "a")
        assert taken == ([old.id, own.id] if may else [own.id])
        assert (memory.get(old.id, namespace=ANN).superseded_by == note.id) is may
    assert len(memory.proposals(namespace=ANN)) == 1
    notes = contents(memory)
    for may in (False, True):
        gone = {"supersedes": [note.id, "no id"], "assistant_supersedes": may}
        with pytest.raises(errors.NoteNotFoundError):
            memory.remember_fact("Ann dances.", namespace=ANN, **gone)
    assert contents(memory) == notes


def test_a_failing_embedder_takes_nothing_away_and_is_reported(memory, embedder):
    memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
    embedder.down = True
    recalled = memory.recall_turn([user("Where is Oslo?")], namespace=ANN)
    assert "Oslo" in recalled.text
    assert "no route" in str(recalled.error)
    done = memory.remember_turn([user("I like tea.", "m1")], namespace=ANN)
    assert [note.content for note in done.notes] == ["I like tea."]
    assert done.error is not None
    embedder.down = False
    assert memory.remember_turn([bot("Good.", "m2")], namespace=ANN).error is None
    assert without_vectors(memory, "I like tea.") == []
    assert memory.stats()["usage"]["search"]["without_vectors"] == 1


def test_what_an_outage_kept_from_being_stored_follows_with_the_next_turn_there(memory):
    memory._runtime.outbox._most = 2
    for text in ("too long ago", "yes", "yes"):  # there is room for two, and the oldest is given up
        with outage(memory), pytest.raises(errors.StoreError):
            memory.remember_turn([user(text)], namespace=ANN, thread="a", new=True)
    memory.remember_turn([user("Hello")], namespace=BOB, thread="a", new=True)
    assert contents(memory, BOB) == ["Hello"]
    notes = memory.remember_turn([bot("Good.")], namespace=ANN, thread="a", new=True).notes
    assert [note.content for note in notes] == ["Good."]
    assert contents(memory) == ["yes", "yes", "Good."]
    # What was edited meanwhile is stored in its last words.
    edited = user("I live in Oslo.", "m1", stored=None)
    never = user("I was never stored.", "m9", stored=None)
    for turn in ([user("I live in Rome.", "m1")], [edited, never]):
        with outage(memory), pytest.raises(errors.StoreError):
            memory.remember_turn(turn, namespace=BOB)
    memory.remember_turn([user("It rains.", "m2")], namespace=BOB)
    assert contents(memory, BOB)[1:] == ["I live in Oslo.", "It rains."]


def test_what_an_outage_kept_from_being_stored_is_gone_when_its_namespace_is_cleared(memory):
    for space in (ANN, BOB):
        with outage(memory), pytest.raises(errors.StoreError):
            memory.remember_turn([user("I live in Oslo.", "m1")], namespace=space)
    memory.clear(namespace=ANN)
    for space in (ANN, BOB):
        memory.remember_turn([user("Hello", "m2")], namespace=space)
    assert contents(memory) == ["Hello"]
    assert contents(memory, BOB) == ["I live in Oslo.", "Hello"]


def test_what_was_said_to_a_question_before_an_outage_stays_beside_its_answer(memory):
    talk = [user("How much?", "q"), answer("One moment."), answer("It is 42.")]
    memory.remember_turn(talk[:2], namespace=ANN, thread="t")
    with outage(memory), pytest.raises(errors.StoreError):
        memory.remember_turn(talk, namespace=ANN, thread="t")
    over = [replace(one, stored=False) for one in talk]
    memory.remember_turn([*over, user("Thanks.", "r")], namespace=ANN, thread="t")
    assert contents(memory) == ["How much?", "One moment.", "It is 42.", "Thanks."]
    # So too where the next turn is one of another thread.
    with outage(memory), pytest.raises(errors.StoreError):
        memory.remember_turn([*over, answer("It is 43 by now.")], namespace=ANN, thread="t")
    memory.remember_turn([user("Hello.", "s")], namespace=ANN, thread="s")
    assert contents(memory)[3:] == ["Thanks.", "It is 43 by now.", "Hello."]


def test_a_message_that_was_stored_before_an_error_is_one_note(memory, monkeypatch):
    insert = memory._runtime.store.insert_notes

    def stores_and_fails(*given):
        insert(*given)
        raise errors.StoreError("no answer")

    with monkeypatch.context() as down:
        down.setattr(memory._runtime.store, "insert_notes", stores_and_fails)
        for _ in range(2):
            with pytest.raises(errors.StoreError):
                memory.remember_turn([user("yes")], namespace=ANN, thread="t", new=True)
    memory.remember_turn([bot("Good.")], namespace=ANN, thread="t", new=True)
    assert contents(memory) == ["yes", "yes", "Good."]


def test_only_messages_that_are_there_are_looked_at(memory):
    said = [user("I sing.", "m1"), user("I dance.", "m2")]
    memory.remember_turn(said[:1], namespace=ANN)
    looked_at = [replace(one, stored=None, text=one.text + "!") for one in said]
    notes = memory.remember_turn([*looked_at, user("Hi"), user("?", stored=None)], namespace=ANN)
    assert [note.content for note in notes.notes] == ["Hi"]
    assert contents(memory) == ["I sing.!", "Hi"]


async def test_a_cancelled_turn_is_stored_with_the_next_one(memory, monkeypatch):
    async def forever(*_, **__):
        await asyncio.sleep(60)

    with monkeypatch.context() as slow:
        slow.setattr(memory._runtime.store, "notes", forever)
        task = asyncio.create_task(memory.aremember_turn([user("Hello", "m1")], namespace=ANN))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await memory.aremember_turn([bot("Hi", "m2")], namespace=ANN)
    assert contents(memory) == ["Hello", "Hi"]


def test_who_waits_for_the_worker_and_is_cancelled_leaves_no_thread_that_waits(open_memory):
    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(memory.aflush(), 0.05)

    gate = threading.Event()
    memory = open_memory(models.model(construct=lambda _: gate.wait(10) and {"notes": []}))
    memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
    memory.evolve_later(ANN)
    asyncio.run(give_up())  # which waits for all threads of the loop
    assert not memory.flush(0)
    gate.set()
    assert asyncio.run(memory.aflush())


def test_a_worker_takes_up_what_an_earlier_process_left(tmp_path):
    gate = threading.Event()

    def waiting(request):
        assert gate.wait(10)
        revoked = errors.ConfigurationError("the key was revoked")
        return models.refusing(lambda said: said[0] == "I left.", revoked)(request)

    with models.opened(tmp_path) as memory:
        note = memory.add("I moved to Oslo.", namespace=ANN, evolve=False)
    with models.opened(tmp_path, models.model(construct=waiting), worker=True) as memory:
        assert not asyncio.run(memory.aflush(0.01))
        gate.set()
        assert memory.flush(timeout=10)
        assert memory.get(note.id, namespace=ANN).state == "done"
        memory.add("I left.", namespace=ANN, evolve=False)
        memory.evolve_later(ANN)
        with pytest.raises(errors.ConfigurationError, match="revoked"):
            memory.flush(timeout=10)
        assert memory.flush(timeout=10)  # it is told once
