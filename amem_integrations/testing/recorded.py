"""A chat model that answers from what a language model once wrote about a conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..errors import ConfigurationError
from ..ports import Completion, ModelRequest
from ..prompts.replies import (
    ConstructReply,
    EvolveReply,
    LinkReply,
    NoteAttributes,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    ReviseReply,
)
from .fakes import as_completion

Item = Mapping[str, Any]
Pair = tuple[str, str]
Annotations = str | os.PathLike[str] | Iterable[Mapping[str, Any]]


class RecordedModel:
    """A chat model that repeats what a language model once wrote about each note.

    `annotations` is a file of JSON lines, or the records themselves. A record is `{"id", "keywords",
    "context", "tags", "links": [{"to", "why"}], "updates": [{"to", "context", "tags"}]}`, where `id`
    is the `key` of a note and `to` that of an earlier one. Notes whose words alone show that they are filler are
    named as such. A link or update is proposed only if its
    target is among the candidates shown for that note, so the counts below give the recall of the
    candidate search. Each counts a pair (note, target) once, however often it is asked about.

    Attributes:
        name: What the notes record as their model.
        unknown: Keys that were asked about and are not in the annotations; replies leave them out.
    """

    def __init__(self, annotations: Annotations, *, name: str = "recorded") -> None:
        self.name = name
        self.unknown: set[str | None] = set()
        self._records = {record["id"]: record for record in _load(annotations)}
        self._annotated: dict[str, set[Pair]] = {"links": set(), "updates": set()}
        self._offered: dict[str, set[Pair]] = {"links": set(), "updates": set()}
        self._answers: dict[str, Callable[[Item], BaseModel]] = {
            "construct": self._construct,
            "evolve": self._evolve,
            "link": self._link,
            "revise": self._revise,
        }

    @property
    def annotated_links(self) -> int:
        """How many links the annotations hold for the notes asked about."""
        return len(self._annotated["links"])

    @property
    def offered_links(self) -> int:
        """How many of those had their target among the candidates."""
        return len(self._offered["links"])

    @property
    def annotated_updates(self) -> int:
        """How many updates the annotations hold for the notes asked about."""
        return len(self._annotated["updates"])

    @property
    def offered_updates(self) -> int:
        """How many of those had their target among the candidates (in `revise`: as neighbour)."""
        return len(self._offered["updates"])

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

    def _construct(self, inputs: Item) -> BaseModel:
        filler = [note["alias"] for note in inputs["notes"] if note.get("kind") == "filler"]
        notes = [
            NoteAttributes(id=note["alias"], **_attributes(record))
            for note in inputs["notes"]
            if (record := self._record(note)) and note["alias"] not in filler
        ]
        return ConstructReply(notes=notes, filler=filler)

    def _evolve(self, inputs: Item) -> BaseModel:
        keys = _keys(inputs)
        notes = []
        for note in inputs["notes"]:
            found = self._among(note, "updates", _shown(note, keys))
            updates = [ProposedUpdate(to=alias, **_attributes(update)) for alias, update in found]
            links = self._links(note, keys)
            if links or updates:
                notes.append(NoteEvolution(id=note["alias"], links=links, updates=updates))
        return EvolveReply(notes=notes)

    def _link(self, inputs: Item) -> BaseModel:
        note = inputs["notes"][0]
        self._among(note, "updates", {})  # known from here on, offered one at a time by `revise`
        return LinkReply(links=self._links(note, _keys(inputs)))

    def _revise(self, inputs: Item) -> BaseModel:
        neighbour = inputs["neighbour"]
        for _, update in self._among(inputs["note"], "updates", {neighbour["key"]: ""}):
            return ReviseReply(change=True, **_attributes(update))
        return ReviseReply(change=False)

    def _links(self, note: Item, keys: Mapping[str, str | None]) -> list[ProposedLink]:
        return [
            ProposedLink(to=alias, reason=link["why"], strength=1.0)
            for alias, link in self._among(note, "links", _shown(note, keys))
        ]

    def _record(self, note: Item) -> Item | None:
        key = note["key"]
        if key not in self._records:
            self.unknown.add(key)
        return self._records.get(key)

    def _among(
        self, note: Item, kind: str, shown: Mapping[str | None, str]
    ) -> list[tuple[str, Item]]:
        """Return the note's recorded links or updates to what was shown, with aliases; count them."""
        record = self._record(note) or {}
        found = []
        for item in record.get(kind, ()):
            pair = (record["id"], item["to"])
            self._annotated[kind].add(pair)
            if item["to"] in shown:
                self._offered[kind].add(pair)
                found.append((shown[item["to"]], item))
        return found


def _attributes(item: Item) -> dict[str, Any]:
    given = {"context": item["context"], "tags": item["tags"]}
    return {**given, "keywords": item.get("keywords", [])}


def _keys(inputs: Item) -> dict[str, str | None]:
    """Return alias → key of everything in the request: a batch-mate can be a candidate too."""
    return {item["alias"]: item["key"] for item in (*inputs["candidates"], *inputs["notes"])}


def _shown(note: Item, keys: Mapping[str, str | None]) -> dict[str | None, str]:
    return {keys[candidate["alias"]]: candidate["alias"] for candidate in note["candidates"]}


def _load(annotations: Annotations) -> Iterable[Item]:
    if not isinstance(annotations, str | os.PathLike):
        return annotations
    lines = Path(annotations).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]
