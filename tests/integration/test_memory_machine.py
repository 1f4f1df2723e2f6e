"""Whatever is done to a memory in whatever order: links have two ends, views are what was decided, gone is gone."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import BaseModel
from support import models

from amem_integrations import errors
from amem_integrations.flows.writing import writer_of
from amem_integrations.journal.projection import differing
from amem_integrations.notes import Attempts
from amem_integrations.runtime import run
from amem_integrations.testing import ScriptedModel

ANN = ("ann",)
START = datetime(2024, 1, 1, tzinfo=UTC)
LATER = datetime.now(UTC) + timedelta(days=365)
# Words of their own, so that what is left of a deleted note can be told.
FIRST, LAST = ("oran", "bisk", "fjel", "quin"), ("go", "tur", "dal", "zef")
WORDS = [f"{first}{last}" for first in FIRST for last in LAST]
RELATIONS = ("updates", "corrects", "retracts", "contradicts")


def evolve(request):
    """Links every note to its best candidate, quotes itself there, now and then takes its place, and changes links."""
    links = request.inputs["links"]
    notes = [note for note in request.inputs["notes"] if note["candidates"]]
    return {"notes": [_evolution(note, links) for note in notes]}


def _evolution(note, links):
    to, number = note["candidates"][0]["alias"], sum(map(ord, note["content"]))
    said, changes = {"reason": note["content"]}, ("strengthen", "weaken", "remove")
    replaces = {"to": to, "relation": RELATIONS[number % 4], **said}
    return {
        "id": note["alias"],
        "links": [{"to": to, "relation": "continues", "strength": 0.5, **said}],
        "updates": [{"to": to, "context": f"Taken up: {note['content']}"}],
        "supersedes": [replaces] if number % 3 else [],
        "relinks": [
            {"between": link["between"], "change": changes[(number + place) % 3], **said}
            for place, link in enumerate(links[:2])
        ],
    }


class Words(BaseModel):
    """What somebody said."""

    said: str = ""


def fill(request):
    """Quotes all that is shown, and names one note of it."""
    notes = request.inputs["notes"]
    said = " ".join([request.inputs["value"].get("said", ""), *(one["content"] for one in notes)])
    return {"value": {"said": said}, "of": [notes[0]["alias"]]}


class MemoryMachine(RuleBasedStateMachine):
    """A memory, and what a user knows of it: the words of each note, and which of them are gone."""

    @initialize()
    def open(self):
        script = {"construct": models.construct, "evolve": evolve, "fill": fill}
        self.memory = models.opened(model=ScriptedModel(script))
        self.contents = {}
        self.gone = set()
        self.count = 0

    def teardown(self):
        if hasattr(self, "memory"):
            self.memory.close()

    def some(self, number):
        return sorted(self.contents)[number % len(self.contents)]

    def word(self):
        self.count += 1
        return f"{WORDS[self.count % len(WORDS)]}{'xkwv'[self.count % 4] * (1 + self.count // 16)}"

    @rule(days=st.integers(0, 9), thread=st.sampled_from([None, "t"]), now=st.booleans())
    def add(self, days, thread, now):
        content = f"The word is {self.word()}"
        at = START + timedelta(days=days)
        note = self.memory.add(content, namespace=ANN, at=at, thread=thread, evolve=now)
        self.contents[note.id] = content

    @precondition(lambda self: self.contents)
    @rule(number=st.integers(0, 99))
    def say_again(self, number):
        content = f"{self.contents[self.some(number)]}."  # a wording of its own
        note = self.memory.add(content, namespace=ANN, at=START, evolve=False)
        self.contents[note.id] = content

    @rule()
    def fill_a_form(self):
        self.memory.fill(Words, namespace=ANN)

    @rule()
    def finish(self):
        self.memory.evolve(namespace=ANN)

    @precondition(lambda self: self.contents)
    @rule(one=st.integers(0, 99), other=st.integers(0, 99), relation=st.sampled_from(RELATIONS))
    def supersede(self, one, other, relation):
        older, newer = self.some(one), self.some(other)
        try:
            self.memory.supersede(older, newer, namespace=ANN, relation=relation)
        except errors.InvalidInputError:
            return  # it is not later, or says so already

    @precondition(lambda self: self.contents)
    @rule(number=st.integers(0, 99))
    def update(self, number):
        note_id = self.some(number)
        self.contents[note_id] = f"Rather it is {self.word()}"
        self.memory.update(note_id, namespace=ANN, content=self.contents[note_id])

    @precondition(lambda self: self.contents)
    @rule(number=st.integers(0, 999))
    def undo(self, number):
        changes = self.memory.history(None, namespace=ANN)
        made = changes[number % len(changes)]
        try:
            self.memory.undo(made.id, namespace=ANN)
        except (errors.InvalidInputError, errors.RevisionConflictError):
            return
        if made.note_id in self.contents:
            self.contents[made.note_id] = self.memory.get(made.note_id, namespace=ANN).content

    def state(self):
        """Return the notes, but for which attempt comes next."""
        notes = self.memory.get_all(namespace=ANN, limit=999)
        return [replace(note, next_attempts=Attempts()) for note in notes]

    @precondition(lambda self: self.contents)
    @rule()
    def take_all_back_and_have_it_again(self):
        before = self.state()
        report = self.memory.undo(model="scripted", namespace=ANN)
        without = self.state()
        assert self.memory.undo(model="scripted", namespace=ANN).undone == ()
        again = self.memory.undo(report.changes, namespace=ANN)
        assert again.skipped == {}
        assert self.state() == before
        self.memory.undo(again.changes, namespace=ANN)
        assert self.state() == without

    @precondition(lambda self: self.contents)
    @rule(number=st.integers(0, 99), expire=st.booleans())
    def delete(self, number, expire):
        note_id = self.some(number)
        old = [str(made.before) for made in self.memory.history(note_id, namespace=ANN)]
        if expire:
            self.memory.update(note_id, namespace=ANN, expires_at=START)
            self.memory.sweep(namespace=ANN)
        else:
            self.memory.delete(note_id, namespace=ANN)
        self.gone |= own_words([self.contents.pop(note_id), *old])
        # What another note says, or said before it was corrected, may be found there.
        history = self.memory.history(None, namespace=ANN)
        edits = [str((made.before, made.after)) for made in history if made.kind == "update"]
        self.gone -= own_words([*self.contents.values(), *edits])

    @invariant()
    def holds(self):
        if not hasattr(self, "memory"):
            return
        notes = {note.id: note for note in self.memory.get_all(namespace=ANN, limit=999)}
        assert {note.id: note.content for note in notes.values()} == self.contents
        for note in notes.values():
            assert_sound(note, notes)
        writer = writer_of(self.memory._runtime, ANN)
        assert run(differing(writer, notes)) == []
        live = self.exported()
        still = " ".join(self.contents.values())
        assert [word for word in self.gone if word in live and word not in still] == []

    def exported(self):
        """Return all that an export holds, and all that stands in the points of both collections."""
        store = self.memory._runtime.store
        points = [*store._notes.scroll(None), *store._records.scroll(None)]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "ann.jsonl"
            self.memory.export(path, namespace=ANN)
            return f"{path.read_text(encoding='utf-8')} {[point.payload for point in points]}"

    @precondition(lambda self: self.contents)
    @rule(number=st.integers(0, 99), ahead=st.booleans())
    def nothing_outdated_stands_in_front(self, number, ahead):
        time = LATER if ahead else START + timedelta(days=number % 12)
        hits = self.memory.search(self.contents[self.some(number)], namespace=ANN, k=50, as_of=time)
        places = {hit.note.id: place for place, hit in enumerate(hits)}
        for hit in hits:
            for newer, supersession in hit.note.supersessions.items():
                if supersession.replaces:
                    assert places[newer] < places[hit.note.id]
            if hit.superseded_by is not None:
                assert hits[places[hit.superseded_by]].superseded_by is None


def own_words(texts):
    """Return the words that stand in one text only, unless somebody repeats it."""
    return {word for text in texts for word in re.findall(r"\w+", text) if word[:4] in FIRST}


def assert_sound(note, notes):
    """Links are two-sided; what supersedes a note is there, and later."""
    for target, link in note.links.items():
        other = notes[target].links[note.id]
        turned = "in" if link.direction == "out" else "out"
        assert other == replace(link, direction=turned)
    for newer in note.supersessions:
        assert (notes[newer].when, notes[newer].seq) > (note.when, note.seq)
    assert {entry.cause for entry in note.contexts} <= notes.keys()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(
    max_examples=int(os.environ.get("AMEM_EXAMPLES", "24")),
    stateful_step_count=25,
)
