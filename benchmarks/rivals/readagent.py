"""ReadAgent (Lee et al., 2024, arXiv 2402.09727): pages by pause points, gists, and look-up of pages for a question.

From the paper: pages of 280 to 600 words (its setting for QuALITY), a pause point chosen by the model, one gist a page, and
parallel look-up of up to five pages, whose gists are then replaced by their text. Here a "paragraph" is a turn, and what is
left when a conversation ends is its last page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from pydantic import BaseModel, Field

from amem_integrations import NoteInput

from .base import Rival, transcript

LEAST_WORDS, MOST_WORDS, LOOKED_UP = 280, 600, 5


class Pause(BaseModel):
    """The reply to where a page ends."""

    pause: int = Field(description="the number of the label after which it is best to pause")


class Gist(BaseModel):
    """The reply to a page."""

    gist: str = Field(description="the shortened page")


class Pages(BaseModel):
    """The reply to which pages are read again."""

    pages: list[int] = Field(description="numbers of pages, none if the gists are enough")


class ReadAgent:
    """The pages of a conversation, each with its gist."""

    def __init__(self, rival: Rival) -> None:
        self._ask = rival.ask
        self._pages: list[tuple[str, str]] = []  # gist and text

    def add(self, turns: Sequence[NoteInput]) -> None:
        """Read turns page by page."""
        left = list(turns)
        while left:
            end = self._end(left)
            text = transcript(left[:end])
            found = self._ask("readagent_gist", Gist, page=text)
            self._pages.append((found.gist if found else text, text))
            del left[:end]

    def _end(self, turns: Sequence[NoteInput]) -> int:
        """Return how many of the turns are the next page."""
        words = list(accumulate(len(turn.content.split()) for turn in turns))
        if words[-1] <= MOST_WORDS:
            return len(turns)
        fits = max(1, sum(count <= MOST_WORDS for count in words))
        labels = [end for end in range(1, fits + 1) if words[end - 1] >= LEAST_WORDS] or [fits]
        marked = [
            replace(turn, content=f"{turn.content} <{end}>") if end in labels else turn
            for end, turn in enumerate(turns[:fits], 1)
        ]
        found = self._ask("readagent_pause", Pause, passage=transcript(marked))
        return found.pause if found and found.pause in labels else fits

    def recall(self, question: str) -> str:
        """Return the gists, those of the pages that the model looks up replaced by their text."""
        gists = [gist for gist, _ in self._pages]
        listed = "\n\n".join(f"<Page {number}>\n{gist}" for number, gist in enumerate(gists))
        found = self._ask("readagent_look_up", Pages, gists=listed, question=question)
        chosen = set(found.pages[:LOOKED_UP] if found else ())
        return "\n\n".join(
            page if number in chosen else gist for number, (gist, page) in enumerate(self._pages)
        )
