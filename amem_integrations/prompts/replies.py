"""The replies of a chat model, as pydantic models; their JSON schema is sent with the prompt.

Few fields are required, so that a sparse reply of a small model is still valid.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Reply(BaseModel):
    """Base of all replies: unknown keys are ignored, text is stripped."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class NoteAttributes(Reply):
    """Attributes of one new note (Eq. 2 of the paper)."""

    id: str = Field(description="the note's id, as shown")
    context: str = Field(default="", description="one sentence that makes the note clear by itself")
    until: str = Field(
        default="", description="last day it holds, such as 2024-05-31, if it says so"
    )
    keywords: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)


class ConstructReply(Reply):
    """Reply to `construct`: the attributes of each note of the batch."""

    notes: list[NoteAttributes]


class Targeted(Reply):
    """Base of what refers to an earlier note."""

    to: str = Field(description="id of an earlier note, as shown")


class ProposedLink(Targeted):
    """A link from a new note to an earlier one (Eq. 6)."""

    relation: str = Field(default="related", description="one or two words, such as 'answers'")
    reason: str = Field(default="", description="why the two belong together, in a few words")
    strength: float = Field(default=0.5, description="0 to 1")


class ProposedUpdate(Targeted):
    """A context entry that the new note adds to an earlier one (Eq. 7)."""

    context: str = Field(default="", description="one sentence to add")
    keywords: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)


class ProposedSupersession(Targeted):
    """That the new note takes the place of an earlier one, or contradicts it."""

    relation: str = Field(
        default="updates", description="updates, corrects, retracts or contradicts"
    )
    reason: str = Field(default="", description="what is no longer so, in a few words")


class ProposedRelink(Reply):
    """That a link between two notes that were shown becomes stronger or weaker, or goes."""

    between: list[str] = Field(description="ids of the two notes, as shown")
    change: str = Field(default="", description="strengthen, weaken or remove")
    reason: str = Field(default="", description="what the new note shows, in a few words")


class NoteEvolution(Reply):
    """The links and updates of one new note, what it supersedes, and what it says of other links."""

    id: str = Field(description="the new note's id, as shown")
    links: list[ProposedLink] = Field(default_factory=list)
    updates: list[ProposedUpdate] = Field(default_factory=list)
    supersedes: list[ProposedSupersession] = Field(default_factory=list)
    relinks: list[ProposedRelink] = Field(default_factory=list)


class EvolveReply(Reply):
    """Reply to `evolve`: what is proposed for each new note; a note with nothing may be absent."""

    notes: list[NoteEvolution]


class LinkReply(Reply):
    """Reply to `link`, the paper's call for the links of one new note (Eq. 6)."""

    links: list[ProposedLink]


class ReviseReply(Reply):
    """Reply to `revise`, the paper's call for one neighbour (Eq. 7)."""

    change: bool
    supersedes: str = Field(
        default="", description="updates, corrects, retracts, contradicts or empty"
    )
    context: str = ""
    keywords: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)


class CondenseReply(Reply):
    """Reply to `condense`: what several context entries say, as one."""

    context: str = Field(default="", description="one text of at most 50 words")
