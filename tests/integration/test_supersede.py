"""What is true now, and what was true before: notes that take the place of earlier ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support import models

from amem_integrations import InvalidInputError, NamespaceError, NoteInput, NoteNotFoundError

ANN, BOB = ("ann",), ("bob",)
DAY = timedelta(days=1)


def day(number):
    return datetime(2024, 3, 1, 12, tzinfo=UTC) + number * DAY


@pytest.fixture
def memory(open_memory):
    return open_memory()


def add(memory, content, at, **fields):
    return memory.add(content, namespace=ANN, at=day(at), evolve=False, **fields)


def found(memory, query, **options):
    return [hit.note.content for hit in memory.search(query, namespace=ANN, **options)]


def replacing(relation="updates", **more):
    """A model by which a note that begins with "Now" takes the place of all its candidates but later ones."""
    said = {"relation": relation, "reason": "it was moved", **more}

    def evolve(note):
        if note["content"].startswith("Now"):
            return {"supersedes": [{"to": each["alias"], **said} for each in note["candidates"]]}
        return None

    return models.model(models.each(evolve))


def moved(memory, **said):
    """Say when a meeting is, and that it was moved."""
    old = memory.add("The stand-up is at ten", namespace=ANN, at=day(0))
    new = memory.add("Now the stand-up is at nine", namespace=ANN, at=day(1), **said)
    return old, new


@pytest.mark.on_a_server
def test_what_takes_a_notes_place_stands_above_it_in_all_namespaces_and_the_hit_says_so(memory):
    old = add(memory, "The wedding is on 14 June", 0)
    new = add(memory, "It was moved to the 21st", 1, supersedes=[old.id])
    first, second = memory.search("When is the wedding on June 14?", namespace=ANN)
    assert (first.note.id, first.superseded_by) == (new.id, None)
    assert (second.note.id, second.superseded_by) == (old.id, new.id)
    assert second.note.superseded_since == new.when
    assert first.score >= second.score
    cake = memory.add("The wedding cake is tall", namespace=BOB, evolve=False)
    hits = memory.search("The wedding is on 14 June", namespace=ANN, also={"bob": BOB})
    assert [hit.note.id for hit in hits] == [new.id, old.id, cake.id]


@pytest.mark.on_a_server
def test_a_replacement_that_no_word_finds_is_brought_in_with_the_reason(memory):
    old = add(memory, "The wedding is on 14 June", 0)
    for number in range(30):
        add(memory, f"A train to town {number}", 1)
    new = add(memory, "Porto instead", 2)
    memory.supersede(old.id, new.id, namespace=ANN, reason="another date")
    hits = memory.search("The wedding is on 14 June", namespace=ANN, k=2)
    assert [hit.note.id for hit in hits] == [new.id, old.id]
    (step,) = hits[0].via
    assert (step.note_id, step.relation, step.reason) == (old.id, "updates", "another date")


@pytest.mark.on_a_server
def test_where_keeps_a_replacement_out_and_the_old_note_is_shown_marked(memory):
    old = add(memory, "The wedding is on 14 June", 0, metadata={"city": "Porto"})
    new = add(memory, "The wedding is on 21 June", 1, supersedes=[old.id])
    (hit,) = memory.search("wedding", namespace=ANN, where={"metadata.city": "Porto"})
    assert (hit.note.id, hit.superseded_by) == (old.id, new.id)
    text = memory.context("wedding", namespace=ANN, where={"metadata.city": "Porto"})
    assert "14 June" in text
    assert "no longer so since 2 March 2024" in text


@pytest.mark.on_a_server
def test_a_chain_is_led_to_its_end_and_an_undo_in_the_middle_mends_it(memory):
    a, b, c = (
        add(memory, f"The code is {word}", n) for n, word in enumerate(("oak", "elm", "ash"))
    )
    memory.supersede(a.id, b.id, namespace=ANN)
    middle = memory.supersede(b.id, c.id, namespace=ANN)
    assert found(memory, "The code is oak") == [n.content for n in (c, b, a)]
    hits = memory.search("The code", namespace=ANN)
    assert [hit.superseded_by for hit in hits] == [None, c.id, c.id]
    undone = memory.undo(middle.id, namespace=ANN)
    hits = memory.search("The code", namespace=ANN)
    assert {h.note.id: h.superseded_by for h in hits} == {a.id: b.id, b.id: None, c.id: None}
    memory.undo(undone.id, namespace=ANN)
    assert memory.get(b.id, namespace=ANN).superseded_by == c.id


def test_a_fact_that_changes_back_is_a_note_of_its_own(memory):
    berlin = memory.add("I live in Berlin", namespace=ANN, evolve=False)
    munich = memory.add("I live in Munich", namespace=ANN, supersedes=[berlin.id], evolve=False)
    again = memory.add("I live in Berlin", namespace=ANN, supersedes=[munich.id], evolve=False)
    assert len({berlin.id, munich.id, again.id}) == 3
    assert memory.search("Where do I live?", namespace=ANN, k=1)[0].note.id == again.id
    assert memory.add("I live in Berlin", namespace=ANN, evolve=False).id == again.id


def test_several_older_notes_are_replaced_at_once(memory):
    ids = []
    for number in range(12):  # each replaces all before it
        ids.append(add(memory, f"I weigh {number} kilos", number, supersedes=[*ids]).id)
    hits = memory.search("I weigh 0 kilos", namespace=ANN, k=20)
    assert hits[0].note.id == ids[-1]
    assert {hit.superseded_by for hit in hits[1:]} == {ids[-1]}
    assert memory.get(ids[0], namespace=ANN).superseded_by == ids[-1]
    # Of two that replace a note, and not each other, the later one counts.
    tea = add(memory, "I drink tea", 0)
    for number, drink in enumerate(("mate", "coffee"), start=1):
        last = add(memory, f"Mostly {drink}", number, supersedes=[tea.id])
    (hit,) = (h for h in memory.search("I drink tea", namespace=ANN) if h.note.id == tea.id)
    assert hit.superseded_by == last.id


def test_what_was_true_then_and_what_is_true_now(memory):
    old = add(memory, "Ann works at the harbour", 0)
    new = add(memory, "Ann works at the school", 10, supersedes=[old.id])
    assert found(memory, "Where does Ann work?", as_of=day(5)) == ["Ann works at the harbour"]
    (then,) = memory.search("Where does Ann work?", namespace=ANN, as_of=day(5))
    assert then.superseded_by is then.note.superseded_by is None
    assert memory.get(old.id, namespace=ANN, as_of=day(5)).superseded_by is None
    assert [n.content for n in memory.get_all(namespace=ANN, as_of=day(5))] == [old.content]
    for then in ({"as_of": new.at}, {"known_at": new.recorded_at}):  # its own moment counts
        assert len(memory.get_all(namespace=ANN, **then)) == 2
    with pytest.raises(NoteNotFoundError, match="later"):
        memory.get(new.id, namespace=ANN, as_of=day(5))
    assert "school" not in memory.context("Ann", namespace=ANN, as_of=day(5))
    assert found(memory, "Where does Ann work?")[0] == "Ann works at the school"


def test_what_the_memory_believed_then(memory):
    old = memory.add("The stand-up is at ten", namespace=ANN, at=day(0))
    before = datetime.now(UTC)
    new = memory.add("Now the stand-up is at nine", namespace=ANN, at=day(1), supersedes=[old.id])
    between = datetime.now(UTC)
    memory.update(old.id, namespace=ANN, content="The stand-up is at eleven")
    (hit,) = memory.search("stand-up", namespace=ANN, known_at=before)
    assert (hit.note.id, hit.superseded_by) == (old.id, None)
    hits = memory.search("stand-up", namespace=ANN, known_at=between)
    assert [(hit.note.id, hit.note.content) for hit in hits] == [
        (n.id, n.content) for n in (new, old)
    ]
    assert hits[1].superseded_by == new.id
    assert memory.get(old.id, namespace=ANN, known_at=between).content == "The stand-up is at ten"
    assert len(memory.get_all(namespace=ANN, known_at=before)) == 1
    with pytest.raises(NoteNotFoundError, match="later"):
        memory.get(new.id, namespace=ANN, known_at=before)


def test_what_was_deleted_since_is_in_neither_what_was_true_nor_what_was_believed_then(memory):
    gone = add(memory, "The stand-up is at ten", 0)
    kept = add(memory, "The stand-up is in room 5", 0)
    then = datetime.now(UTC)
    memory.delete(gone.id, namespace=ANN)
    for time in ({"as_of": day(1)}, {"known_at": then}):
        assert found(memory, "When is the stand-up?", **time) == [kept.content]
        assert [note.id for note in memory.get_all(namespace=ANN, **time)] == [kept.id]


def test_an_exception_for_a_time_gives_way_again_when_it_is_over(memory):
    usual = add(memory, "The stand-up is at ten", 0)
    week = add(memory, "The stand-up is at eleven", 1, supersedes=[usual.id], until=day(5))
    hits = memory.search("When is the stand-up?", namespace=ANN, as_of=day(3))
    assert [(h.note.id, h.is_over) for h in hits] == [(week.id, False), (usual.id, False)]
    hits = memory.search("The stand-up is at eleven", namespace=ANN)
    assert [(h.note.id, h.is_over) for h in hits] == [(usual.id, False), (week.id, True)]
    assert [h.superseded_by for h in hits] == [None, None]
    assert "no longer so since 6 March 2024" in memory.context("stand-up", namespace=ANN)


def test_a_note_holds_until_the_user_says_or_the_end_of_the_day_that_a_model_reads(open_memory):
    construct = models.each(lambda note: models.attributes(note) | {"until": "2024-03-04"})
    memory = open_memory(models.model(construct=construct))
    for until, end in ((None, datetime(2024, 3, 5, tzinfo=UTC)), (day(9), day(9))):
        note = memory.add(f"The fair lasts {until}", namespace=ANN, at=day(0), until=until)
        assert note.holds_until == end


def test_what_was_replaced_is_brought_back_where_only_the_exception_is_found(memory):
    usual = add(memory, "Daily meeting: ten sharp", 0)
    week = add(memory, "Exceptionally eleven", 1, supersedes=[usual.id], until=day(5))
    hits = memory.search("Exceptionally eleven", namespace=ANN, k=2, links=False)
    assert [h.note.id for h in hits] == [usual.id, week.id]
    memory.update(week.id, namespace=ANN, until=None)
    for number in range(60):
        add(memory, f"Exceptionally {number}", 1)
    off = add(memory, "Forget it", 2)
    memory.supersede(week.id, off.id, namespace=ANN, relation="retracts")
    hits = memory.search("Exceptionally eleven", namespace=ANN, k=3, links=False)
    assert [h.note.id for h in hits] == [off.id, usual.id, week.id]
    assert [(v.note_id, v.relation) for v in hits[1].via] == [(week.id, "updates")]


def test_a_retraction_puts_nothing_in_its_place_and_lifts_what_the_retracted_note_replaced(memory):
    first = add(memory, "The picnic is on Saturday", 0)
    moved = add(memory, "The picnic is on Sunday", 1, supersedes=[first.id])
    off = add(memory, "Forget the change, the picnic stays as planned", 2)
    memory.supersede(moved.id, off.id, namespace=ANN, relation="retracts")
    for asked in ("Saturday", "Sunday"):
        hits = memory.search(f"The picnic is on {asked}", namespace=ANN)
        assert [h.note.id for h in hits] == [off.id, first.id, moved.id]
        assert [h.superseded_by for h in hits] == [None, None, off.id]


def test_a_contradiction_has_no_winner_and_comes_as_a_pair_with_both_dates(memory):
    one = add(memory, "The train leaves at 9:10", 0)
    for number in range(20):
        add(memory, f"The train to town {number}", 1)
    other = add(memory, "Departure: 9:40", 2)
    memory.supersede(one.id, other.id, namespace=ANN, relation="contradicts")
    hits = memory.search("The train leaves at 9:10", namespace=ANN, k=2)
    assert [h.note.id for h in hits] == [one.id, other.id]
    assert hits[0].contradicted_by == (other.id,)
    assert hits[0].superseded_by is None
    (then, *_) = memory.search("The train leaves at 9:10", namespace=ANN, as_of=day(1))
    assert (then.note.id, then.contradicted_by) == (one.id, ())
    text = memory.context("The train leaves at 9:10", namespace=ANN, k=2)
    assert "contradicted on 3 March 2024" in text
    days = [line for line in text.splitlines() if line.endswith("March 2024:")]
    assert days == ["1 March 2024:", "3 March 2024:"]


def test_context_tells_the_current_fact_and_in_one_clause_what_it_replaced(memory):
    old = add(memory, "The wedding is on 14 June", 0)
    new = add(memory, "The wedding is on 21 June", 3)
    clauses = {"updates": "until 4 March 2024", "corrects": "this corrects"}
    for relation, clause in clauses.items():
        made = memory.supersede(old.id, new.id, namespace=ANN, relation=relation)
        lines = memory.context("wedding", namespace=ANN).splitlines()[2:-1]
        said = f"- The wedding is on 21 June ({clause}: The wedding is on 14 June)"
        assert lines == ["4 March 2024:", said]
        memory.undo(made.id, namespace=ANN)
    memory.supersede(old.id, new.id, namespace=ANN)
    last = add(memory, "The wedding is on 28 June", 6)
    memory.supersede(old.id, last.id, namespace=ANN)  # which was replaced before
    shown = memory.context("wedding", namespace=ANN)
    assert "28 June (until 4 March 2024: The wedding is on 14 June)" in shown


def test_a_models_verdict_is_written_recorded_and_can_be_undone(open_memory):
    for relation in ("updates", "corrects", "retracts", "contradicts"):
        memory = open_memory(replacing(relation))
        old, new = moved(memory)
        stored = memory.get(old.id, namespace=ANN)
        given = stored.supersessions[new.id]
        assert (given.relation, given.reason, given.since) == (relation, "it was moved", day(1))
        assert stored.content == "The stand-up is at ten"
        (made,) = [c for c in memory.history(old.id, namespace=ANN) if c.kind == "supersede"]
        assert (made.after["by"], made.by) == (new.id, given.model)
        undone = memory.undo(made.id, namespace=ANN)
        assert memory.get(old.id, namespace=ANN).supersessions == {}
        memory.undo(undone.id, namespace=ANN)
        assert memory.get(old.id, namespace=ANN) == stored


def test_a_note_of_which_a_part_is_outdated_stays_with_a_sentence_of_what_still_holds(open_memory):
    still = "The stand-up is no longer at ten, but still on Mondays."
    for source in ("user", "assistant"):
        memory = open_memory(replacing(still=still))
        old, new = moved(memory, source=source)
        if source == "assistant":  # what an assistant says of a user's words waits for a person
            (proposal,) = memory.proposals(namespace=ANN)
            assert (proposal.note_id, "assistant" in proposal.after["why"]) == (old.id, True)
            memory.approve(proposal.id, namespace=ANN)
        stored = memory.get(old.id, namespace=ANN)
        assert stored.supersessions == {}
        assert [(one.text, one.cause) for one in stored.contexts[1:]] == [(still, new.id)]
        (made,) = [c for c in memory.history(old.id, namespace=ANN) if c.kind == "evolve"]
        memory.undo(made.id, namespace=ANN)
        assert len(memory.get(old.id, namespace=ANN).contexts) == 1


def test_a_later_note_is_never_superseded_by_an_earlier_one(open_memory):
    for relation in ("contradicts", "updates"):
        memory = open_memory(replacing(relation))
        later = memory.add("The stand-up is at ten", namespace=ANN, at=day(9))
        memory.add("Now the stand-up is at nine", namespace=ANN, at=day(1))
        assert memory.get(later.id, namespace=ANN).supersessions == {}
        assert "supersede" not in {c.kind for c in memory.history(later.id, namespace=ANN)}
    earlier = add(memory, "It was at eight", 0)
    with pytest.raises(InvalidInputError, match="not later"):
        memory.supersede(later.id, earlier.id, namespace=ANN)
    with pytest.raises(InvalidInputError, match="not later"):
        add(memory, "It was at seven", 2, supersedes=[later.id])
    said = {"key": "k", "namespace": ANN, "evolve": False}
    keyed = memory.add("It is at six", at=day(9), **said)
    with pytest.raises(InvalidInputError, match="not later"):
        memory.add("It is at six", at=day(2), supersedes=[later.id], **said)
    assert memory.get(keyed.id, namespace=ANN) == keyed
    memory.delete(keyed.id, namespace=ANN)
    assert len(memory.get_all(namespace=ANN)) == 3
    memory.supersede(earlier.id, later.id, namespace=ANN)
    memory.update(later.id, namespace=ANN, at=day(0) - timedelta(days=1))  # it was the earlier one
    assert memory.get(earlier.id, namespace=ANN).superseded_by is None


def test_what_others_said_replaces_a_users_words_only_if_a_person_agrees(open_memory):
    for source in ("assistant", "tool"):
        memory = open_memory(replacing())
        old, new = moved(memory, source=source)
        assert memory.get(old.id, namespace=ANN).supersessions == {}
        (proposal,) = memory.proposals(namespace=ANN)
        assert (proposal.note_id, proposal.after["by"]) == (old.id, new.id)
        assert source in proposal.after["why"]
        memory.approve(proposal.id, namespace=ANN)
        assert memory.get(old.id, namespace=ANN).superseded_by == new.id
    free = [("assistant", True), ("tool", True), ("import", False)]  # imported words are a user's
    for source, allowed in free:
        memory = open_memory(replacing(), assistant_supersedes=allowed)
        old, new = moved(memory, source=source)
        assert memory.get(old.id, namespace=ANN).superseded_by == new.id
    # An agent's own note proposes what it replaces of the user's.
    old = add(memory, "The picnic is on Sunday", 2)
    own = {"namespace": ANN, "source": "assistant", "evolve": False}
    for _ in range(2):  # said again, such as after an answer that was lost, it is proposed once
        memory.add("The picnic is off", supersedes=[old.id], **own)
        assert memory.get(old.id, namespace=ANN).superseded_by is None
        assert [p.note_id for p in memory.proposals(namespace=ANN)] == [old.id]
    other = add(memory, "We bring a cake to the picnic", 2)
    memory.add("The picnic is off", supersedes=[old.id, other.id], **own)
    assert [p.note_id for p in memory.proposals(namespace=ANN)] == [old.id, other.id]


def test_a_deleted_note_replaces_nothing_any_more(memory):
    old = add(memory, "The code word is heron", 0)
    new = add(memory, "The code word is badger", 1, supersedes=[old.id])
    memory.delete(new.id, namespace=ANN)
    assert memory.get(old.id, namespace=ANN).supersessions == {}
    assert "badger" not in repr(memory.history(None, namespace=ANN))
    assert found(memory, "code word") == ["The code word is heron"]


def test_a_models_verdict_falls_with_the_words_it_was_about_and_the_users_stays(open_memory):
    memory = open_memory(replacing())
    old, new = moved(memory)
    memory.update(new.id, namespace=ANN, content="Nothing has changed")
    assert memory.get(old.id, namespace=ANN).supersessions == {}
    memory.supersede(old.id, new.id, namespace=ANN)
    memory.update(new.id, namespace=ANN, content="Nine it is")
    assert memory.get(old.id, namespace=ANN).superseded_by == new.id


def test_bad_input_is_refused_and_nothing_is_stored(memory):
    old, new = add(memory, "It is at ten", 0), add(memory, "It is at nine", 1)
    for newer, space, more, error, said in (
        (new.id, ANN, {"relation": "replaces"}, InvalidInputError, "relation"),
        ("no note", ANN, {}, NoteNotFoundError, None),
        (new.id, BOB, {}, NoteNotFoundError, None),
        (new.id, (), {}, NamespaceError, None),
    ):
        with pytest.raises(error, match=said):
            memory.supersede(old.id, newer, namespace=space, **more)
    for ids, error in ((("no note",), NoteNotFoundError), (old.id, InvalidInputError)):
        with pytest.raises(error):
            memory.add_many([NoteInput(content="x", supersedes=ids)], namespace=ANN)
    assert len(memory.get_all(namespace=ANN)) == 2
    memory.supersede(old.id, new.id, namespace=ANN)
    with pytest.raises(InvalidInputError, match="already"):
        memory.supersede(old.id, new.id, namespace=ANN)


def test_the_user_says_since_when_and_why_and_may_say_it_otherwise(memory):
    old, new = add(memory, "It is at ten", 0), add(memory, "It is at nine", 1)
    for since, reason in ((day(2), ""), (day(4), "r" * 200)):
        memory.supersede(old.id, new.id, namespace=ANN, since=since, reason=reason)
        for time, by in ((since - DAY, None), (since, new.id)):
            assert memory.get(old.id, namespace=ANN, as_of=time).superseded_by == by
    assert memory.get(old.id, namespace=ANN).supersessions[new.id].reason == reason
    with pytest.raises(InvalidInputError, match="at most 200"):
        memory.supersede(old.id, new.id, namespace=ANN, reason="r" * 201)


def test_supersessions_travel_with_an_export(memory, tmp_path):
    old = add(memory, "It is at ten", 0, until=day(30))
    add(memory, "It is at nine", 1, supersedes=[old.id])
    memory.export(tmp_path / "ann.jsonl", namespace=ANN)
    memory.import_(tmp_path / "ann.jsonl", namespace=BOB)
    first, second = memory.get_all(namespace=BOB, as_of=day(3))
    assert (first.superseded_by, first.until) == (second.id, day(30))


@pytest.mark.on_a_server
def test_what_the_user_has_said_shows_whatever_models_decide_before_and_after(open_memory):
    """The 65th later decision about a note does not make the note current again."""
    memory = open_memory(models.model(models.link_to_first), recent=0, candidates=1)
    old = memory.add("The stand-up is at ten", namespace=ANN, at=day(0))
    new = memory.add("Rather at nine", namespace=ANN, at=day(1), evolve=False)
    memory.supersede(old.id, new.id, namespace=ANN, reason="Ann said so")
    items = [f"The stand-up is at ten, as number {n} said" for n in range(70)]
    memory.add_many([NoteInput(content=text, at=day(2)) for text in items], namespace=ANN)
    given = memory.get(old.id, namespace=ANN)
    assert (given.superseded_by, given.supersessions[new.id].reason) == (new.id, "Ann said so")
    memory.update(old.id, namespace=ANN, content="The stand-up was at ten")
    memory.update(new.id, namespace=ANN, content="Rather at half past nine")
    memory.evolve()
    given = memory.get(old.id, namespace=ANN)
    assert (given.superseded_by, given.supersessions[new.id].reason) == (new.id, "")


def test_a_models_verdict_goes_with_a_correction_of_the_earlier_note_and_yields_to_the_users(
    open_memory,
):
    memory = open_memory(replacing(), max_attempts=9)
    old, new = moved(memory)
    assert memory.get(old.id, namespace=ANN).superseded_by == new.id
    memory.update(old.id, namespace=ANN, content="The canteen opens at ten")
    assert memory.get(old.id, namespace=ANN).supersessions == {}
    earlier = memory.add("The choir sings at six", namespace=ANN, at=day(2), evolve=False)
    later = memory.add("Now the choir sings at seven", namespace=ANN, at=day(3), evolve=False)
    ids = {"older": earlier.id, "newer": later.id, "namespace": ANN}
    memory.supersede(**ids, relation="contradicts", reason="nobody knows")
    memory.evolve(namespace=ANN)
    verdicts = [c for c in memory.history(earlier.id, namespace=ANN) if c.kind == "supersede"]
    assert [change.by for change in verdicts] == ["user", "scripted"]
    said = memory.get(earlier.id, namespace=ANN).supersessions[later.id]
    assert (said.relation, said.reason) == ("contradicts", "nobody knows")
