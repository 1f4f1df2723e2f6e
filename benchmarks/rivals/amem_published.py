"""A-MEM as published (Xu et al., 2025, arXiv 2502.12110): the paper's three kinds of call and the authors' retrieval.

A note has keywords, tags and a context by a first call (Eq. 2) and the vector of all of them (Eq. 3). A second call picks
links among the five nearest notes (Eq. 6). For each of these a third call may rewrite context, keywords and tags, which
take the place of the old ones (Eq. 7); as in the authors' program vectors follow only after a hundred rewritings. A question
finds ten notes, and after each the notes it is linked to, ten of these in all. The authors join the last two kinds into one
call and have keywords written for each question; here the question itself is the query, as in the paper (Eq. 8).
Recorded annotations may stand for the model; their calls are counted, with tokens of four bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from amem_integrations import NoteInput
from amem_integrations.ports import Completion, ModelRequest
from amem_integrations.texts import count_tokens

from ..systems import Vectors
from .base import Rival, day_of, said

NEAR, FOUND, CONSOLIDATED_EVERY = 5, 10, 100


class Attributes(BaseModel):
    """The reply to a new note."""

    keywords: list[str] = []
    context: str = ""
    tags: list[str] = []


class Links(BaseModel):
    """The reply to which of the nearest notes are linked, by their numbers."""

    links: list[int] = []


class Rewritten(Attributes):
    """The reply to a neighbour; without `rewrite` it stays as it is."""

    rewrite: bool = False


@dataclass(slots=True)
class Written:
    """A note, as its latest rewriting left it."""

    turn: NoteInput
    attributes: Attributes
    links: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        """Return all of it, as it is embedded and shown."""
        made = self.attributes
        return (
            f"[{day_of(self.turn.at)}] {said(self.turn)}\ncontext: {made.context}\n"
            f"keywords: {', '.join(made.keywords)}\ntags: {', '.join(made.tags)}"
        )


class AMemPublished:
    """Notes, their links by number, and their vectors."""

    def __init__(self, rival: Rival) -> None:
        self._ask, self._embedder = rival.ask, rival.embedder
        self._vectors = Vectors(self._embedder)
        self._notes: list[Written] = []
        self._rewritings = 0
        if rival.records:
            rival.model = Recorded(rival.records)

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Make a note of each turn, link it, and rewrite its neighbours."""
        for turn in turns:
            names = {"id": turn.key or "", "note": f"[{day_of(turn.at)}] {said(turn)}"}
            attributes = self._ask("amem_construct", Attributes, **names) or Attributes()
            new = Written(turn, attributes)
            if near := self._vectors.nearest(turn.content)[:NEAR]:
                self._evolve(new, near, names["id"])
            self._notes.append(new)
            self._vectors.put(str(new))

    def _evolve(self, new: Written, near: Sequence[int], name: str) -> None:
        shown = {place: f"{place}. {self._notes[place]}" for place in near}
        keys = json.dumps({place: self._notes[place].turn.key for place in near})
        values = {"id": name, "note": str(new), "keys": keys}
        found = self._ask("amem_link", Links, near="\n\n".join(shown.values()), **values)
        wanted = dict.fromkeys(found.links if found else ())
        new.links = [place for place in wanted if place in shown]
        for place in near:
            others = "\n\n".join(text for number, text in shown.items() if number != place)
            values |= {"keys": self._notes[place].turn.key or "", "near": others or "(none)"}
            one = self._ask("amem_evolve", Rewritten, neighbour=shown[place], **values)
            if one and one.rewrite:
                self._notes[place].attributes = Attributes(**one.model_dump(exclude={"rewrite"}))
                self._rewritings += 1
                if self._rewritings % CONSOLIDATED_EVERY == 0:
                    self._vectors = Vectors(self._embedder)
                    self._vectors.put(*map(str, self._notes))

    def recall(self, question: str) -> str:
        """Return the nearest notes, each with those it is linked to, of which there are no more than hits."""
        shown, linked = list[int](), 0
        for hit in self._vectors.nearest(question)[:FOUND]:
            shown.append(hit)
            for other in self._notes[hit].links[: FOUND - linked]:
                shown.append(other)
                linked += 1
        return "\n\n".join(str(self._notes[place]) for place in shown)


class Recorded:
    """A chat model that answers the three kinds of call from annotations of the turns."""

    name = "annotations"

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = {one["id"]: one for one in records}

    def generate(self, request: ModelRequest) -> Completion:
        """Return what the annotation of the new note says; a turn without one gets nothing."""
        given, reply = request.inputs, dict[str, Any]()
        record = self._records.get(given["id"], {})
        if request.task == "amem_construct":
            reply = {name: record.get(name, []) for name in ("keywords", "tags")}
            reply["context"] = record.get("context", "")
        elif request.task == "amem_link":
            targets = {link["to"] for link in record.get("links", ())}
            keys = json.loads(given["keys"]).items()
            reply["links"] = [int(place) for place, key in keys if key in targets]
        else:
            old = self._records.get(given["keys"], {}).get("keywords", [])
            for one in record.get("updates", ()):
                if one["to"] == given["keys"]:
                    reply = {"rewrite": True, "keywords": one.get("keywords") or old}
                    reply |= {name: one[name] for name in ("context", "tags")}
        text = json.dumps(reply)
        asked = count_tokens(request.system + request.prompt)
        return Completion(text=text, input_tokens=asked, output_tokens=count_tokens(text))
