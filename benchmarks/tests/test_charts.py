"""Charts: what is on their axes, that something is drawn, and that all of it can be told apart."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from matplotlib.colors import to_rgb
from PIL import Image

from benchmarks.evaluation import document, systems
from benchmarks.evaluation.document import Estimate
from benchmarks.evaluation.plots import bars, curves, note_map, scale, scatter, style
from benchmarks.evaluation.plots.style import DARK, DPI, LIGHT, LOOKS, WIDTH
from benchmarks.tests import reports

NAMES = {**reports.SYSTEMS, "full": 0.6, "$new_{one}": 0.3, "日本": 0.2}
ESTIMATES = {name: Estimate(mean, mean - 0.1, mean + 0.1) for name, mean in NAMES.items()}


def chart_of_bars(look):
    return bars.draw({"k = 5": ESTIMATES, "k = $9": ESTIMATES}, "recall", look)


def chart_of_systems(look):
    found = {name: {5: one, 10: one, 20: one} for name, one in ESTIMATES.items()}
    return curves.systems(found, look)


def chart_of_calls(look):
    return scatter.draw(
        {name: (0.29, one) for name, one in ESTIMATES.items()},
        look,
        x="calls",
        y="recall",
        linear=0.1,
    )


def chart_of_tokens(look):
    places = {name: (100.0 * n, one) for n, (name, one) in enumerate(ESTIMATES.items())}
    return scatter.draw(places, look, x="tokens", y="F1", linear=1.0)


def chart_of_links(look):
    notes = reports.notes()
    return note_map.links(notes, note_map.layout(notes), look)


CHARTS = {
    "bars": chart_of_bars,
    "systems": chart_of_systems,
    "calls": chart_of_calls,
    "tokens": chart_of_tokens,
    "sweep": lambda look: curves.sweep(reports.sweep(), look),
    "by category": lambda look: curves.by_category(reports.sweep(), look),
    "scale": lambda look: scale.draw(reports.scale()["rows"], look),
    "space": lambda look: note_map.views(reports.notes(), look),
    "links": chart_of_links,
}


def pixels(made):
    return np.asarray(Image.open(io.BytesIO(style.png(made))).convert("RGB"))


@pytest.mark.parametrize(
    ("name", "look"),
    [*((name, LIGHT) for name in CHARTS), ("bars", DARK), ("space", DARK)],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_chart_is_as_wide_as_a_page_and_not_blank(name, look):
    drawn = pixels(CHARTS[name](look))
    assert drawn.shape[1] == WIDTH * DPI
    assert 1.5 * DPI < drawn.shape[0] < 7 * DPI
    paper = np.array([round(255 * part) for part in to_rgb(look.paper)])
    inked = np.abs(drawn.astype(int) - paper).max(axis=2) > 24
    assert 0.005 < inked.mean() < 0.6
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 20
    # Nothing is cut off: what is drawn keeps off the very edge of the paper.
    assert not inked[0].any()
    assert not inked[-1].any()


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("bars", "recall", ""),
        ("systems", "notes put before the question (k)", "recall of the evidence"),
        ("calls", "calls", "recall"),
        ("tokens", "tokens", "F1"),
        ("sweep", "hits shown (k)", ""),
        ("scale", "notes", "milliseconds a query"),
    ],
)
def test_axes_say_what_is_on_them(name, x, y):
    axes = CHARTS[name](LIGHT).axes[0]
    assert axes.get_xlabel() == x
    assert axes.get_ylabel() == y


def test_bars_are_named_and_have_their_figures_and_intervals():
    first, second = chart_of_bars(LIGHT).axes
    assert [text.get_text() for text in first.get_yticklabels()] == [
        document.system(name) for name in document.ordered(ESTIMATES)
    ]
    assert (first.get_title("left"), second.get_title("left")) == ("k = 5", "k = $9")
    assert {".800", ".400"} <= {text.get_text() for text in first.texts}
    assert [round(bar.get_width(), 3) for bar in first.patches][:2] == [0.8, 0.7]
    assert len(first.patches) == len(ESTIMATES)
    low, high = first.collections[0].get_segments()[0][:, 0]
    assert (low, high) == pytest.approx((0.7, 0.9))


def test_what_is_not_known_is_a_dash_and_no_bar():
    (axes,) = bars.draw({"F1": {"amem": Estimate(0.5, 0.4, 0.6), "full": None}}, "F1", LIGHT).axes
    assert len(axes.patches) == 1
    assert "\N{EN DASH}" in [text.get_text() for text in axes.texts]
    assert len(axes.collections) == 1  # one interval


def test_the_choice_of_a_sweep_is_marked():
    axes = next(
        one for one in curves.sweep(reports.sweep(), LIGHT).axes if one.get_title("left") == "F1"
    )
    assert "k = 30: .600" in [text.get_text() for text in axes.texts]
    assert any(list(line.get_xdata()) == [30, 30] for line in axes.lines)
    assert len(axes.collections) >= 2  # a band for each side


def test_a_sweep_without_answers_has_no_choice():
    values = reports.sweep()
    for side in values["curves"].values():
        del side["f1"]
    made = curves.sweep({**values, "choice": {}}, LIGHT)
    assert [one.get_title("left") for one in made.axes] == [
        "Recall of the evidence",
        "All evidence found",
    ]
    assert not any(one.texts for one in made.axes)


def test_scale_is_logarithmic_on_both_axes_and_has_units():
    times, spaces = scale.draw(reports.scale()["rows"], LIGHT).axes
    for axes in (times, spaces):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [text.get_text() for text in axes.get_xticklabels()] == ["1,000", "10,000"]
    assert "MB" in spaces.get_ylabel()
    assert next(text.get_text() for text in times.get_legend().get_texts()) == "search"


def test_memory_that_could_not_be_measured_is_left_out():
    rows = [{**row, "memory_mb": None, "private_mb": None} for row in reports.scale()["rows"]]
    _, spaces = scale.draw(rows, LIGHT).axes
    assert len(spaces.lines) == 2


def test_views_show_their_figures_beside_what_chance_gives():
    made = note_map.views(reports.notes(), LIGHT)
    assert [one.get_title("left") for one in made.axes[:3]] == list(note_map.TITLES.values())
    figures = made.axes[1].get_xlabel()
    assert "purity .324 (chance .055)" in figures
    assert "silhouette \N{MINUS SIGN}.050 (chance \N{MINUS SIGN}.080)" in figures


def test_a_note_is_drawn_larger_the_more_links_it_has():
    notes = {**reports.notes(), "links": [[0, n] for n in range(1, 9)]}
    points = note_map.links(notes, note_map.layout(notes), LIGHT).axes[0].collections[1]
    sizes = points.get_sizes()
    assert sizes[0] == max(sizes) > 2 * sizes[1] > 2 * sizes[15]


def test_the_layout_of_links_repeats_and_keeps_all_in_the_picture():
    notes = reports.notes()
    places = note_map.layout(notes)
    assert (places == note_map.layout(notes)).all()
    assert places.shape == (20, 2)
    joined, rest = places[:13], places[13:]
    assert (joined >= 0).all()
    assert (joined <= 1).all()
    assert (rest[:, 1] < 0).all()  # notes that no link joins to the others stand below
    assert len(np.unique(places.round(6), axis=0)) == 20


@pytest.mark.parametrize("count", [1, 2, 700])
def test_a_graph_of_any_size_can_be_laid_out(count, monkeypatch):
    monkeypatch.setattr(note_map, "_ROUNDS", 3)
    notes = {"sessions": ["s"] * count, "links": [[n, n + 1] for n in range(0, count - 1, 2)]}
    assert np.isfinite(note_map.layout(notes)).all()
    without = note_map.layout({**notes, "links": []})
    assert (without[:, 1] < 0).all()


def test_equal_values_are_moved_apart_and_keep_their_order():
    assert scatter.spread([0.0, 0.0, 0.0, 5.0], 1.0) == [-1.0, 0.0, 1.0, 5.0]
    assert scatter.spread([], 1.0) == []
    moved = scatter.spread([0.0, 0.4, 1.2, 1.3, 9.0], 1.0)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(moved))
    assert moved[-1] == 9.0
    assert sum(moved[:4]) == pytest.approx(0.0 + 0.4 + 1.2 + 1.3)


def luminance(colour):
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in to_rgb(colour)]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_text_and_marks_stand_out_from_the_paper(look):
    assert contrast(look.ink, look.paper) > 7
    assert contrast(look.soft, look.paper) > 4.5
    assert all(contrast(hue, look.paper) > 1.9 for hue in (*look.hues, *look.bars))


def test_each_known_system_has_a_look_of_its_own():
    for look in (LIGHT, DARK):
        looks = {style.look_of(name, 0, look) for name in systems.KNOWN}
        assert len(looks) == len(systems.KNOWN)
    assert {document.system(name) for name in systems.KNOWN}.isdisjoint(
        name for name in systems.KNOWN if "_" in name
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.87, ".870"),
        (1.0, "1.000"),
        (-0.0789, "\N{MINUS SIGN}.079"),
        (-0.00001, ".000"),
        (None, "\N{EN DASH}"),
    ],
)
def test_shares_are_written_as_papers_write_them(value, text):
    assert document.share(value) == text


def test_gains_have_a_sign_and_counts_commas():
    assert [document.gain(one) for one in (0.066, -0.02, 0.0)] == [
        "+.066",
        "\N{MINUS SIGN}.020",
        "+.000",
    ]
    assert [document.number(one) for one in (12345, 0.291, 45.67, 3.0, None)] == [
        "12,345", "0.29", "45.7", "3", "\N{EN DASH}",
    ]  # fmt: skip
