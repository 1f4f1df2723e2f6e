"""The replies of a chat model, as pydantic models; their JSON schema is sent with the prompt.

Few fields are required, so that a sparse reply of a small model is still valid. What is written for every note has a
short name, since a model pays for each.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)


class Reply(BaseModel):
    """Base of all replies: unknown keys are ignored, text is stripped, and a field may be given by its full name."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, populate_by_name=True)

    _is_cut: bool = PrivateAttr(default=False)

    @property
    def is_cut(self) -> bool:
        """Whether the answer broke off: nothing is known of what is not in the reply."""
        return self._is_cut

    @property
    def named(self) -> list[str]:
        """The new notes that the reply has something about, by what they are called; one may stand there twice."""
        return []

    def cut(self) -> Self:
        """Return the reply, marked as the finished part of an answer that broke off."""
        self._is_cut = True
        return self

    def after(self, _earlier: Self) -> Self:
        """Return the reply with what an earlier one says of notes of which this one says nothing."""
        return self


def _short(name: str, description: str = "") -> Any:  # noqa: ANN401 - the default of a field of any type
    """Return a text field that models write under a short name."""
    return Field(default="", validation_alias=name, description=description)


def _words(name: str, description: str) -> Any:  # noqa: ANN401 - as above
    return Field(default_factory=list, validation_alias=name, description=description)


def bare(alias: str) -> str:
    """Return an alias without brackets and star."""
    return alias.strip("[]()* ")


Id = Annotated[str, AfterValidator(bare)]
Ids = Annotated[list[str], AfterValidator(lambda ids: [*map(bare, ids)])]
# A model says one of three words; a number, as a share, is understood as well.
Strength = Annotated[
    float, WithJsonSchema({"type": "string", "enum": ["strong", "medium", "weak"]})
]


class NoteAttributes(Reply):
    """Attributes of one new note (Eq. 2 of the paper)."""

    id: Id = Field(description="the note's id, as shown")
    context: str = _short("c", "one sentence that makes the note clear by itself")
    until: str = Field(
        default="", description="last day it holds, such as 2024-05-31, if it says so"
    )
    keywords: list[str] = _words("k", "specific words of the note")
    tags: list[str] = _words("t", "broader topics")


class ConstructReply(Reply):
    """Reply to `construct`: the attributes of each note of the batch, but for those that say nothing."""

    notes: list[NoteAttributes]
    questions: Ids = Field(default_factory=list, description="ids of notes that only ask")
    filler: Ids = Field(default_factory=list, description="ids of notes that say nothing")

    @property
    def named(self) -> list[str]:
        """The notes with attributes, and those that say nothing."""
        return [*(item.id for item in self.notes), *set(self.filler)]

    def after(self, earlier: Self) -> Self:
        """Return the reply with the notes that only the earlier one names."""
        left = set(earlier.named).difference(self.named)
        self.notes += [item for item in earlier.notes if item.id in left]
        self.questions += left.intersection(earlier.questions)
        self.filler += left.intersection(earlier.filler)
        return self

    @model_validator(mode="before")
    @classmethod
    def _of_filler_only(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic's own
        """Read a reply that names filler, and no other note."""
        is_filler = isinstance(data, dict) and "notes" not in data and data.get("filler")
        return {**data, "notes": []} if is_filler else data


class Targeted(Reply):
    """Base of what refers to an earlier note."""

    to: Id = Field(description="id of an earlier note, as shown")


class ProposedLink(Targeted):
    """A link from a new note to an earlier one (Eq. 6)."""

    relation: str = _short("rel", "one of the relations explained")
    reason: str = _short("why", "why the two belong together, in a few words")
    strength: Strength = Field(default=0.5, validation_alias="s", description="how closely")


class ProposedUpdate(Targeted):
    """A context entry that the new note adds to an earlier one (Eq. 7)."""

    context: str = _short("c", "one sentence to add")
    keywords: list[str] = _words("k", "further keywords")
    tags: list[str] = _words("t", "further tags")


class ProposedSupersession(Targeted):
    """That the new note takes the place of an earlier one or of a part of it, or contradicts it."""

    relation: str = Field(
        default="updates",
        validation_alias="rel",
        description="updates, corrects, retracts or contradicts",
    )
    reason: str = _short("why", "what is no longer so, in a few words")
    still: str = Field(
        default="",
        description="if only a part of it is outdated: what still holds, in one sentence",
    )


class ProposedRelink(Reply):
    """That a link between two notes that were shown becomes stronger or weaker, or goes."""

    between: Ids = Field(description="ids of the two notes, as shown")
    change: str = Field(default="", description="strengthen, weaken or remove")
    reason: str = _short("why", "what the new note shows, in a few words")


class NoteEvolution(Reply):
    """The links and updates of one new note, what it supersedes, and what it says of other links."""

    id: Id = Field(description="the new note's id, as shown")
    links: list[ProposedLink] = Field(default_factory=list)
    updates: list[ProposedUpdate] = Field(default_factory=list)
    supersedes: list[ProposedSupersession] = Field(default_factory=list)
    relinks: list[ProposedRelink] = Field(default_factory=list)


class EvolveReply(Reply):
    """Reply to `evolve`: what is proposed for each new note; a note with nothing may be absent."""

    notes: list[NoteEvolution]

    @property
    def named(self) -> list[str]:
        """The notes for which something is proposed, or nothing explicitly."""
        return [item.id for item in self.notes]


class LinkReply(Reply):
    """Reply to `link`, the paper's call for the links of one new note (Eq. 6)."""

    links: list[ProposedLink]


class ReviseReply(Reply):
    """Reply to `revise`, the paper's call for one neighbour (Eq. 7)."""

    change: bool
    supersedes: str = Field(
        default="", description="updates, corrects, retracts, contradicts or empty"
    )
    context: str = _short("c", "one sentence to add")
    keywords: list[str] = _words("k", "further keywords")
    tags: list[str] = _words("t", "further tags")


class FillReply(Reply):
    """Reply to `fill`: the fields of a form that new notes change, and which of these show it."""

    value: dict[str, Any]
    of: Ids = Field(default_factory=list, description="ids of the notes that show it")
