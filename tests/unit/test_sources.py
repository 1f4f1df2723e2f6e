"""Of which wordings a text was made."""

from __future__ import annotations

from datetime import UTC, datetime

from support.notes import make_entry, make_note

from amem_integrations.evolution.sources import SourceFinder
from amem_integrations.notes import Wording

AT = datetime(2026, 5, 8, tzinfo=UTC)


def note(name, content, *contexts, speaker="Ann"):
    made = tuple(make_entry(text, name, sources=sources) for text, sources in contexts)
    known = {"id": name, "seq": 1, "rev": 1, "recorded_at": AT, "speaker": speaker}
    return make_note(content, contexts=made, **known)


OWN = note("own", "I will go there on Monday")
OTHERS = {
    "pottery": note("pottery", "The pottery class moved to the harbour"),
    "code": note("code", "The safe opens with zanzibar4711", speaker="Zoe"),
    "other code": note("other code", "The shed opens with zanzibar4712"),
    "plain": note("plain", "So that is what it is then"),
    "chinese": note("chinese", "我的密码是74321113号"),
    "derived": note("derived", "Right", ("It is about a kayak", (Wording("far", 7),))),
}


TEXTS = [
    ("I will go there on Monday", set()),
    ("It is on 8 May 2026", set()),  # the day of its own note
    ("Ann asks Zoe", set()),  # who speaks
    ("Ann will go to potteries", {"pottery"}),
    ("The safe's door", {"code"}),
    ("The code is Zanzibar4711", {"code"}),
    ("号码 74321113", {"chinese"}),
    ("密码是什么", {"chinese"}),
    ('In reply to "that is what it is"', {"plain"}),
    ("what is it", set()),
    ("Ann wants a kayak", {"derived", "far"}),
    ("A kayak at the harbour", {"derived", "far", "pottery"}),
]


def test_a_text_was_made_of_what_it_shares_a_telling_word_with():
    seen = SourceFinder().show([OWN, *OTHERS.values()])
    for text, found in TEXTS:
        assert {source.id for source in seen.sources_of([text], [OWN])} == {"own", *found}, text
    own = note("own", "I will go there", ("Ann goes to the harbour", (Wording("far", 7),)))
    seen = SourceFinder().show([own, *OTHERS.values()])  # what its own context says is from there
    assert seen.sources_of(["She goes to the harbour"], [own]) == (("far", 7), ("own", 1))
    seen = SourceFinder().show([OTHERS["pottery"]])  # the wording is the one that was shown
    assert seen.sources_of(["potters"], [OWN]) == (("own", 1), ("pottery", 1))
    seen = SourceFinder().show(OTHERS.values(), contexts=False)  # of which no context was shown
    assert seen.sources_of(["a kayak"], [OWN]) == (("own", 1),)


def test_a_word_without_end_is_read_once():
    long = note("long", "x" * 200_000 + " kayak")
    assert SourceFinder().show([long]).sources_of(["a kayak"], [OWN]) == (("long", 1), ("own", 1))


def test_a_relation_may_not_quote():
    seen = SourceFinder().show(OTHERS.values())
    assert all(map(seen.quotes, ("potter", "kayak", "zanzibar4711")))
    assert not any(map(seen.quotes, ("continues", "same_event", "sister of")))
