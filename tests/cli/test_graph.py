"""`amem graph`: a page, which is tried in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from html import unescape

import pytest
from support.notes import make_note

from amem_integrations import AgenticMemory
from amem_integrations.cli.upkeep import render
from amem_integrations.notes import ContextEntry
from amem_integrations.testing import HashEmbedder

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
ANN, NOW = ("ann",), datetime(2026, 5, 8, tzinfo=UTC)
EVIL = """</script><script>document.title="owned"</script><img src=x onerror='document.title="owned"'><!--"""


def dom(path, address="", *, budget=6000):
    """Return what a browser makes of a page, and the text of the part with the note."""
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
         f"--user-data-dir={path.parent / 'profile'}", f"--virtual-time-budget={budget}",
         "--dump-dom", f"{path.as_uri()}#{address}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    note = done.stdout.partition("<main")[2].partition("</main>")[0]
    return done.stdout, unescape(re.sub(r"<[^>]+>", " ", note))


def test_the_page_asks_for_nothing_outside_itself(talk, tmp_path):
    out = tmp_path / "graph.html"
    assert talk("graph", out).exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!data:)[a-z/.]""", text)
    assert "http" not in text.replace("http-equiv", "")
    assert talk.names == []
    assert "must end in" in talk.fails("graph", tmp_path / "x.doc")
    talk("add", "Elsewhere.", namespace="bo")
    told = talk.json("graph", out, namespace=None)
    assert (told["notes"], told["links"]) == (31, talk.json("stats", namespace=None)["links"])


def test_a_note_cannot_end_the_script_it_is_kept_in():
    text = render([make_note(EVIL)], [], title=EVIL)
    assert text.count("</script>") == 2
    held = text.split('type="application/json">')[1].split("</script>")[0]
    data = json.loads(held)
    assert data["title"] == data["notes"][0]["content"] == EVIL


@needs_browser
def test_the_page_shows_a_note_with_its_contexts_links_and_history(wedding, tmp_path):
    out = tmp_path / "graph.html"
    wedding("graph", out)
    note = wedding.json("show", "first")
    _, text = dom(out, f"note={note['id']}")
    shown = [note["content"], "because of", "History", "construct", "evolve", "+context:"]
    shown += [entry["text"] for entry in note["contexts"]]
    shown += [link["reason"] for link in note["links"].values()]
    assert [word for word in (*shown, *note["keywords"], *note["tags"]) if word not in text] == []


@needs_browser
def test_the_page_finds_notes_by_words_and_by_address(talk, tmp_path):
    out = tmp_path / "graph.html"
    talk("graph", out)
    whole, _ = dom(out, "q=kayak+lofoten")
    rows = re.findall(r'class="row"', whole)
    assert 1 <= len(rows) < 10
    assert "30 notes" in whole


@needs_browser
def test_the_page_can_be_used_by_mouse_and_keyboard(wedding, tmp_path):
    out = tmp_path / "graph.html"
    wedding("add", "The tram is late.", "--key", "tram")
    wedding("graph", out)
    # What a person does, before the page is looked at.
    acts = """<script>
    const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
    press("/");
    document.body.dataset.focus = document.activeElement.id;
    $("q").value = "wedding"; $("q").dispatchEvent(new Event("input"));
    $("list").querySelector(".row").click();
    document.body.dataset.first = $("note").querySelector(".content").textContent;
    $("note").querySelector(".link .goto").click();
    document.body.dataset.linked = $("note").querySelector(".content").textContent;
    press("ArrowUp");
    document.body.dataset.up = $("note").querySelector(".content").textContent;
    $("kinds").querySelector("[data-kind=evolved]").click();
    document.body.dataset.evolved = $("list").querySelectorAll(".row").length;
    document.body.dataset.address = location.hash;
    </script></body>"""
    out.write_text(out.read_text(encoding="utf-8").replace("</body>", acts), encoding="utf-8")
    whole, _ = dom(out)
    body = dict(re.findall(r'data-(\w+)="([^"]*)"', re.search("<body[^>]*>", whole)[0]))
    first, second = (wedding.json("show", name) for name in ("first", "second"))
    assert body["focus"] == "q"
    assert unescape(body["first"]) == unescape(body["up"]) == first["content"]
    assert unescape(body["linked"]) == second["content"]
    assert body["evolved"] == "1"
    assert unescape(body["address"]) == f"#q=wedding&note={first['id']}"


@needs_browser
def test_what_notes_hold_is_never_run_by_the_page(tmp_path):
    entry = ContextEntry(text=EVIL, keywords=(EVIL,), tags=(EVIL,), cause="x", model=EVIL, change="c",
                         at=NOW, recorded_at=NOW)  # fmt: skip
    note = make_note(EVIL, speaker=EVIL, thread=EVIL, contexts=(entry,), metadata={EVIL: EVIL})
    out = tmp_path / "evil.html"
    out.write_text(render([note], [], title="Safe"), encoding="utf-8")
    whole, text = dom(out, f"note={note.id}")
    assert "<title>Safe</title>" in whole
    assert "<img" not in whole.partition('id="data"')[0]
    assert text.count(EVIL) >= 5


def homes(amem, out):
    """Draw where somebody lived: Berlin, then Munich, which was retracted later; and two notes on a cat. Return the ids."""
    told = [("Berlin", 1), ("Munich", 3), ("It was never Munich", 5), ("The cat is black", 2), ("The cat is grey", 4),
            ("On holiday", 1)]  # fmt: skip
    with AgenticMemory.open(amem.folder, embedder=HashEmbedder(256)) as memory:
        ids = [
            memory.add(text, namespace=ANN, at=NOW.replace(day=day), evolve=False).id
            for text, day in told
        ]
        memory.update(ids[-1], namespace=ANN, until=NOW.replace(day=3))
        for older, newer, relation in (
            (0, 1, "updates"),
            (1, 2, "retracts"),
            (3, 4, "contradicts"),
        ):
            why = {"relation": relation, "reason": f"reason {newer}"}
            memory.supersede(ids[older], ids[newer], namespace=ANN, **why)
    assert "until: 2026-05-03" in amem("show", ids[-1]).stdout
    assert amem("graph", out).exit_code == 0
    return ids


def struck(whole):
    """The notes of the list that are struck through."""
    return set(re.findall(r'class="text outdated">([^<]*)<', whole))


@needs_browser
def test_the_page_shows_what_was_so_on_a_day(amem, tmp_path):
    out = tmp_path / "homes.html"
    ids = homes(amem, out)
    whole, text = dom(out, f"day=2026-05-03&note={ids[0]}")
    listed = set(re.findall(r'class="text(?: outdated)?">([^<]*)<', whole))
    assert listed == {"Berlin", "Munich", "The cat is black", "On holiday"}
    assert struck(whole) == {"Berlin", "On holiday"}
    assert "2 outdated" in whole
    assert 'class="content outdated"' in whole
    assert "Updated since 2026-05-03 by" in text
    assert "reason 1; said by the user" in text
    whole, text = dom(out, f"note={ids[3]}")
    assert struck(whole) == {"Munich", "On holiday"}
    assert 'class="content outdated"' not in whole
    assert "Contradicted since 2026-05-04 by" in text
    assert "The cat is grey" in text


@needs_browser
def test_the_day_is_chosen_by_a_slider_and_by_date_and_kept_in_the_address(amem, tmp_path):
    out = tmp_path / "homes.html"
    homes(amem, out)
    acts = """<script>
    const tell = (name) => { document.body.dataset[name] = `${state.day} ${$("list").querySelectorAll(".row").length} ${$("list").querySelectorAll(".outdated").length}`; };
    tell("now");
    $("slide").value = 0; $("slide").dispatchEvent(new Event("input")); tell("first");
    $("day").value = "2026-05-03"; $("day").dispatchEvent(new Event("input")); tell("third");
    document.body.dataset.address = location.hash; document.body.dataset.slide = $("slide").value;
    $("kinds").querySelector("[data-kind=outdated]").click(); tell("kind");
    $("today").click(); tell("again");
    </script></body>"""
    out.write_text(out.read_text(encoding="utf-8").replace("</body>", acts), encoding="utf-8")
    whole, _ = dom(out)
    body = dict(re.findall(r'data-(\w+)="([^"]*)"', re.search("<body[^>]*>", whole)[0]))
    assert body == {
        "now": " 6 2",
        "first": "2026-05-01 2 0",
        "third": "2026-05-03 4 2",
        "address": "#day=2026-05-03",
        "slide": "2",
        "kind": "2026-05-03 2 2",
        "again": " 2 2",
    }
