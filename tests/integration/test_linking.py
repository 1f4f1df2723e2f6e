"""Links: from turn to turn by code, what later notes make of them, and filler, which gets none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import models

from amem_integrations import NoteInput
from amem_integrations.cli.changes import diff
from amem_integrations.plans import ANSWERS, FOLLOWS
from amem_integrations.testing import HashEmbedder, ScriptedModel

ANN = ("ann",)


@pytest.fixture
def opened(open_memory):
    """Opens memories; their model is at `memory.model`."""

    def open_(evolve=models.nothing, construct=models.construct, **settings):
        return open_memory(models.model(evolve, construct), **settings)

    return open_


def say(memory, *turns):
    """Say turns in a thread, some by a speaker."""
    pairs = [turn if isinstance(turn, tuple) else (None, turn) for turn in turns]
    items = [NoteInput(content=text, speaker=who, thread="t") for who, text in pairs]
    return memory.add_many(items, namespace=ANN)


def relations(note):
    return {target: link.relation for target, link in note.links.items() if link.direction == "out"}


# A turn is linked to the one before it by code; a model may say more


def test_a_turn_is_linked_to_the_one_before_it_though_the_model_says_nothing(opened):
    memory = opened(review=True)  # what no model proposed waits for no review
    first, second, third = say(memory, "I paint boats", "Where?", "In the shed")
    found = [relations(note) for note in (first, second, third)]
    assert found == [{}, {first.id: FOLLOWS}, {second.id: FOLLOWS}]
    assert memory.proposals(namespace=ANN) == []
    memory.add("our shed", namespace=ANN, thread="t")
    assert memory.model.asked("evolve")[-1].inputs["links"] == []  # no model judges such a link
    first, second = say(opened(models.link_to_first), "I paint boats", "In the shed")
    assert relations(second) == {first.id: "continues"}
    memory = opened()
    alone = memory.add_many(["I paint boats", "In the shed"], namespace=ANN)
    alone.append(memory.add("At night", namespace=ANN, thread="other"))
    assert [dict(note.links) for note in alone] == [{}, {}, {}]


def test_without_links_or_turns_before_nothing_is_linked_by_code(opened):
    for settings in ({"link": False}, {"recent": 0}):
        _, second = say(opened(**settings), "I paint boats", "In the shed")
        assert relations(second) == {}


def test_a_turn_answers_what_another_speaker_asked_before_it(opened):
    talk = (("Ann", "I paint boats"), ("Bob", "Where?"), ("Ann", "In the shed"), ("Ann", "Oh"))
    told, asked, answer, more = say(opened(), *talk)
    found = [relations(note) for note in (asked, answer, more)]
    assert found == [{told.id: FOLLOWS}, {asked.id: ANSWERS}, {answer.id: FOLLOWS}]
    asked, told = say(opened(), ("Ann", "You know what?"), ("Ann", "I paint boats"))
    assert relations(told) == {asked.id: FOLLOWS}


def test_a_sentence_about_the_new_note_itself_is_dropped_and_counted(opened):
    update = {"to": "n1", "c": "The one who fell is Ann"}
    memory = opened(models.each({"updates": [update]}))
    memory.add("Ann fell off the boat", namespace=ANN)
    raw = memory.add("The one who fell is well", namespace=ANN, evolve=False)
    assert memory.evolve(namespace=ANN).dropped == 1
    assert len(memory.get(raw.id, namespace=ANN).contexts) == 1


def test_one_new_note_updates_one_earlier_note(opened):
    def both(note):
        return {"updates": [{"to": c["alias"], "c": "It sank"} for c in note["candidates"]]}

    memory = opened(models.each(both))
    notes = [memory.add(f"The boat is {what}", namespace=ANN) for what in ("red", "old", "gone")]
    counts = [len(memory.get(note.id, namespace=ANN).contexts) for note in notes]
    assert sum(counts) == len(notes) + 2  # of the second note, and of the third


def test_by_the_papers_calls_a_note_is_asked_for_its_links_and_each_neighbour_for_what_it_changes():
    def link(request):
        (note,) = request.inputs["notes"]
        shown = [one["alias"] for one in note["candidates"]]
        return {"links": [{"to": to, "relation": "about", "reason": "same boat"} for to in shown]}

    def revise(request):
        neighbour = request.inputs["neighbour"]["content"]
        asked.append((request.inputs["note"]["content"], neighbour))
        others = [one["content"] for one in request.inputs["others"]]
        assert neighbour not in others
        if "red" in neighbour:
            return {"change": False, "supersedes": "updates", "context": "It is never written"}
        return {"change": True, "context": f"Later: {neighbour}", "keywords": ["sunk"]}

    asked = []
    script = {"construct": models.construct, "link": link, "revise": revise}
    with models.opened(model=ScriptedModel(script), calls="paper") as memory:
        red, old = (memory.add(f"The boat is {what}", namespace=ANN) for what in ("red", "old"))
        gone = memory.add("The boat is gone", namespace=ANN)
        assert sorted(asked) == sorted(
            [(old.content, red.content), (gone.content, red.content), (gone.content, old.content)]
        )
        red, old = (memory.get(one.id, namespace=ANN) for one in (red, old))
        assert {one.relation for one in gone.links.values()} == {"about"}
        assert gone.links.keys() == {red.id, old.id}
        assert (red.superseded_by, len(red.contexts)) == (gone.id, 1)
        assert (old.superseded_by, old.contexts[-1].text) == (None, f"Later: {old.content}")
        assert old.contexts[-1].keywords == ("sunk",)
    asked.clear()
    with models.opened(model=ScriptedModel(script), calls="paper", evolve=False) as memory:
        for what in ("red", "old"):
            memory.add(f"The boat is {what}", namespace=ANN)
        assert asked == []


def test_what_is_no_conversation_is_neither_a_candidate_nor_a_turn_before(opened):
    memory = opened(models.link_to_first)
    for origin in ("document", "item"):
        stored = NoteInput(content=f"a boat trip of an {origin}", thread="t", origin=origin)
        memory.add_many([stored], namespace=ANN)
    assert memory.add("our boat trip", namespace=ANN, thread="t").links == {}
    (request,) = memory.model.requests
    assert (request.task, request.inputs["before"]) == ("construct", [])


class Blind(HashEmbedder):
    """An embedder without a usable vector: notes are found by their words alone."""

    def embed_documents(self, texts):
        return [[0.0] * self.dimensions for _ in texts]


def test_a_note_of_the_same_batch_is_a_candidate_by_the_words_of_its_entry(opened):
    entries = {"Oliver is asleep": "The dog of the family naps", "A dog barks": "A dog is heard"}
    offered, asked = {}, "Does the family dog nap?"

    def construct(note):
        return models.attributes(note) | {"context": entries.get(note["content"], "Nothing else")}

    def evolve(request):
        shown = [*request.inputs["candidates"], *request.inputs["notes"]]
        said = {one["alias"]: one["content"] for one in shown}
        for note in request.inputs["notes"]:
            offered[note["content"]] = [said[one["alias"]] for one in note["candidates"]]
        return models.nothing(request)

    for size in (20, 1):  # notes that are asked about at the same time, too
        settings = {"embedder": Blind(), "recent": 0, "candidates": 1, "batch_size": size}
        memory = opened(evolve, models.each(construct), **settings)
        say(memory, "Oliver is asleep", "A dog barks", "Boats need paint", asked)
        assert offered.pop(asked) == ["Oliver is asleep"]
    (shown,) = memory.model.asked("evolve")[-1].inputs["candidates"]
    assert shown["context"] == entries["Oliver is asleep"]


def test_notes_are_as_near_before_their_entries_are_written_as_afterwards(tmp_path):
    construct, near = models.each({"context": "Ann says that the family boat needs paint"}), []
    for first in ("construct", "nothing"):
        model = models.model(models.nothing, construct)
        with models.opened(tmp_path / first, model) as memory:
            memory.add("A boat of the family", namespace=ANN)
        with models.opened(tmp_path / first, model, recent=0) as memory:
            notes = memory.add_many(["It leaks", "Paint is cheap"], namespace=ANN, evolve=False)
            if first == "construct":
                memory.construct([note.id for note in notes], namespace=ANN)
            memory.evolve(namespace=ANN)
        asked = model.asked("evolve")[-1].inputs["notes"]
        near.append([[one["similarity"] for one in note["candidates"]] for note in asked])
    for one, other, count in zip(*near, (1, 2), strict=True):
        assert one == pytest.approx(other)
        assert len([*filter(None, one)]) == count


# A later note strengthens, weakens or removes links

NEW = "By the way, Zoe says that the boat trip was in Norway"
WHY = "the new note shows it"


def relinking(change, between=None, step=1):
    """Return an answer that links notes, and changes the link of the first two, as shown or turned, when the third comes."""

    def answer(request):
        reply = models.link_to_first(request)
        for note in reply["notes"]:
            if request.inputs["notes"][0]["content"] == NEW:
                pair = [one for link in request.inputs["links"] for one in link["between"]]
                ends = pair[::step] if between is None else between
                relink = {"between": ends, "change": change, "reason": WHY}
                again = [relink | {"change": "strengthen"}] if between is None else []
                note |= {"links": [], "relinks": [relink, *again]}
        return reply

    return answer


def linked(memory):
    """Add two notes that the model links, and return their ids."""
    texts = ("We went on a boat trip", "Norway was cold")
    return [memory.add(text, namespace=ANN, thread="t").id for text in texts]


def link_of(memory, one, other):
    """Return the link between two notes, None if there is none; both ends must say the same."""
    link = memory.get(one, namespace=ANN).links.get(other)
    turned = link and replace(link, direction="in" if link.direction == "out" else "out")
    assert memory.get(other, namespace=ANN).links.get(one) == turned
    return link


def relinks(memory, note_id):
    return [c for c in memory.history(note_id, namespace=ANN) if c.kind == "relink"]


def test_a_new_note_changes_a_link_between_earlier_ones_at_both_ends(opened, tmp_path):
    for change, strength, step in (
        ("strengthen", 0.9, 1),
        ("weaken", 0.4, -1),
        ("remove", None, 1),
    ):
        memory = opened(relinking(change, step=step))
        ids = first, second = linked(memory)
        before = link_of(memory, first, second)
        assert before.strength == 0.8
        new = memory.add(NEW, namespace=ANN, thread="t", evolve=False)
        report = memory.evolve(namespace=ANN)
        assert (report.relinked, report.links, report.dropped) == (1, 1, 0)  # it follows the turn
        request = memory.model.asked("evolve")[-1]
        (shown,) = request.inputs["links"]
        assert {"relation": "continues", "strength": 0.8}.items() <= shown.items()
        assert f"{'-'.join(shown['between'])} continues, strong" in request.prompt
        after = link_of(memory, first, second)
        assert (after and after.strength) == (strength and pytest.approx(strength))
        for end in ids:
            (made,) = relinks(memory, end)
            assert (made.note_id, made.after["to"], made.by) == (second, first, "scripted")
            assert made.before == {"strength": 0.8}
            assert made.after["strength"] == pytest.approx(strength or 0.0)
            assert (made.after["reason"], made.after["cause"]) == (WHY, new.id)
            lines = "\n".join(diff(made))
            for part in ("-strength: 0.80", f"+strength: {strength or 0:.2f}", WHY):
                assert part in lines
            # It is undone and redone at both ends from either.
            undone = memory.undo(made.id, namespace=ANN)
            assert link_of(memory, *ids) == before
            assert [relinks(memory, one)[0].state for one in ids] == ["off", "off"]
            memory.undo(undone.id, namespace=ANN)
            assert link_of(memory, *ids) == after
        memory.export(tmp_path / change, namespace=ANN)
        with models.opened() as other:
            other.import_(tmp_path / change, namespace=ANN)
            here, there = (relations(one.get(second, namespace=ANN)) for one in (memory, other))
            assert here == there


def test_what_names_no_link_that_was_shown_is_dropped_and_counted(opened):
    pairs = (["c1", "c9"], ["c1", "c1"], ["c1"], ["n1", "c1"], ["c1", "c2", "n1"], [])
    for change, between in [("ponder", ["c1", "c2"]), *(("remove", pair) for pair in pairs)]:
        memory = opened(relinking(change, between))
        first, second = linked(memory)
        memory.add(NEW, namespace=ANN, thread="t", evolve=False)
        report = memory.evolve(namespace=ANN)
        assert (report.relinked, report.dropped) == (0, 1), between
        assert link_of(memory, first, second).strength == 0.8


def test_without_evolution_no_link_is_changed(open_memory):
    memory = open_memory(models.model(relinking("remove")), evolve=False)
    first, second = linked(memory)
    memory.add(NEW, namespace=ANN, thread="t")
    assert link_of(memory, first, second).strength == 0.8


def test_with_review_a_changed_link_waits_and_is_written_when_it_is_approved(opened):
    memory = opened(relinking("remove"), review=True)
    first, second = linked(memory)
    (made,) = memory.proposals(namespace=ANN)
    memory.approve(made.id, namespace=ANN)
    memory.add(NEW, namespace=ANN, thread="t")
    before = link_of(memory, first, second)
    (proposal,) = memory.proposals(namespace=ANN)
    assert (proposal.kind, proposal.note_id, proposal.after["to"]) == ("relink", second, first)
    assert proposal.after["strength"] == 0.0
    approved = memory.approve(proposal.id, namespace=ANN)
    assert link_of(memory, first, second) is None
    assert (approved.id, approved.state) == (proposal.id, "on")
    memory.undo(approved.id, namespace=ANN)
    assert link_of(memory, first, second) == before
    memory.reject(proposal.id, namespace=ANN)
    assert memory.proposals(namespace=ANN) == []


def test_a_link_that_the_user_brought_back_is_weakened_only_if_the_user_agrees(opened):
    for change, stopped in (("weaken", True), ("strengthen", False)):
        memory = opened(relinking(change))
        first, second = linked(memory)
        (made,) = [c for c in memory.history(first, namespace=ANN) if c.kind == "link"]
        memory.undo(memory.undo(made.id, namespace=ANN).id, namespace=ANN)
        memory.add(NEW, namespace=ANN, thread="t")
        waiting = memory.proposals(namespace=ANN)
        assert bool(waiting) == stopped
        assert (link_of(memory, first, second).strength == 0.8) == stopped
        for proposal in waiting:
            assert "a person" in proposal.after["why"]
    memory = opened(relinking("weaken"))
    first, second = linked(memory)
    memory.supersede(first, second, namespace=ANN)  # that is no link
    memory.add(NEW, namespace=ANN, thread="t")
    assert link_of(memory, first, second).strength == pytest.approx(0.4)


def test_the_graph_and_hits_have_the_strength_of_a_link(opened):
    memory = opened(models.link_to_first)
    first, second = linked(memory)
    decoys = [NoteInput(content=f"Decoy {number}") for number in range(80)]
    memory.add_many(decoys, namespace=ANN, evolve=False)
    match, _, hit = memory.search("boat trip", namespace=ANN, k=3)
    assert (match.note.id, match.via) == (first, "match")
    assert (hit.note.id, [(s.note_id, s.strength) for s in hit.via]) == (second, [(first, 0.8)])
    assert memory.graph(namespace=ANN).edges[second, first]["strength"] == 0.8


# Filler is stored and found, and costs no attributes, no candidates and no call for links


def test_filler_is_done_without_attributes_or_links_and_found_by_its_words(opened):
    memory = opened(models.link_to_first, models.exclaiming)
    first, filler, third = say(memory, "I paint boats", "Splendid indeed!", "Boats of wood")
    assert (filler.kind, filler.state, dict(filler.links)) == ("filler", "done", {})
    assert (filler.keywords, filler.tags, filler.contexts[0].text) == ((), (), "")
    assert set(third.links) == {first.id}  # the turn after filler goes on with the one before it
    found = memory.search("splendid", namespace=ANN, k=3)
    assert filler.id in [hit.note.id for hit in found]
    reply = models.exclaiming(memory.model.asked("construct")[0])  # it costs its id
    assert ([entry["id"] for entry in reply["notes"]], reply["filler"]) == (["n1", "n3"], ["n2"])
    memory = opened(models.link_to_first, models.exclaiming)
    say(memory, "Splendid boats!", "Marvellous!")
    assert memory.evolve(namespace=ANN).done == ()
    assert [request.task for request in memory.model.requests] == ["construct"]
    say(memory, "Splendid boats of wood")
    asked = memory.model.asked("evolve")
    assert all(not note["candidates"] for request in asked for note in request.inputs["notes"])


def test_a_question_is_a_candidate_of_the_turns_after_it_only(opened):
    memory = opened(construct=models.exclaiming)
    say(memory, "You paint boats of what?", "I paint boats of wood")
    memory.add("My sister paints boats of wood", namespace=ANN, thread="other")
    asked = [r.inputs for r in memory.model.asked("evolve")]
    assert [len(inputs["notes"][-1]["candidates"]) for inputs in asked] == [1, 1]
    assert asked[1]["candidates"][0]["content"] == "I paint boats of wood"


def test_a_long_note_is_no_filler_whatever_the_model_says(opened):
    memory = opened(models.link_to_first, models.exclaiming)
    content = f"{'I painted the boat of my sister, ' * 8}really!"
    first, long, thanks = say(memory, "I paint boats", content, "Thanks, bye")
    assert (long.kind, long.state, long.keywords) == ("statement", "done", ())
    assert first.id in long.links
    assert len(memory.model.asked("construct")) == 1
    assert "really!" in memory.model.asked("evolve")[0].prompt
    # A note that a model describes is none, whatever its words.
    assert (thanks.kind, thanks.contexts[0].text) == ("statement", "About Thanks, bye")


def test_where_finds_notes_by_kind(opened, tmp_path):
    asked, told = say(opened(construct=models.exclaiming), "You did what?", "I painted it")
    assert (asked.kind, told.kind) == ("question", "statement")
    said = {"I moved to Oslo.": "statement", "Where do I live?": "question", "Bye!": "filler"}
    with models.opened(tmp_path) as memory:
        memory.add_many(list(said), namespace=ANN)
    with models.opened(tmp_path, models.model(construct=models.construct)) as memory:
        for text, kind in said.items():
            found = memory.get_all(namespace=ANN, where={"kind": kind})
            assert [note.content for note in found] == [text]
        assert len(memory.get_all(namespace=ANN, where={"kind": {"$ne": "filler"}})) == 2
        (hit,) = memory.search("bye", namespace=ANN, where={"kind": "filler"})
        assert hit.note.kind == "filler"
        memory.evolve(upgrade=True)  # to what the model makes of it
        assert memory.get(hit.note.id, namespace=ANN).kind == "statement"


def test_the_id_of_filler_is_read_however_it_is_written(opened):
    for names in (["[n2]"], "n2", [" n2 "]):
        memory = opened(construct=lambda r, names=names: {**models.exclaiming(r), "filler": names})
        assert [n.kind for n in say(memory, "I paint", "Splendid!")] == ["statement", "filler"]


def test_of_what_other_notes_added_the_newest_eight_sentences_count(opened):
    def add_to_the_first(request):
        (note,), shown = request.inputs["notes"], request.inputs["candidates"]
        first = [one["alias"] for one in shown if one["content"] == "The harvest"]
        told = {"context": note["content"].split(":")[-1]}
        return {"notes": [{"id": note["alias"], "updates": [{"to": to, **told} for to in first]}]}

    memory, trees = opened(add_to_the_first), "ash birch cedar elm fir hazel larch maple oak pine"
    first = memory.add("The harvest", namespace=ANN)
    for tree in trees.split():
        memory.add(f"The harvest goes on: {tree}", namespace=ANN)
    (note,) = memory.get_all(namespace=ANN, where={"id": first.id})
    newest = trees.split()[2:]
    assert [entry.text for entry in note.contexts] == ["About The harvest", *newest]
    found = {tree: memory.search(tree, namespace=ANN, explain=True) for tree in trees.split()}
    words = {tree: {h.note.id for h in hits if h.why.lexical_rank} for tree, hits in found.items()}
    assert [tree for tree in words if first.id in words[tree]] == newest
