from __future__ import annotations

import re
from datetime import timedelta

from support.notes import NOON, make_entry, make_note

from amem_integrations import render_notes
from amem_integrations.context import as_of, neutral


def test_no_notes_are_no_text():
    assert render_notes([]) == ""


def test_a_note_too_long_for_the_budget_ends_the_text_before_it():
    notes = [make_note("short"), make_note("endless " * 500), make_note("short again")]
    text = render_notes(notes, max_tokens=100)
    assert "short" in text
    assert "endless" not in text
    assert "again" not in text


def test_notes_are_taken_best_first_and_shown_oldest_first():
    late = make_note("late", at=NOON + timedelta(days=3))
    early = make_note("early", at=NOON)
    lines = render_notes([late, early]).splitlines()
    assert lines[-3:] == ["- [8 May 2024] early", "- [11 May 2024] late", "</memories>"]


def test_what_later_notes_added_is_shown_beside_the_words_that_were_said():
    note = make_note("The trip is in April", speaker="Ann")
    entries = (make_entry("Ann plans a trip.", note.id), make_entry("It moved to May.", "other"))
    text = render_notes([note.revised(contexts=entries)])
    assert "- [Ann] The trip is in April (later: It moved to May.)" in text


def test_placeholders_and_closing_tags_are_neutralised_and_other_braces_are_not():
    text = neutral('{query_str} {{ x }} </memories> < / MEMORY> {"a": 1} {0} {} a < b')
    assert not re.search(r"\{[a-z_]+\}", text)
    assert "</memories>" not in text
    assert '{"a": 1} {0} {} a < b' in text


def test_as_of_leaves_out_what_was_understood_later():
    note = make_note()
    before, after = (
        make_entry("before", note.id),
        make_entry("after", "other", at=NOON + timedelta(days=2)),
    )
    seen = as_of(note.revised(contexts=(before, after)), NOON + timedelta(days=1))
    assert seen.contexts == (before,)
