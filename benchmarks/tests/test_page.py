"""The page with all charts: what it holds, what it leaves out, and that it is a file and nothing else."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from PIL import Image

from amem_integrations.errors import InvalidInputError
from benchmarks.evaluation import page
from benchmarks.tests import reports

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
EVIL = """</title><script>document.title="owned"</script><img src=x onerror='document.title="owned"'>"""

TITLES = [
    "Evidence found",
    "Answers",
    "Costs",
    "How many hits to show",
    "DialSim: friends",
    "The notes of conv-1",
    "Time and space over the number of notes",
]
CAPTIONS = [
    "Recall with",
    "By how much this memory finds more",
    "Recall by category",
    "Recall of this memory by conversation",
    "Answers with 95 % bootstrap intervals over questions: LoCoMo",
    "Answers with 95 % bootstrap intervals over questions: scoring of the authors",
    "By how much this memory's answers are better",
    "Answers by category of the question: official",
    "Answers by category of the question: amem",
    "What was put before a question",
    "Building each memory",
    "The links of annotations",
    "What the language models were asked",
    "Milliseconds of the memory's search",
    "The choice",
    "All curves, on the conversations reported",
    "All curves, on the conversations that choose",
    "One of the options chosen: right answers",
    "In the model's own words: right answers",
    "In the model's own words: wording",
    "What was asked and left out",
    "How near the notes",
    "Milliseconds: median",
    "What a memory takes up",
]
PICTURES = {
    "recall",
    "recall-over-notes",
    "recall-over-calls",
    "answers",
    "answers-by-category",
    "answers-over-tokens",
    "sweep",
    "sweep-by-category",
    "dialsim",
    "notes",
    "links",
    "scale",
}


def written(folder, **made):
    folder.mkdir(exist_ok=True)
    for name, values in made.items():
        (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return page.write(folder)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The page of all reports."""
    return written(tmp_path_factory.mktemp("page") / "out", **reports.every())


class Reader(HTMLParser):
    """Reads a page: titles of parts, images, tables by caption, and elements that were left open."""

    empty = frozenset({"meta", "link", "img", "source", "br"})

    def __init__(self, text):
        super().__init__()
        self.titles, self.images, self.tables, self.open = [], [], {}, []
        self._caption = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in self.empty:
            self.open.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["h2"]:
            self.titles.append(data)
        if self.open[-1:] == ["caption"]:
            self._caption = data
            self.tables[data] = []
        elif "table" in self.open and self._caption and data.strip():
            self.tables[self._caption].append(data.strip())
        if self.open[-1:] == ["section"]:
            self._caption = ""


def test_the_page_has_a_part_for_everything_that_was_measured(full):
    read = Reader(full.read_text(encoding="utf-8"))
    assert read.titles == [*TITLES, "Settings"]
    assert read.open == []
    assert len(read.images) == len(PICTURES)
    assert {path.stem for path in (full.parent / "plots").iterdir()} == PICTURES
    assert full.name == "report.html"
    assert not list(full.parent.glob(".*"))


def test_pictures_are_within_the_page_and_said_in_words(full):
    text = full.read_text(encoding="utf-8")
    for image in Reader(text).images:
        kind, _, data = image["src"].partition(",")
        assert kind == "data:image/png;base64"
        size = Image.open(io.BytesIO(base64.b64decode(data))).size
        assert size == (int(image["width"]), int(image["height"]))
        assert len(image["alt"]) > 40
    alts = " ".join(image["alt"] for image in Reader(text).images)
    assert "this memory .825" in alts  # k = 5
    assert len(re.findall(r'media="\(prefers-color-scheme: dark\)" srcset="data:', text)) == len(
        PICTURES
    )
    light = re.findall(r'<img src="([^"]*)"', text)
    assert set(light).isdisjoint(re.findall(r'srcset="([^"]*)"', text))


def test_tables_hold_the_figures_with_their_intervals(full):
    tables = Reader(full.read_text(encoding="utf-8")).tables
    recall = next(rows for caption, rows in tables.items() if caption.startswith("Recall with"))
    assert recall[recall.index("this memory") + 1 :][:2] == [".825", ".775 to .825"]
    gains = next(rows for caption, rows in tables.items() if "finds more" in caption)
    assert gains[gains.index("BM25") + 1 :][:2] == ["+.350", "+.310 to +.390"]
    choice = next(rows for caption, rows in tables.items() if caption.startswith("The choice"))
    assert choice[2:] == ["F1", "30", ".600", ".550 to .650"]
    scale = next(rows for caption, rows in tables.items() if caption.startswith("Milliseconds: "))
    assert "10,000" in scale
    said = "\n".join(tables)
    assert [start for start in CAPTIONS if f"\n{start}" not in f"\n{said}"] == []
    assert len(tables) == len(CAPTIONS)


def test_the_page_asks_for_nothing_outside_itself(full):
    text = full.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert not re.search(r"""(?:src|href|srcset|action)\s*=\s*(?!"data:|"#)""", text)
    assert not re.search(r"https?:|url\(|@import", text)


def test_settings_are_there_and_closed(full):
    text = full.read_text(encoding="utf-8")
    assert "<summary>report.json</summary>" in text
    assert '<th scope="row">embedder.name</th><td>hash</td>' in text
    assert "<details open" not in text


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("report", ["Evidence found", "Answers", "Costs", "Settings"]),
        ("sweep", ["How many hits to show", "Settings"]),
        ("notes", ["The notes of conv-1"]),
        ("scale", ["Time and space over the number of notes", "Settings"]),
        ("dialsim", ["DialSim: friends", "Settings"]),
    ],
)
def test_what_was_not_measured_is_left_out(tmp_path, name, titles, monkeypatch):
    monkeypatch.setattr(page, "png", lambda _: b"\x89PNG" + bytes(30))  # drawing takes its time
    out = written(tmp_path / "one", **{name: reports.every()[name]})
    assert Reader(out.read_text(encoding="utf-8")).titles == titles


def test_a_report_of_recall_alone_has_no_part_on_answers(tmp_path):
    bare = reports.report(answers=False)
    bare["retrieval"] = {"amem": bare["retrieval"]["amem"]}
    bare["settings"]["k"] = [10]
    for name in ("retrieval_against", "builds", "costs", "conversations", "latency_ms"):
        del bare[name]
    text = written(tmp_path / "bare", report=bare, notes={}).read_text(encoding="utf-8")
    assert Reader(text).titles == ["Evidence found", "Settings"]
    assert "differences" not in text
    assert [path.name for path in (tmp_path / "bare" / "plots").iterdir()] == ["recall.png"]


def test_a_sweep_without_answers_says_that_no_choice_was_made(tmp_path):
    made = {**reports.sweep(), "choice": {}}
    for side in made["curves"].values():
        del side["f1"]
    text = written(tmp_path / "sweep", sweep=made).read_text(encoding="utf-8")
    assert "no questions were answered" in text
    assert "dotted line" not in text
    assert not [caption for caption in Reader(text).tables if caption.startswith("The choice")]


def test_a_report_of_no_questions_has_a_page(tmp_path):
    nothing = {str(k): None for k in reports.KS}
    empty = reports.report(answers=False)
    empty["retrieval"] = {
        "amem": {**empty["retrieval"]["amem"], "recall": nothing, "recall_interval": nothing}
    }
    text = written(tmp_path / "none", report=empty).read_text(encoding="utf-8")
    assert Reader(text).titles == ["Costs", "Settings"]


def test_names_and_texts_are_shown_as_text(tmp_path):
    made = reports.report()
    for part in ("retrieval", "retrieval_against", "builds", "answers"):
        made[part][EVIL] = next(reversed(made[part].values()))
    made["conversations"][EVIL] = made["conversations"]["conv-1"]
    made["settings"]["dataset"]["file"] = EVIL
    made["settings"][EVIL] = [EVIL]
    notes = {**reports.notes(), "conversation": EVIL, "sessions": [EVIL] * 20}
    shown = {**reports.dialsim(), "show": EVIL, "agent": EVIL, "caution": EVIL}
    out = written(tmp_path / "evil", report=made, notes=notes, dialsim=shown)
    text = out.read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("<img ") == text.count("<picture>")
    assert unescape(text).count(EVIL) > 10
    Reader(text)


def test_a_folder_without_reports_is_an_error_that_says_what_to_run(tmp_path):
    with pytest.raises(InvalidInputError, match="writes one"):
        page.write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"), [("{,", "is not a JSON file"), ('{"rows": [{"notes": 3}]}', "in the form")]
)
def test_a_report_in_another_form_is_named(tmp_path, text, said):
    (tmp_path / "scale.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=rf"scale\.json.*{said}"):
        page.write(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_fails_leaves_the_old_one_whole(tmp_path):
    out = written(tmp_path / "twice", scale=reports.scale())
    before = out.read_bytes()
    with pytest.raises(InvalidInputError):
        written(tmp_path / "twice", scale=[1])
    assert out.read_bytes() == before


def browse(path, *more):
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,900",
         f"--user-data-dir={path.parent / 'profile'}", *more, path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


@needs_browser
@pytest.mark.parametrize(("scheme", "dark"), [("1", False), ("0", True)])
def test_a_browser_shows_it_on_light_and_on_dark_paper(full, tmp_path, scheme, dark):
    moved = tmp_path / "moved.html"  # alone: without the folder of the pictures
    shutil.copy(full, moved)
    shot = tmp_path / "shot.png"
    browse(moved, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
    seen = Image.open(shot).convert("L")
    assert (seen.getpixel((5, 5)) < 60) == dark
    chart = seen.crop((60, 420, 940, 880))
    assert (sorted(chart.get_flattened_data())[chart.width * chart.height // 2] < 60) == dark
    assert chart.getextrema()[1] - chart.getextrema()[0] > 150


@needs_browser
def test_a_browser_runs_nothing_of_it(tmp_path):
    made = {**reports.scale(), "settings": {**reports.scale()["settings"], EVIL: EVIL}}
    out = written(tmp_path / "evil", scale=made)
    assert "<title>Evaluation of a memory</title>" in browse(out, "--dump-dom")
