"""A chat model that quotes: for tests that a text which was deleted is found nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ports import Completion, ModelRequest
from .fakes import as_completion

CONTEXT_WORDS = 50  # the gate lets no entry of more than 60 words pass
REASON_CHARS = 190

Shown = Mapping[str, Any]


class CopyingModel:
    """A chat model that copies all that it is shown into all that it writes.

    Contexts, keywords, tags, relations and reasons quote the notes of the prompt, and what was copied into those
    before: at second hand too; so do digests, each of which cites all notes shown. Each note is linked to its first candidates, and updates two of them.

    Attributes:
        name: What the notes record as their model.
    """

    def __init__(self, name: str = "copying") -> None:
        self.name = name

    def generate(self, request: ModelRequest) -> Completion:
        """Return quotes, for `construct`, for `digest` and for every other task."""
        if request.task == "digest":
            return as_completion(request, _digests(request.inputs))
        notes = request.inputs["notes"]
        earlier = [*request.inputs.get("before", ()), *request.inputs.get("candidates", ())]
        quoted = " ".join(_texts([*earlier, *notes]))
        answer = _attributes if request.task == "construct" else _updates
        return as_completion(request, {"notes": [answer(note, quoted) for note in notes]})


def _texts(shown: Iterable[Shown]) -> Iterable[str]:
    for note in shown:
        words = (*note.get("keywords", ()), *note.get("tags", ()))
        texts = (note["content"], note.get("speaker"), note.get("context"), *words)
        yield from filter(None, texts)


def _attributes(note: Shown, quoted: str) -> dict[str, Any]:
    words = quoted.split()
    return {
        "id": note["alias"],
        "context": f"{note['content']} {quoted}",
        "keywords": words[-6:],
        "tags": words[:4],
    }


def _digests(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return one digest anew and one that is begun, both with words of all notes and digests shown."""
    notes, digests = [*inputs["notes"], *inputs["earlier"]], inputs["digests"]
    said = [*(note["content"] for note in notes), *(digest["text"] for digest in digests)]
    words = list(dict.fromkeys(" ".join(said).split()))[-CONTEXT_WORDS:]
    text = {"text": " ".join(words), "add": [note["alias"] for note in notes]}
    anew = [{**text, "id": digest["alias"]} for digest in digests[:1]]
    return {"digests": [*anew, {**text, "topic": " ".join(words[:5])}]}


def _updates(note: Shown, quoted: str) -> dict[str, Any]:
    words = list(dict.fromkeys(quoted.split()))
    short, text = " ".join(words[:CONTEXT_WORDS]), " ".join(words)
    targets = [candidate["alias"] for candidate in note["candidates"]]
    return {
        "id": note["alias"],
        "links": [
            {"to": to, "relation": text[:30], "reason": text[-REASON_CHARS:], "strength": 0.5}
            for to in targets[:3]
        ],
        "updates": [
            {"to": to, "context": short, "keywords": words[:8], "tags": []} for to in targets[:2]
        ],
    }
