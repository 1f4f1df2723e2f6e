"""Stand-ins for a chat model and an embedder in tests of yours: deterministic, free, and without any download.

They answer from `ModelRequest.inputs`, never from the wording of a prompt, so a test that uses them
keeps passing when a prompt is improved.

- `ScriptedModel` answers what a test tells it to, failures included.
- `RecordedModel` answers from annotations a language model wrote down once.
- `HashEmbedder` turns texts into vectors by their words.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from .errors import ConfigurationError
from .ports import Completion, ModelRequest
from .prompts import replies
from .stored_note import Vector

__all__ = ["HashEmbedder", "RecordedModel", "ScriptError", "ScriptedModel"]

Answer = str | Mapping[str, Any] | BaseModel | Completion | BaseException
Answering = Callable[[ModelRequest], Answer]
Script = Answering | Mapping[str, Answer | Answering | Sequence[Answer | Answering]]
Shown = Mapping[str, Any]
Pair = tuple[str, str]
Annotations = str | os.PathLike[str] | Iterable[Mapping[str, Any]]

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
        self._answers: dict[str, Iterator[Answer | Answering]] = {}
        for task, reply in ({} if callable(script) else script).items():
            if isinstance(reply, Sequence) and not isinstance(reply, str):
                self._answers[task] = iter(reply)
            else:
                self._answers[task] = repeat(reply)

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
        if task not in self._answers:
            known = ", ".join(sorted(self._answers)) or "nothing"
            raise ScriptError(f"the script has no answer to {task!r}; it answers {known}")
        try:
            return next(self._answers[task])
        except StopIteration:
            raise ScriptError(
                f"the script has no answer left for request {len(self.asked(task))} of {task!r}: "
                "add one, or give a single answer without a list to repeat it"
            ) from None


class RecordedModel:
    """A chat model that repeats what a language model once wrote about each note.

    `annotations` is a file of JSON lines, or the records themselves. A record is `{"id", "keywords",
    "context", "tags", "links": [{"to", "why"}], "updates": [{"to", "context", "tags"}]}`, where `id`
    is the `key` of a note and `to` that of an earlier one. Notes whose words alone show that they are filler are
    named as such. A link or update is proposed only if its
    target is among the candidates shown for that note, so the pairs below give the recall of the candidate search.

    Attributes:
        name: What the notes record as their model.
        annotated: The pairs (note, target) of `"links"` and of `"updates"` that the annotations hold for the notes asked about.
        offered: Those of the pairs whose target was among the candidates (in `revise`: as neighbour).
    """

    def __init__(self, annotations: Annotations, *, name: str = "recorded") -> None:
        self.name = name
        self._records = {record["id"]: record for record in _load(annotations)}
        self.annotated: dict[str, set[Pair]] = {"links": set(), "updates": set()}
        self.offered: dict[str, set[Pair]] = {"links": set(), "updates": set()}
        self._answers: dict[str, Callable[[Shown], BaseModel]] = {
            "construct": self._construct,
            "evolve": self._evolve,
            "link": self._link,
            "revise": self._revise,
        }

    def generate(self, request: ModelRequest) -> Completion:
        """Return the recorded answer as JSON.

        Raises:
            ConfigurationError: The annotations cannot answer this task.
        """
        if request.task not in self._answers:
            raise ConfigurationError(
                f"a RecordedModel cannot answer {request.task!r}, only {', '.join(self._answers)}"
            )
        return as_completion(request, self._answers[request.task](request.inputs))

    def _construct(self, inputs: Shown) -> BaseModel:
        filler = [note["alias"] for note in inputs["notes"] if note.get("kind") == "filler"]
        notes = [
            replies.NoteAttributes(id=note["alias"], **_attributes(record))
            for note in inputs["notes"]
            if (record := self._record(note)) and note["alias"] not in filler
        ]
        return replies.ConstructReply(notes=notes, filler=filler)

    def _evolve(self, inputs: Shown) -> BaseModel:
        keys = _keys(inputs)
        notes = []
        for note in inputs["notes"]:
            found = self._among(note, "updates", _shown(note, keys))
            updates = [
                replies.ProposedUpdate(to=alias, **_attributes(update)) for alias, update in found
            ]
            links = self._links(note, keys)
            if links or updates:
                notes.append(replies.NoteEvolution(id=note["alias"], links=links, updates=updates))
        return replies.EvolveReply(notes=notes)

    def _link(self, inputs: Shown) -> BaseModel:
        note = inputs["notes"][0]
        self._among(note, "updates", {})  # known from here on, offered one at a time by `revise`
        return replies.LinkReply(links=self._links(note, _keys(inputs)))

    def _revise(self, inputs: Shown) -> BaseModel:
        neighbour = inputs["neighbour"]
        for _, update in self._among(inputs["note"], "updates", {neighbour["key"]: ""}):
            return replies.ReviseReply(change=True, **_attributes(update))
        return replies.ReviseReply(change=False)

    def _links(self, note: Shown, keys: Mapping[str, str | None]) -> list[replies.ProposedLink]:
        return [
            replies.ProposedLink(to=alias, reason=link["why"], strength=1.0)
            for alias, link in self._among(note, "links", _shown(note, keys))
        ]

    def _record(self, note: Shown) -> Shown | None:
        return self._records.get(note["key"])

    def _among(
        self, note: Shown, kind: str, shown: Mapping[str | None, str]
    ) -> list[tuple[str, Shown]]:
        """Return the note's recorded links or updates to what was shown, with aliases; count them."""
        record = self._record(note) or {}
        found = []
        for item in record.get(kind, ()):
            pair = (record["id"], item["to"])
            self.annotated[kind].add(pair)
            if item["to"] in shown:
                self.offered[kind].add(pair)
                found.append((shown[item["to"]], item))
        return found


def _attributes(item: Shown) -> dict[str, Any]:
    given = {"context": item["context"], "tags": item["tags"]}
    return {**given, "keywords": item.get("keywords", [])}


def _keys(inputs: Shown) -> dict[str, str | None]:
    """Return alias → key of everything in the request: a batch-mate can be a candidate too."""
    return {item["alias"]: item["key"] for item in (*inputs["candidates"], *inputs["notes"])}


def _shown(note: Shown, keys: Mapping[str, str | None]) -> dict[str | None, str]:
    return {keys[candidate["alias"]]: candidate["alias"] for candidate in note["candidates"]}


def _load(annotations: Annotations) -> Iterable[Shown]:
    if not isinstance(annotations, str | os.PathLike):
        return annotations
    lines = Path(annotations).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]
