from __future__ import annotations

import calendar
from datetime import timedelta

from support.notes import NOON, make_entry, make_note

from amem_integrations import texts


def test_the_embedder_reads_speaker_content_keywords_tags_and_context():
    note = make_note("I adopted a dog", speaker="Ann", at=NOON)
    entry = make_entry("Ann got a pet.", note.id, keywords=("dog",), tags=("pets", "home"))
    (text,) = texts.embedding_texts(note.revised(contexts=(entry,)))
    assert text == "Ann: I adopted a dog\ndog\npets, home\nAnn got a pet."


def test_bm25_reads_the_date_as_well_and_the_embedder_does_not():
    note = make_note("I adopted a dog", at=NOON)
    assert texts.lexical_text(note) == "8 May 2024\nI adopted a dog"
    assert texts.embedding_texts(note) == ["I adopted a dog"]
    added = [make_entry("x", str(n), tags=(f"a{n}", f"b{n}", f"c{n}")) for n in range(8)]
    *_, tags, _ = texts.lexical_text(note.revised(contexts=tuple(added))).split("\n")
    assert len(tags.split(", ")) == 16  # the first of them


def test_months_and_weekdays_have_their_english_names():
    year = [NOON + timedelta(days=n) for n in range(366)]
    months, weekdays = list(calendar.month_name), list(calendar.day_name)  # no locale is set here
    assert [texts.day(t) for t in year] == [f"{t.day} {months[t.month]} {t.year}" for t in year]
    assert [texts.weekday(t) for t in year] == [weekdays[t.weekday()] for t in year]


def test_keywords_and_tags_are_those_of_all_entries_without_repeats():
    note = make_note()
    entries = (
        make_entry("a", note.id, keywords=("dog", "home"), tags=("pets",)),
        make_entry("b", "other", keywords=("home", "vet"), tags=("health", "pets")),
    )
    note = note.revised(contexts=entries)
    assert (note.keywords, note.tags) == (("dog", "home", "vet"), ("pets", "health"))
    assert (note.attributes_source, note.own_entry) == ("test", entries[0])
    assert texts.clean_words(["dog", "x" * 90_000], 8) == (
        "dog",
    )  # each passage is stored with all
