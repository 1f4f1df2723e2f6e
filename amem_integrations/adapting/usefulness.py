"""What an answer made use of, told by its words; the links that led to it are reinforced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .. import texts
from ..memory import AgenticMemory
from ..notes import Note, ScoredNote
from ..stores.bm25 import Bm25
from .calls import Call

# By the id of a recalled note, the ids of the notes whose links led to it: JSON, to be kept with a turn.
Recalled = Mapping[str, Sequence[str]]

_bm25 = Bm25()


def recalled(hits: Iterable[ScoredNote]) -> dict[str, list[str]]:
    """Return what has to be known of hits when the answer is there."""
    return {
        hit.note.id: [] if hit.via == "match" else [step.note_id for step in hit.via]
        for hit in hits
    }


def used_in(answer: str, notes: Sequence[Note], question: str = "") -> list[Note]:
    """Return the notes that an answer has taken something from.

    What such a note says, or its date or speaker, shares a word with the answer that stands neither in the question
    nor in any other of the notes; stopwords do not count, and inflections are one word, as in a search. It is a rule
    of thumb: a note that is only paraphrased is missed, and one is counted whose word the model knew by itself.
    Context does not count, since notes that belong together share it.
    """
    words = {note.id: _words(f"{texts.header(note)} {note.content}") for note in notes}
    holders = Counter(word for found in words.values() for word in found)
    telling = {word for word in _words(answer) - _words(question) if holders[word] == 1}
    return [note for note in notes if not telling.isdisjoint(words[note.id])]


async def reinforce_used(
    call: Call,
    memory: AgenticMemory,
    namespace: tuple[str, ...],
    found: Recalled,
    answer: str,
    question: str = "",
) -> int:
    """Reinforce the links between the notes that an answer used and the notes that led to them.

    Returns how many links that were; see `AgenticMemory.reinforce`. No model is called.

    Raises:
        AmemError: The store does not answer, or a note was deleted in this moment.
    """
    ids = sorted({*found, *(source for sources in found.values() for source in sources)})
    if not ids or not answer.strip():
        return 0
    where = {"id": {"$in": ids}}
    notes = await call(memory.get_all, namespace=namespace, where=where, limit=len(ids))
    used = [note.id for note in used_in(answer, [n for n in notes if n.id in found], question)]
    stored = {note.id for note in notes}
    led = [source for note_id in used for source in found[note_id] if source in stored]
    return await call(memory.reinforce, [*used, *led], namespace=namespace)


def _words(text: str) -> set[int]:
    """Return the stems of the words in a text, as BM25 knows them."""
    indices, _ = _bm25.encode_query(text)
    return set(indices)
