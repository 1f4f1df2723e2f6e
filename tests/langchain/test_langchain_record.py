"""The record of a thread: where a run begins, and what a memory is given when it ends, situation by situation.

A message is `q` (of a person), `a` (an answer), `c` (a call of a tool) or `s` (of the system) with a number; one in brackets
was removed since the entries were made. An entry is `ann 0: 0-2 stored`: whose memory, the number of the run, from where to where, and its state.
By default it is by whom its memory is, of a node `recall`; `team` is a memory of everybody, `ann/diary` another one of Ann.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from amem_integrations import NamespaceError
from langchain_amem.record import ENTRIES, Entry, Record, merged

CALL = {"name": "look", "args": {}, "id": "1"}
KINDS = {"q": HumanMessage, "a": AIMessage, "s": SystemMessage}
KINDS["c"] = partial(AIMessage, tool_calls=[CALL])
ENTRY = re.compile(r"(\S+) (\d+): (\d+)-(\d+) (\w+)(?: by (\w+))?(?: node (\w+))?")


def whose(name, by=None, node="remember"):
    """Return an entry that says whose memory it is, and who has the run."""
    space = tuple(name.split("/"))
    return Entry(namespace=space, is_fixed=name == "team", by=by or space[0], node=node)


def noted(text):
    """Return an entry."""
    name, run, start, seen, state, by, node = ENTRY.fullmatch(text).groups()
    places = {"run": int(run), "start": int(start), "seen": int(seen)}
    return replace(whose(name, by, node or "recall"), **places, state=state)


def record(messages, entries):
    """Return the record of these messages, some of which were removed after the entries were made."""
    names = messages.split()
    made = [KINDS[name.strip("()")[0]](name, id=name.strip("()")) for name in names]
    saved = Record(made).saved(noted(one) for one in entries)
    kept = [one for one in made if "(" not in one.text]
    return Record(kept, json.loads(json.dumps(saved)))


def given(found, entries):
    """Return the texts that memories are given."""
    texts = [one.text for one in found.messages]
    return {"/".join(one.namespace): " ".join(texts[one.start : one.seen]) for one in entries}


ANN, BOB, TEAM = whose("ann"), whose("bob"), whose("team", "bob")

# The messages, the entries, who remembers; the texts that are given of earlier runs, and of this one.
ENDS = {
    "the first run of a thread takes all messages of its input":
        ("q1 q2 a1", [], ANN, {}, {"ann": "q1 q2 a1"}),
    "without a state the run begins after the last answer":
        ("q1 a1 q2 a2", [], ANN, {}, {"ann": "q2 a2"}),
    "a call of a tool answers no question":
        ("q1 c1 q2 a1", [], ANN, {}, {"ann": "q1 c1 q2 a1"}),
    "nobody has asked":
        ("a1 a2", [], ANN, {}, {"ann": "a2"}),
    "a run that nobody noted follows the last one of the same memory":
        ("q1 a1 a2 q2 a3", ["ann 0: 0-2 stored"], ANN, {}, {"ann": "a2 q2 a3"}),
    "after the run of another it begins with the next words of a person":
        ("q1 a1 a2 q2 a3", ["bob 0: 0-2 stored"], ANN, {}, {"ann": "q2 a3"}),
    "after the run of another nobody speaks":
        ("q1 a1 s1 a2", ["bob 0: 0-2 stored"], ANN, {}, {"ann": "a2"}),
    "nothing has been said since the run of another":
        ("q1 a1", ["bob 0: 0-2 stored"], ANN, {}, {"ann": ""}),
    "a run failed, and the next one of the same memory follows":
        ("q1 a1 q2 a2", ["ann 0: 0-1 begun", "ann 1: 2-3 begun"], ANN, {"ann": "q1 a1"}, {"ann": "q2 a2"}),
    "somebody else spoke in between":
        ("q1 a1 q2 a2 q3 a3", ["ann 0: 0-1 begun", "bob 1: 2-4 stored", "ann 2: 4-5 begun"], ANN, {"ann": "q1"}, {"ann": "q3 a3"}),
    "somebody else spoke in between, and callers do not differ":
        ("q1 a1 q2 a2 q3 a3", ["ann 0: 0-1 begun by app", "bob 1: 2-4 stored by app", "ann 2: 4-5 begun by app"], ANN, {"ann": "q1"}, {"ann": "q3 a3"}),
    "the run of somebody else failed":
        ("q1 q2 a2", ["bob 0: 0-1 begun", "ann 1: 1-2 begun"], ANN, {}, {"ann": "q2 a2"}),
    "a run could not be stored, and somebody else spoke in between":
        ("q1 a1 q2 a2 q3 a3", ["ann 0: 0-2 left", "bob 1: 2-4 stored", "ann 2: 4-5 begun"], ANN, {"ann": "q1 a1"}, {"ann": "q3 a3"}),
    "somebody else has resumed a run":
        ("q1 a1", ["ann 0: 0-1 begun"], BOB, {}, {"ann": "q1 a1"}),
    "and has added something":
        ("q1 a1 q2 a2", ["ann 0: 0-1 begun"], BOB, {}, {"ann": "q1 a1", "bob": "q2 a2"}),
    "a memory of everybody takes part in a run that somebody else has resumed":
        ("q1 a1 q2 a2", ["ann 0: 0-1 begun"], TEAM, {}, {"team": "q1 a1 q2 a2"}),
    "who resumed a run has been given a part of it, and another memory of theirs is":
        ("q1 a1 q2 a2", ["ann 0: 0-2 stored", "team 0: 0-1 begun by ann", "bob 0: 2-4 stored"], whose("bob/diary"), {}, {"bob/diary": "q2 a2"}),
    "two memories have a run in common, of which one noted it":
        ("q1 q2 a1", ["ann 0: 0-2 begun"], whose("ann/diary"), {}, {"ann/diary": "q1 q2 a1"}),
    "two memories have a run in common that nobody noted":
        ("q1 q2 a1", ["ann 0: 0-3 stored node mine"], whose("ann/diary"), {}, {"ann/diary": "q1 q2 a1"}),
    "callers do not differ, and a node comes again with another namespace":
        ("q1 a1 s1 a2", ["ann 0: 0-2 stored by app node remember"], whose("bob", "app"), {}, {"bob": "a2"}),
    "the history was cut in the run to its last question":
        ("(a0) (q1) q2 a1", ["ann 0: 1-3 begun"], ANN, {}, {"ann": "q2 a1"}),
    "the history was cut in the run to what a step added":
        ("(a0) (q1) q2 a1", ["ann 0: 1-2 begun"], ANN, {}, {"ann": "q2 a1"}),
    "the first words of a failed run were removed":
        ("(q1) q2 a2 q3 a3", ["ann 0: 0-1 begun", "bob 1: 1-3 stored", "ann 2: 3-4 begun"], ANN, {"ann": ""}, {"ann": "q3 a3"}),
    "all is removed by which it was known where the run begins":
        ("q1 (a1) (q2) a2", ["ann 0: 0-1 begun", "ann 1: 2-3 begun"], ANN, {"ann": "q1"}, {"ann": "a2"}),
    "the answer of another was removed":
        ("q1 (a1) q2 a2", ["bob 0: 0-2 stored"], ANN, {}, {"ann": "q2 a2"}),
}  # fmt: skip


@pytest.mark.parametrize("situation", ENDS)
def test_at_its_end_a_memory_is_given_what_was_said_to_it(situation):
    messages, entries, mine, earlier, expected = ENDS[situation]
    found = record(messages, entries)
    left, said = found.due(mine)
    assert (given(found, left), given(found, said)) == (earlier, expected)
    left, said = found.due(mine, unanswered=False)
    assert not any(given(found, left).values())


def test_it_must_be_known_to_which_memory_of_somebody_else_a_run_was_said():
    for entries in ["ann 0: 0-1 begun", "ann/diary 0: 0-1 begun"], ["team 0: 0-1 begun by ann"]:
        with pytest.raises(NamespaceError, match="begun by somebody else"):
            record("q1 a1", entries).due(BOB)


def test_of_a_run_that_nobody_noted_the_last_question_alone_did_surely_not_fail():
    found = record("q1 a1 q2 q3 a3", ["ann 0: 0-2 stored"])
    assert given(found, found.due(ANN, unanswered=False)[1]) == {"ann": "q3 a3"}


# The messages, the entries, who recalls; the number of the run, and where it begins.
BEGINNINGS = {
    "the first run of a thread": ("q1 q2", [], ANN, (0, 0)),
    "the next run": ("q1 a1 q2", ["ann 0: 0-2 stored"], ANN, (1, 2)),
    "the run of somebody else": ("q1 a1 a2 q2", ["bob 0: 0-2 stored"], ANN, (1, 3)),
    "after a run that failed": ("q1 a1 q2", ["ann 0: 0-1 begun"], ANN, (1, 2)),
    "after that of somebody else nobody speaks": ("q1 s1", ["bob 0: 0-1 begun"], ANN, (1, 2)),
    "another memory of the run": ("q1 q2", ["ann 0: 0-2 begun"], whose("ann/diary"), (0, 0)),
    "the memory of everybody": ("q1 q2", ["ann 0: 0-2 begun"], whose("team", "ann"), (0, 0)),
    "the same node for somebody else": ("q1 s1", ["ann 0: 0-1 begun by app"], whose("bob", "app", "recall"), (1, 2)),
    "what others said was removed": ("(q1) (a1) q2", ["bob 0: 0-2 stored"], ANN, (1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("situation", BEGINNINGS)
def test_a_run_begins_with_the_first_words_that_no_run_has_seen(situation):
    messages, entries, mine, expected = BEGINNINGS[situation]
    begun = record(messages, entries).begin(mine)
    assert (begun.run, begun.start) == expected


def test_a_state_keeps_the_entries_from_the_first_one_that_is_not_stored_and_few():
    found, state = record("q1", []), {}
    for run in range(3):
        state = merged(state, found.saved([noted(f"ann {run}: 0-1 stored")]))
    assert [one["run"] for one in state.values()] == [1, 2]
    for run in range(3, ENTRIES * 2):
        state = merged(state, found.saved([noted(f"ann {run}: 0-1 begun")]))
    assert [one["run"] for one in state.values()] == [*range(ENTRIES, ENTRIES * 2)]
    assert merged(state, None) == json.loads(json.dumps(state)) == state
