from __future__ import annotations

from support.notes import NOON, make_entry, make_note

from amem_integrations import texts


def test_the_embedder_reads_speaker_content_keywords_tags_and_context():
    note = make_note("I adopted a dog", speaker="Ann", at=NOON)
    entry = make_entry("Ann got a pet.", note.id, keywords=("dog",), tags=("pets", "home"))
    assert texts.embedding_text(note.revised(contexts=(entry,))).split("\n") == [
        "Ann: I adopted a dog",
        "dog",
        "pets, home",
        "Ann got a pet.",
    ]


def test_bm25_reads_the_date_as_well_and_the_embedder_does_not():
    note = make_note("I adopted a dog", at=NOON)
    assert texts.lexical_text(note) == "8 May 2024\nI adopted a dog"
    assert texts.embedding_text(note) == "I adopted a dog"


def test_the_first_entry_and_the_newest_that_fit_are_shown_in_order():
    note = make_note()
    entries = [make_entry(f"{n:02} {'x' * 77}", note.id) for n in range(20)]
    shown = texts.shown_entries(note.revised(contexts=tuple(entries)), budget=100)
    assert shown == [entries[0], *entries[-4:]]


def test_a_first_entry_over_the_budget_is_shown_all_the_same():
    note = make_note()
    entries = (make_entry("x" * 4000, note.id), make_entry("later", note.id))
    assert texts.shown_entries(note.revised(contexts=entries)) == [entries[0]]


def test_tokens_are_counted_by_bytes_so_that_no_script_is_counted_too_low():
    assert texts.count_tokens("") == 0
    assert texts.count_tokens("word") == 1
    assert texts.count_tokens("記憶記憶") == 3


def test_keywords_and_tags_are_those_of_all_entries_without_repeats():
    note = make_note()
    entries = (
        make_entry("a", note.id, keywords=("dog", "home"), tags=("pets",)),
        make_entry("b", "other", keywords=("home", "vet"), tags=("health", "pets")),
    )
    note = note.revised(contexts=entries)
    assert note.keywords == ("dog", "home", "vet")
    assert note.tags == ("pets", "health")
    assert note.attributes_source == "test"
    assert note.own_entry == entries[0]
