"""The first hit states what is asked for: short dialogues of several threads, without a language model.

`benchmarks/dialogues/first_hit.jsonl` has 40 of them, in the form of `currency.jsonl`, each turn with its thread. Constants of
the ranking were chosen on the half `tune`.
"""

from __future__ import annotations

from datetime import datetime

from amem_integrations import AgenticMemory, NoteInput
from benchmarks.currency import cases

SPACE = ("chat",)
SAID = ("content", "thread", "speaker", "source")


def test_the_turn_that_states_a_fact_stands_above_the_turn_after(minilm):
    turns = [
        ("plans", "Noor", "cant do mondays, i climb mon 6:30pm at the mill"),
        ("plans", "Noor", "pottery is tues but i can skip that if ur free"),
        ("plans", "Sam", "wed then? noor u legend"),
        ("shoes", "Noor", "my climbing shoes are falling apart"),
        ("shoes", "Sam", "get the red ones"),
    ]
    with AgenticMemory.open(":memory:", embedder=minilm) as memory:
        for thread, speaker, content in turns:
            memory.add(content, namespace=SPACE, thread=thread, speaker=speaker)
        hits = memory.search("What day does Noor go climbing?", namespace=SPACE)
    assert hits[0].note.content == turns[0][2]


def test_the_first_hit_answers_in_most_dialogues_and_as_often_as_without_links(minilm):
    with_links, without = [], []
    for case in cases("report", "first_hit"):
        with AgenticMemory.open(":memory:", embedder=minilm) as memory:
            items = [
                NoteInput(
                    key=turn["id"],
                    at=datetime.fromisoformat(turn["at"]),
                    **{n: turn[n] for n in SAID},
                )
                for turn in case["turns"]
            ]
            memory.add_many(items, namespace=SPACE)
            for question in (one for one in case["questions"] if not one["stale"]):
                for links, firsts in ((True, with_links), (False, without)):
                    hits = memory.search(question["question"], namespace=SPACE, links=links)
                    firsts.append(hits[0].note.key in question["current"])
    assert len(with_links) == 81
    # By fused ranks and links alone .60.
    assert sum(with_links) / len(with_links) >= 0.72
    assert sum(with_links) >= sum(without) - 1
