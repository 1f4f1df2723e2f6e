"""The recipes of the docs: what they read becomes the notes that the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/import-recipes.md"


def test_the_recipes_make_the_notes_that_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks[:-1]:
        exec(block, names)
    assert capsys.readouterr().out.splitlines() == [
        "1",
        "{('ann',): 1, ('agent', 'bot'): 1}",
        "user I am Ann.",
        "assistant Hello!",
        "{('ann',): 1}",
    ]
    notes = names["memory"].get_all(namespace=("ann",))
    assert [(note.content, note.thread) for note in notes] == [
        ("Likes quinces", None),
        ("I am Ann.", "s-1"),
        ("Hello!", "s-1"),
        ("I live in Oslo.", "s-2"),
    ]
    exec(blocks[-1].replace("memory.close()", ""), names)
    assert capsys.readouterr().out == "['Ann lives in Oslo.', 'Ann: A potter.']\n"
    with names["memory"] as memory:
        fact = next(note for note in memory.get_all(namespace=("ann",)) if note.key == "e-1")
    assert str(fact.at) == "2024-05-01 00:00:00+00:00"
    assert str(fact.until) == "2025-06-01 00:00:00+00:00"
