"""Stand-ins for a chat model and an embedder: deterministic, free, and without any download.

They answer from `ModelRequest.inputs`, never from the wording of a prompt, so a test that uses them
keeps passing when a prompt is improved.

- `ScriptedModel` answers what a test tells it to, failures included.
- `RecordedModel` (in `recorded`) answers from annotations a language model wrote down once.
- `CopyingModel` quotes all that it is shown: for tests that a text which was deleted is found nowhere.
- `HashEmbedder` turns texts into vectors by their words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from pydantic import BaseModel

from ..ports import Completion, ModelRequest
from ..stored_note import Vector

Answer = str | Mapping[str, Any] | BaseModel | Completion | BaseException
Answering = Callable[[ModelRequest], Answer]
Script = Answering | Mapping[str, Answer | Answering | Sequence[Answer | Answering]]
CONTEXT_WORDS = 50  # the gate lets no entry of more than 60 words pass
REASON_CHARS = 190
Shown = Mapping[str, Any]

_WORDS = re.compile(r"\w+")


@cache
def _direction(word: str, dimensions: int) -> Vector:
    digest = hashlib.shake_256(word.encode()).digest(-(-dimensions // 8))
    bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[:dimensions]
    return bits.astype(np.float32) * 2 - 1


class HashEmbedder:
    """An embedder that knows words, not meaning.

    Each word has its own fixed direction; a text is the sum over its words, without case or order.
    Texts that share words are therefore similar, and texts that share none are nearly orthogonal
    (cosine about ±1/√dimensions).

    Attributes:
        name: Identifies the embedder.
        dimensions: Length of a vector.
        encoded: How many texts have been encoded so far.
    """

    def __init__(self, dimensions: int = 64, name: str = "hash") -> None:
        self.dimensions = dimensions
        self.name = name
        self.encoded = 0

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return a float32 array [len(texts), dimensions] of unit-length rows."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a float32 array [dimensions] of unit length."""
        self.encoded += 1
        words = _WORDS.findall(text.lower()) or [""]
        total = np.sum([_direction(word, self.dimensions) for word in words], axis=0)
        if not total.any():  # words that cancel each other out still need a direction
            total = _direction("", self.dimensions)
        unit: Vector = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


def as_completion(request: ModelRequest, answer: Answer) -> Completion:
    """Return an answer as a completion, with tokens estimated as a quarter of the characters."""
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, Completion):
        return answer
    if isinstance(answer, BaseModel):
        answer = answer.model_dump(mode="json")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    shown = len(request.system) + len(request.prompt)
    return Completion(text=text, input_tokens=shown // 4, output_tokens=len(text) // 4)


class ScriptError(BaseException):
    """A `ScriptedModel` was asked what its script does not hold: the test is wrong, not the model.

    Like the outcomes of pytest it is no `Exception`, or a memory would take it for a model that is
    down and carry on.
    """


class ScriptedModel:
    """A chat model that says what the test wrote.

    `script` is a function of the request, or maps each task (`"construct"`, `"evolve"`, …) to

    - one answer, given every time, or
    - a list of answers, given in order, one per request.

    An answer is a text, a dict or a pydantic model (sent as JSON), a `Completion` (for exact token
    counts), an exception (raised), or a function of the request that returns one of these. A slow
    model is a function that sleeps; a model that is down is `ModelUnavailableError("…")`.

    Attributes:
        name: What the notes record as their model.
        requests: Every request so far, oldest first, including those that raised.
    """

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._function = script if callable(script) else None
        self._always: dict[str, Answer | Answering] = {}
        self._queues: dict[str, deque[Answer | Answering]] = {}
        for task, reply in ({} if callable(script) else script).items():
            if isinstance(reply, Sequence) and not isinstance(reply, str):
                self._queues[task] = deque(reply)
            else:
                self._always[task] = reply

    def generate(self, request: ModelRequest) -> Completion:
        """Return the scripted answer.

        Raises:
            ScriptError: The script has no answer, or none left, for this task.
            BaseException: Whatever the script says is raised.
        """
        self.requests.append(request)
        answer = self._function or self._next(request.task)
        return as_completion(request, answer(request) if callable(answer) else answer)

    def asked(self, task: str) -> list[ModelRequest]:
        """Return the requests of one task so far, oldest first."""
        return [request for request in self.requests if request.task == task]

    def _next(self, task: str) -> Answer | Answering:
        if task in self._always:
            return self._always[task]
        if task not in self._queues:
            known = ", ".join(sorted({*self._always, *self._queues})) or "nothing"
            raise ScriptError(f"the script has no answer to {task!r}; it answers {known}")
        try:
            return self._queues[task].popleft()
        except IndexError:
            raise ScriptError(
                f"the script has no answer left for request {len(self.asked(task))} of {task!r}: "
                "add one, or give a single answer without a list to repeat it"
            ) from None


class CopyingModel:
    """A chat model that copies all that it is shown into all that it writes.

    Contexts, keywords, tags, relations and reasons quote the notes of the prompt, and what was copied into those
    before: at second hand too. Each note is linked to its first candidates, and updates two of them.

    Attributes:
        name: What the notes record as their model.
    """

    def __init__(self, name: str = "copying") -> None:
        self.name = name

    def generate(self, request: ModelRequest) -> Completion:
        """Return quotes, for `construct` and for every other task."""
        notes = request.inputs["notes"]
        shown = (request.inputs.get(name, ()) for name in ("before", "candidates"))
        quoted = " ".join(_texts([*chain(*shown), *notes]))
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
