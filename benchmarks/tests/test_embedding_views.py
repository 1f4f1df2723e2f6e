"""The figures that are said of the notes in the embedder's space, on cases that can be worked out."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from support.notes import make_entry, make_link, make_note

from amem_integrations.errors import InvalidInputError
from amem_integrations.texts import embedding_text
from benchmarks.evaluation import embedding_views as views


def unit(*rows):
    found = np.array(rows, dtype=np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


APART = unit([1, 0, 0], [0.99, 0.1, 0], [0, 1, 0], [0.1, 0.99, 0])  # two pairs
PAIRS = np.array([0, 0, 1, 1])
CROSSED = np.array([0, 1, 0, 1])


def test_purity_is_the_share_of_near_notes_of_the_same_session():
    assert views.purity(APART, PAIRS, 1) == [1.0] * 4
    assert views.purity(APART, CROSSED, 1) == [0.0] * 4
    # Of the two nearest one is the other of the pair, and one is of the other pair.
    assert views.purity(APART, PAIRS, 2) == [0.5] * 4
    assert views.purity(APART, PAIRS, 5) == pytest.approx([1 / 3] * 4)  # all others


def test_a_note_is_not_its_own_neighbour():
    same = unit([1, 0], [1, 0], [1, 0])
    assert views.purity(same, np.array([0, 1, 2]), 1) == [0.0] * 3


def test_silhouette_is_by_cosine_distance_to_the_own_and_the_nearest_other_session():
    near, far = 1 - APART[0] @ APART[1], np.mean([1 - APART[0] @ APART[2], 1 - APART[0] @ APART[3]])
    found = views.silhouette(APART, PAIRS)
    assert found[0] == pytest.approx((far - near) / far, abs=1e-6)
    assert min(found) > 0.8
    assert max(views.silhouette(APART, CROSSED)) < 0


def test_where_a_figure_is_not_defined_there_is_none():
    assert views.silhouette(APART, np.zeros(4, dtype=int)) == []  # one session
    assert views.silhouette(APART, np.arange(4)) == []  # as many as notes
    assert views.purity(APART[:1], PAIRS[:1]) == []


@pytest.mark.parametrize(
    ("labels", "chance"),
    [([0, 0, 1, 1], 1 / 3), ([0, 0, 0], 1.0), ([0, 1, 2], 0.0), ([0, 0, 0, 1], 0.5), ([0], None)],
)
def test_chance_is_how_often_two_notes_are_of_one_session(labels, chance):
    found = views.chance_of_purity(np.array(labels))
    assert found == (chance if chance is None else pytest.approx(chance))


def test_chance_is_what_shuffled_sessions_give():
    dice = np.random.default_rng(1)
    vectors, labels = unit(*dice.normal(size=(200, 16))), np.repeat(np.arange(8), 25)
    means = [np.mean(views.purity(vectors, dice.permutation(labels))) for _ in range(30)]
    assert np.mean(means) == pytest.approx(views.chance_of_purity(labels), abs=0.01)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 12])
def test_any_number_of_notes_has_points_always_the_same(count):
    vectors = unit(*np.random.default_rng(count).normal(size=(count, 8)))
    found = views.points(vectors)
    assert np.array(found).shape == (count, 2)
    assert np.isfinite(found).all()
    assert found == views.points(vectors)


def test_notes_that_say_the_same_have_points_too():
    assert np.isfinite(views.points(unit(*[[1, 0, 0]] * 6))).all()


class Listening:
    """An embedder that keeps what it was given, and tells texts apart."""

    name, dimensions = "listening", 8

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts.append(list(texts))
        return unit(*[np.random.default_rng(len(text)).normal(size=8) for text in texts])

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def talk():
    notes = [make_note(f"Note {n}.", thread=f"s{n // 3}", speaker="Ann") for n in range(6)]
    notes = [
        note.revised(contexts=(make_entry(f"About {n}.", note.id, keywords=("k",), tags=("t",)),))
        for n, note in enumerate(notes)
    ]
    late = make_entry("Seen later.", notes[5].id, keywords=("later",))
    notes[0] = notes[0].revised(
        contexts=(*notes[0].contexts, late), links={notes[5].id: make_link(), "gone": make_link()}
    )
    notes[5] = notes[5].revised(links={notes[0].id: make_link(direction="in")})
    return notes


def test_each_view_is_encoded_from_what_the_engine_encodes():
    embedder, notes = Listening(), talk()
    views.views(notes, embedder)
    bare, enriched, evolved = embedder.texts
    assert bare[0] == "Ann: Note 0."
    assert enriched[0] == "Ann: Note 0.\nk\nt\nAbout 0."
    assert evolved == [embedding_text(note) for note in notes]
    assert evolved[0] == "Ann: Note 0.\nk, later\nt\nAbout 0. Seen later."
    assert enriched[1:] == evolved[1:]


def test_views_are_json_and_hold_links_once_and_sessions_of_all_notes():
    found = views.views(talk(), Listening())
    assert json.loads(json.dumps(found)) == found
    assert found["conversation"] == "ann"
    assert found["links"] == [[0, 5]]
    assert found["sessions"] == ["s0"] * 3 + ["s1"] * 3
    assert list(found["views"]) == ["content", "enriched", "evolved"]
    for view in found["views"].values():
        assert len(view["points"]) == 6
        assert view["chance"] == pytest.approx(0.4)
        low, high = view["purity_interval"]
        assert 0 <= low <= view["purity"] <= high <= 1
        assert -1 <= view["silhouette"] <= 1


def test_notes_of_one_session_have_no_silhouette():
    view = views.views([make_note("a"), make_note("b")], Listening())["views"]["content"]
    assert view["silhouette"] is view["silhouette_chance"] is view["silhouette_interval"] is None
    assert view["purity"] == view["chance"] == 1.0


def test_no_notes_are_an_error():
    with pytest.raises(InvalidInputError, match="no notes"):
        views.views([], Listening())
