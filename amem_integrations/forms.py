"""Pure: the form that a memory keeps by itself, if `MemoryConfig(profile=True)` says so."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Profile(BaseModel):
    """Who the user is, the person that speaks as the user.

    Each field is a list of at most ten short statements in the third person, of what is so now: those that tell most.
    """

    facts: list[str] = Field(
        default_factory=list, description="name, age, home, family, health, and what else lasts"
    )
    tastes: list[str] = Field(default_factory=list, description="what the user likes and dislikes")
    plans: list[str] = Field(
        default_factory=list, description="what the user is going to do or wants, with dates"
    )
    people: list[str] = Field(
        default_factory=list, description="who matters to the user, by name, and how"
    )
    work: list[str] = Field(
        default_factory=list, description="what the user does for a living, studies or makes"
    )

    def __str__(self) -> str:
        """Return the fields that hold something as text, a line each."""
        lines = ("; ".join(" ".join(said.split()) for said in field) for _, field in self)
        return "\n".join(
            f"- {name}: {line}"
            for name, line in zip(type(self).model_fields, lines, strict=True)
            if line
        )
