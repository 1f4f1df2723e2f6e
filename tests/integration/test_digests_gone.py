"""A digest or a fact says nothing of a source that is gone, whatever is done to it, and what the user wrote of it stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from support.digests import digest

from amem_integrations import (
    AgenticMemory,
    InvalidInputError,
    NoteNotFoundError,
    RevisionConflictError,
)
from amem_integrations.changes.derived import derived_note, proposed, text_of
from amem_integrations.digests import is_stale, is_users
from amem_integrations.ids import derive, new_operation, now
from amem_integrations.testing import CopyingModel, HashEmbedder

ANN, BOB = ("ann",), ("bob",)
SECRET = "zanzibar4711"
PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path):
    model, embedder = CopyingModel(), HashEmbedder()
    with AgenticMemory.open(tmp_path / "memory", model=model, embedder=embedder) as made:
        yield made


@pytest.fixture
def three(memory):
    """Three notes; the first holds the secret."""
    contents = (f"The safe opens with {SECRET}", "Ann lives in Oslo", "Ann has two cats")
    return memory.add_many(contents, namespace=ANN, evolve=False)


def exported(memory, tmp_path, *, but: str = "") -> str:
    """All that is stored, in one text, but for the lines about one note."""
    memory.export(tmp_path / "export.jsonl", namespace=ANN)
    lines = (tmp_path / "export.jsonl").read_text(encoding="utf-8").casefold().splitlines()
    return "\n".join(line for line in lines if not but or but not in line)


def vector(memory, note_id):
    return memory._runtime.store.get_indexed(ANN, [note_id])[0].vector


def stale(memory, note) -> bool:
    """Whether a digest is stale, as a search finds out."""
    sources = memory._runtime.store.get(ANN, note.sources)
    return is_stale(note, {source.id: source for source in sources})


def stored(memory, note_id):
    return memory.get(note_id, namespace=ANN)


@pytest.mark.on_a_server
def test_a_deleted_source_leaves_nothing_in_a_digest_and_is_no_source_any_more(
    memory, three, tmp_path
):
    made = digest(memory, three, topic=f"The safe and {SECRET}")
    assert not stale(memory, made)
    memory.delete(three[0].id, namespace=ANN)
    left = stored(memory, made.id)
    assert (left.content, left.keywords, [e.text for e in left.contexts]) == ("", (), [""])
    assert left.sources == (three[1].id, three[2].id)
    assert left.state == "done"
    assert vector(memory, made.id) is None
    assert stale(memory, left)
    assert SECRET not in exported(memory, tmp_path)
    assert "cats" not in json.dumps([c.data for c in memory.history(made.id, namespace=ANN)])


@pytest.mark.on_a_server
def test_a_corrected_source_leaves_nothing_in_a_digest_and_stays_a_source(memory, three, tmp_path):
    made = digest(memory, three)
    memory.update(three[0].id, namespace=ANN, content="The safe opens with a key")
    left = stored(memory, made.id)
    assert left.content == ""
    assert left.sources == made.sources
    assert stale(memory, left)
    assert SECRET not in exported(memory, tmp_path, but=f'"{three[0].id}", "cause"')
    again = digest(memory, [stored(memory, note.id) for note in three])
    assert not stale(memory, again)
    memory.delete(three[1].id, namespace=ANN)
    assert "oslo" not in exported(memory, tmp_path)


@pytest.mark.on_a_server
def test_a_digest_goes_with_the_last_of_its_sources(memory, three, tmp_path):
    made = digest(memory, three[:2])
    memory.delete(three[0].id, namespace=ANN)
    memory.delete(three[1].id, namespace=ANN)
    with pytest.raises(NoteNotFoundError):
        stored(memory, made.id)
    assert [c.kind for c in memory.history(made.id, namespace=ANN)] == ["delete"]
    assert SECRET not in exported(memory, tmp_path)


def test_an_earlier_version_of_a_digest_is_blanked_too(memory, three, tmp_path):
    made = digest(memory, three)
    digest(memory, three[1:])
    memory.delete(three[0].id, namespace=ANN)
    assert stored(memory, made.id).content == "Ann lives in Oslo Ann has two cats"
    assert SECRET not in exported(memory, tmp_path)
    first = next(c for c in memory.history(made.id, namespace=ANN) if c.kind == "digest")
    with pytest.raises((InvalidInputError, RevisionConflictError)):
        memory.undo(first.id, namespace=ANN)


def test_what_another_digest_took_of_it_goes_though_it_is_no_source_of_that(
    memory, three, tmp_path
):
    one = digest(memory, three[:2])
    two = digest(memory, three[1:], text=f"Ann lives in Oslo, {SECRET}", name="e", shown=[one])
    memory.delete(three[0].id, namespace=ANN)
    assert stored(memory, two.id).content == ""
    assert stored(memory, two.id).sources == two.sources
    assert SECRET not in exported(memory, tmp_path)


def test_what_was_taken_from_a_digest_that_the_user_edited_goes_too(memory, three, tmp_path):
    one = digest(memory, three[:2])
    mine = memory.update(one.id, namespace=ANN, content=f"Mine. {one.content}.")
    two = digest(memory, three[1:], text=f"Oslo, {SECRET}", name="e", shown=[mine])
    memory.delete(three[0].id, namespace=ANN)
    assert stored(memory, two.id).content == ""
    assert SECRET not in exported(memory, tmp_path)


def test_another_digest_that_took_nothing_of_it_stays(memory, three):
    one = digest(memory, three[:2])
    two = digest(memory, three[1:], name="e", shown=[three[0], one])
    memory.delete(three[0].id, namespace=ANN)
    assert stored(memory, two.id).content == two.content
    assert vector(memory, two.id) is not None


@pytest.mark.parametrize("how", ["delete", "update"])
def test_a_source_that_goes_while_a_model_writes_leaves_nothing(memory, three, tmp_path, how):
    def go():
        if how == "delete":
            memory.delete(three[0].id, namespace=ANN)
        else:
            memory.update(three[0].id, namespace=ANN, content="Nothing of note")

    made = digest(memory, three, meanwhile=go)
    assert made.content == ""
    assert (three[0].id in made.sources) == (how == "update")
    about = f'"{three[0].id}", "cause"' if how == "update" else ""
    assert SECRET not in exported(memory, tmp_path, but=about)


def test_a_rewriting_that_goes_on_meanwhile_leaves_nothing(memory, three, tmp_path):
    digest(memory, three)
    made = digest(
        memory,
        three,
        text=f"{SECRET} again",
        meanwhile=lambda: memory.delete(three[0].id, namespace=ANN),
    )
    assert made.content == ""
    assert SECRET not in exported(memory, tmp_path)


def test_a_proposal_for_a_digest_is_blanked_and_not_open_any_more(memory, three, tmp_path):
    made = digest(memory, three)
    memory.update(made.id, namespace=ANN, content="Ann lives in Oslo.")
    digest(memory, three, text=f"Rather {SECRET}")
    assert [p.note_id for p in memory.proposals(namespace=ANN)] == [made.id]
    memory.delete(three[0].id, namespace=ANN)
    assert memory.proposals(namespace=ANN) == []
    assert SECRET not in exported(memory, tmp_path)


@pytest.mark.on_a_server
def test_clear_takes_digests_too(memory, three, tmp_path):
    digest(memory, three)
    memory.clear(namespace=ANN)
    assert SECRET not in exported(memory, tmp_path)
    assert memory.get_all(namespace=ANN) == []


def test_an_expired_source_makes_it_stale_at_once_and_is_swept_out_of_it(memory, three, tmp_path):
    made = digest(memory, three)
    memory.update(three[0].id, namespace=ANN, expires_at=PAST)
    assert stale(memory, made)
    assert memory.sweep(namespace=ANN) == 1
    assert stored(memory, made.id).content == ""
    assert SECRET not in exported(memory, tmp_path)


def test_a_digest_expires_with_the_first_of_its_sources(memory, three):
    later = datetime.now(UTC) + timedelta(days=3)
    first = memory.update(three[0].id, namespace=ANN, expires_at=later)
    assert digest(memory, [first, *three[1:]]).expires_at == later
    assert digest(memory, three[1:]).expires_at is None


def test_a_source_that_another_note_replaces_makes_it_stale_until_it_is_written_anew(memory, three):
    made = digest(memory, three)
    newer = memory.add("Ann lives in Rome", namespace=ANN, evolve=False)
    change = memory.supersede(three[1].id, newer.id, namespace=ANN)
    assert stale(memory, made)
    memory.undo(change.id, namespace=ANN)
    assert not stale(memory, made)
    memory.supersede(three[1].id, newer.id, namespace=ANN)
    again = digest(memory, [*(stored(memory, n.id) for n in three), newer])
    assert not stale(memory, again)


def test_what_only_contradicts_a_source_makes_nothing_stale(memory, three):
    made = digest(memory, three)
    newer = memory.add("Ann lives in Rome", namespace=ANN, evolve=False)
    memory.supersede(three[1].id, newer.id, namespace=ANN, relation="contradicts")
    assert not stale(memory, made)


# --- the user's hand


@pytest.mark.on_a_server
def test_a_digest_that_the_user_edited_is_the_users_and_only_proposed_to_be_changed(memory, three):
    made = digest(memory, three)
    mine = memory.update(made.id, namespace=ANN, content="Ann lives in Oslo, by the sea.")
    assert is_users(mine)
    assert (mine.kind, mine.state, mine.sources) == ("digest", "done", made.sources)
    assert mine.keywords == made.keywords
    assert digest(memory, three, text="Ann is in Oslo").content == mine.content
    digest(memory, three, text="Ann has cats in Oslo")
    (waiting,) = memory.proposals(namespace=ANN)
    assert waiting.data["digest"]["text"] == "Ann has cats in Oslo"
    change = memory.approve(waiting.id, namespace=ANN)
    assert stored(memory, made.id).content == "Ann has cats in Oslo"
    assert memory.proposals(namespace=ANN) == []
    memory.undo(change.id, namespace=ANN)
    assert stored(memory, made.id).content == mine.content
    memory.reject(waiting.id, namespace=ANN)
    assert memory.proposals(namespace=ANN) == []


@pytest.mark.on_a_server
def test_of_what_the_user_wrote_only_the_sentences_go_that_quote_what_is_gone(
    memory, three, tmp_path
):
    made = digest(memory, three)
    text = f"By the sea it is quiet. {SECRET} is the word. Two cats live with her!"
    memory.update(made.id, namespace=ANN, content=text)
    memory.delete(three[0].id, namespace=ANN)
    left = stored(memory, made.id)
    assert left.content == "By the sea it is quiet. Two cats live with her!"
    assert is_users(left)
    assert left.sources == (three[1].id, three[2].id)
    assert left.keywords == ()
    assert not stale(memory, left)
    assert vector(memory, made.id) is not None
    assert SECRET not in exported(memory, tmp_path)
    for note in three[1:]:
        memory.delete(note.id, namespace=ANN)
    left = stored(memory, made.id)
    assert "sea" in left.content
    assert not stale(memory, left)


def test_a_digest_of_the_user_of_which_every_sentence_quotes_is_the_models_again(memory, three):
    made = digest(memory, three)
    memory.update(made.id, namespace=ANN, content=f"It is {SECRET}")
    memory.delete(three[0].id, namespace=ANN)
    assert not is_users(stored(memory, made.id))
    assert digest(memory, three[1:]).content == "Ann lives in Oslo Ann has two cats"


def test_the_users_edit_can_be_undone_and_redone(memory, three):
    made = digest(memory, three)
    memory.update(made.id, namespace=ANN, content="Mine", metadata={"n": 1})
    edit = [c for c in memory.history(made.id, namespace=ANN) if "fields" in c.data][-1]
    back = memory.undo(edit.id, namespace=ANN)
    undone = stored(memory, made.id)
    assert (undone.content, undone.contexts, undone.state) == (made.content, made.contexts, "done")
    assert undone.metadata == {"n": 1}
    memory.undo(back.id, namespace=ANN)
    assert is_users(stored(memory, made.id))


def test_a_proposed_digest_that_is_not_there_yet_is_made_by_approval(memory, three):
    op, at = new_operation(), now()
    new = derived_note(derive("digest", "new"), ANN, "digest", op)
    after = text_of(
        new, text="Two cats", topic="Cats", keywords=[], sources=three, model="m", op=op, at=at
    )
    memory._runtime.store.replace(ANN, [], [proposed(three[-1], after, op, at, "not in them")])
    (waiting,) = memory.proposals(namespace=ANN)
    memory.approve(waiting.id, namespace=ANN)
    assert stored(memory, after.id).content == "Two cats"
    assert memory.proposals(namespace=ANN) == []
    assert vector(memory, after.id) is not None
    with pytest.raises(InvalidInputError, match="written since"):
        memory.approve(waiting.id, namespace=ANN)


# --- history


def test_each_writing_can_be_undone_and_redone_and_the_first_one_removes_it(memory, three):
    first, second = digest(memory, three), digest(memory, three[1:])
    one, two = (c for c in memory.history(first.id, namespace=ANN) if c.kind == "digest")
    with pytest.raises(RevisionConflictError):
        memory.undo(one.id, namespace=ANN)
    back = memory.undo(two.id, namespace=ANN)
    assert stored(memory, first.id).sources == first.sources
    assert stored(memory, first.id).content == first.content
    memory.undo(back.id, namespace=ANN)
    assert stored(memory, first.id).contexts == second.contexts
    back = [c for c in memory.history(first.id, namespace=ANN) if c.kind == "undo"][-1]
    memory.undo(back.id, namespace=ANN)
    assert memory.undo(one.id, namespace=ANN).kind == "delete"
    with pytest.raises(NoteNotFoundError):
        stored(memory, first.id)


def test_all_that_a_model_wrote_can_be_undone_at_once(memory, three):
    made = digest(memory, three)
    digest(memory, three[1:])
    report = memory.undo(namespace=ANN, model="writer")
    assert len(report.undone) == 2
    assert {note.id for note in memory.get_all(namespace=ANN)} == {note.id for note in three}
    assert memory.undo(namespace=ANN, model="writer").undone == ()
    assert made.id not in report.changes


def test_undo_does_not_bring_back_what_a_digest_said_of_a_deleted_note(memory, three, tmp_path):
    made = digest(memory, three)
    digest(memory, three, text=f"Now {SECRET} is known")
    memory.update(made.id, namespace=ANN, content=f"Mine: {SECRET}")
    memory.delete(three[0].id, namespace=ANN)
    for change in memory.history(made.id, namespace=ANN)[::-1]:
        try:
            memory.undo(change.id, namespace=ANN)
        except (InvalidInputError, RevisionConflictError):
            continue
    assert SECRET not in exported(memory, tmp_path)


def test_known_at_shows_a_digest_as_it_stood(memory, three):
    first = digest(memory, three)
    then = datetime.now(UTC)
    digest(memory, three[1:])
    assert memory.get(first.id, namespace=ANN, known_at=then).content == first.content
    assert memory.get(first.id, namespace=ANN, known_at=then).sources == first.sources
    memory.delete(three[0].id, namespace=ANN)
    assert memory.get(first.id, namespace=ANN, known_at=then).content == ""


# --- facts


def fact(memory, sources, text):
    return digest(memory, sources, text=text, kind="fact", name=text)


def test_a_fact_goes_with_its_only_source_deleted_or_corrected(memory, three, tmp_path):
    one = fact(memory, three[:1], f"The safe's word is {SECRET}")
    two = fact(memory, three[1:2], "Ann is living in Oslo")
    memory.delete(three[0].id, namespace=ANN)
    memory.update(three[1].id, namespace=ANN, content="Ann lives in Rome")
    for gone in (one, two):
        with pytest.raises(NoteNotFoundError):
            stored(memory, gone.id)
    assert SECRET not in exported(memory, tmp_path)


def test_a_fact_with_other_sources_stays_unless_it_quotes(memory, three, tmp_path):
    quotes = fact(memory, three, f"Ann has {SECRET}")
    stays = fact(memory, three, "Ann has some cats")
    memory.delete(three[0].id, namespace=ANN)
    left = stored(memory, stays.id)
    assert (left.content, left.sources) == (stays.content, (three[1].id, three[2].id))
    memory.update(three[1].id, namespace=ANN, content="Ann lives in Rome")
    assert stored(memory, stays.id).sources == (three[2].id,)
    with pytest.raises(NoteNotFoundError):
        stored(memory, quotes.id)
    assert SECRET not in exported(memory, tmp_path)


# --- the rest of the memory


def test_a_digest_comes_through_an_export_with_its_sources_in_the_other_namespace(
    memory, three, tmp_path
):
    made = digest(memory, three)
    memory.update(made.id, namespace=ANN, content="Mine")
    memory.export(tmp_path / "ann.jsonl", namespace=ANN)
    assert memory.import_(tmp_path / "ann.jsonl", namespace=BOB) == 4
    notes = {note.id: note for note in memory.get_all(namespace=BOB)}
    copied = next(note for note in notes.values() if note.kind == "digest")
    assert copied.content == "Mine"
    assert [notes[i].content for i in copied.sources] == [note.content for note in three]
    assert notes.keys().isdisjoint({made.id, *made.sources})
    memory.delete(copied.sources[0], namespace=BOB)
    assert len(memory.get(copied.id, namespace=BOB).sources) == 2
    assert stored(memory, made.id).sources == made.sources


def test_evolve_leaves_a_digest_alone(memory, three):
    one, two = digest(memory, three), digest(memory, three, name="e")
    memory.evolve(namespace=ANN)
    memory.evolve(ids=[one.id], namespace=ANN)
    memory.evolve(namespace=ANN, upgrade=True)
    for made in (one, two):
        assert stored(memory, made.id).contexts == made.contexts
        assert not stored(memory, made.id).links


def test_a_digest_is_not_superseded(memory, three):
    made = digest(memory, three)
    later = memory.add("Ann moved", namespace=ANN, evolve=False)
    for pair in ((made.id, later.id), (three[0].id, made.id)):
        with pytest.raises(InvalidInputError, match="is a digest"):
            memory.supersede(*pair, namespace=ANN)
    with pytest.raises(InvalidInputError, match="is a digest"):
        memory.add("Ann moved again", namespace=ANN, supersedes=[made.id])


def test_a_deleted_digest_leaves_its_sources(memory, three):
    made = digest(memory, three)
    memory.delete(made.id, namespace=ANN)
    assert {note.id for note in memory.get_all(namespace=ANN)} == {note.id for note in three}
    assert [c.kind for c in memory.history(made.id, namespace=ANN)] == ["delete"]


def test_a_note_added_again_is_no_source_of_what_was_made_of_it_before(memory, three):
    made = digest(memory, three)
    memory.delete(three[0].id, namespace=ANN)
    again = memory.add(three[0].content, namespace=ANN, evolve=False)
    assert again.id == three[0].id
    assert again.id not in stored(memory, made.id).sources
    assert SECRET not in stored(memory, made.id).content


def test_long_texts_take_all_that_was_made_of_any_of_their_notes(memory, tmp_path):
    long = " ".join(f"Sentence number {n} says {SECRET}{n}." for n in range(120))
    first = memory.add(long, namespace=ANN, evolve=False)
    chunks = memory.get_all(namespace=ANN)
    assert len(chunks) > 2
    other = memory.add("Ann has two cats", namespace=ANN, evolve=False)
    made = digest(memory, [*chunks, other], text=f"Cats, {SECRET}7")
    memory.delete(first.id, namespace=ANN)
    assert stored(memory, made.id).sources == (other.id,)
    assert SECRET not in exported(memory, tmp_path)


def test_stats_count_digests(memory, three):
    digest(memory, three)
    memory.delete(three[0].id, namespace=ANN)
    digest(memory, three[1:], name="e")
    memory.delete(three[1].id, namespace=ANN)
    stats = memory.stats(namespace=ANN)
    assert (stats["notes"], stats["digests"], stats["duplicates"]) == (3, 2, 0)
    assert stats["degree"]["histogram"] == [1]
