"""Remember a dialogue between two friends, and look at what became of it.

Two people, three sessions, a plan that later happens and a date that is corrected. No language model, no
server, no network: notes are made by rules and kept by Qdrant's engine in the folder `demo-memory`.
"""

from __future__ import annotations

import json
import textwrap
from datetime import datetime
from pathlib import Path

from amem_integrations import AgenticMemory, Note, NoteInput, ScoredNote

DIALOGUE = Path(__file__).with_name("dialogue.jsonl")
FOLDER = Path("demo-memory")
FRIENDS = ("demo", "mira-and-jonas")


def main() -> None:
    """Add the dialogue, unless it is there already, and show it."""
    turns = read_dialogue()
    with AgenticMemory.open(FOLDER) as memory:
        before = memory.stats(namespace=FRIENDS)["notes"]
        notes = memory.add_many(turns, namespace=FRIENDS)
        stats = memory.stats(namespace=FRIENDS)
        added = stats["notes"] - before
        if added:
            print(f"Remembered {added} turns in {FOLDER}/: {stats['links']} links, ", end="")
            print(f"{stats['evolved']} notes evolved, no model was called.")
        else:
            print(f"Nothing to add: all {len(notes)} turns are in {FOLDER}/ already.")
        show_note(memory, "3:2")
        show_evolution(memory, "1:7")
        show_search(memory, "What did Jonas do before the bakery?")
        print("\nRun it again: it will add nothing. Delete the folder to start over.")


def read_dialogue() -> list[NoteInput]:
    """Return the turns of the dialogue as notes to be: each with its key, speaker, time and session."""
    rows = [json.loads(line) for line in DIALOGUE.read_text(encoding="utf-8").splitlines()]
    return [
        NoteInput(
            content=row["text"],
            key=row["key"],
            speaker=row["speaker"],
            at=datetime.fromisoformat(row["at"]),
            thread=row["session"],
        )
        for row in rows
    ]


def by_key(memory: AgenticMemory, key: str) -> Note:
    """Return the note of one turn."""
    (note,) = memory.get_all(namespace=FRIENDS, where={"key": key})
    return note


def show_note(memory: AgenticMemory, key: str) -> None:
    """Print a note with its attributes and its links."""
    note = by_key(memory, key)
    title("A note")
    field("content", quoted(note))
    field("context", note.contexts[0].text)
    field("keywords", ", ".join(note.keywords))
    field("tags", ", ".join(note.tags))
    for target, link in note.links.items():
        other = memory.get(target, namespace=FRIENDS)
        arrow = "->" if link.direction == "out" else "<-"
        field("link", f"{arrow} {quoted(other)}\n{link.relation}: {link.reason}")


def show_evolution(memory: AgenticMemory, key: str) -> None:
    """Print what a note meant at first, and what it means since."""
    note = by_key(memory, key)
    first, *later = note.contexts
    title("The same note, before and after it evolved")
    field("content", quoted(note))
    field("before", f"{first.text}\ntags: {', '.join(first.tags)}")
    for entry in later:
        cause = memory.get(entry.cause, namespace=FRIENDS)
        field("after", f"+ {entry.text}\ntags: {', '.join(note.tags)}")
        field("because of", quoted(cause))
    print(
        "\n  What was said is never changed: evolution only adds, and each addition names its cause."
    )


def show_search(memory: AgenticMemory, question: str) -> None:
    """Print the answer to a question, and which links led there."""
    title(f"Search: {question}")
    for hit in memory.search(question, namespace=FRIENDS, k=3):
        field(f"{hit.score:.3f}", f"{quoted(hit.note)}\n{path(memory, hit)}")


def path(memory: AgenticMemory, hit: ScoredNote) -> str:
    """Return how a hit was found."""
    if hit.via == "match":
        return "found by its own words and meaning"
    step = hit.via[0]
    source = memory.get(step.note_id, namespace=FRIENDS)
    return f"found over a link with {quoted(source)}, {step.relation}: {step.reason}"


def quoted(note: Note) -> str:
    """Return a note as one line."""
    return f'{note.speaker}, {note.when:%-d %B %Y}: "{note.content}"'


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def field(name: str, text: str) -> None:
    """Print a labelled text, wrapped and indented."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 82)]
    print(f"  {name:>10}  " + f"\n{'':14}".join(lines))


if __name__ == "__main__":
    main()
