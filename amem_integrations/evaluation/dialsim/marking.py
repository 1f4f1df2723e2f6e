"""Pure: which option an answer chooses, read as leniently as by the published simulator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .tv_show import LETTERS

# One bracket is enough: a model, or what reads its reply, may have lost the other.
_LABEL = re.compile(r"\(([A-Za-z])\)|\(([A-Z])\b|\b([A-Z])\)")
_SETTLED = re.compile(r"(?i:answer\s+is):?\s+(?:\(([A-Za-z])\)|([A-Z])(?=[).,;:]|\W*\Z))")
_BARE = re.compile(r"\W*([A-Z])(?:[).:]|\W*\Z)")
_REFUSAL = re.compile(
    r"\b(?:do not|don.?t|cannot|can.?t|unable to) (?:know|answer|say|tell|be determined)\b"
    r"|\bnone of the (?:above|options)\b|\bno information\b|\bnot (?:mentioned|specified)\b",
    re.IGNORECASE,
)


def chosen(answer: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that an answer chooses, or None if it is none or several.

    What "the answer is" counts first, then a letter in brackets, a bare letter at the beginning, a refusal
    (which is the last option), and the words of one option and of no other.
    """
    for read in (_settled, _labelled, _begun_with, _refused, _worded):
        if places := read(answer, options):
            return places.pop() if len(places) == 1 else None
    return None


def refuses(answer: str) -> bool:
    """Return whether an answer says that it does not know."""
    return _REFUSAL.search(answer) is not None


def _settled(answer: str, options: Sequence[str]) -> set[int]:
    return _places(map("".join, _SETTLED.findall(answer)), options)


def _labelled(answer: str, options: Sequence[str]) -> set[int]:
    return _places(map("".join, _LABEL.findall(answer)), options)


def _begun_with(answer: str, options: Sequence[str]) -> set[int]:
    found = _BARE.match(answer)
    return _places([found[1]], options) if found else set()


def _refused(answer: str, options: Sequence[str]) -> set[int]:
    return {len(options) - 1} if refuses(answer) else set()


def _worded(answer: str, options: Sequence[str]) -> set[int]:
    plain = [_plain(option) for option in options]
    held = {place for place, option in enumerate(plain) if _holds(_plain(answer), option)}
    # "Ann and Ben" holds "Ann", too, but does not choose it.
    return {
        place
        for place in held
        if not any(place != other and _holds(plain[other], plain[place]) for other in held)
    }


def _places(letters: Iterable[str], options: Sequence[str]) -> set[int]:
    places = (LETTERS.index(letter.upper()) for letter in letters)
    return {place for place in places if place < len(options)}


def _holds(text: str, part: str) -> bool:
    """Return whether a text holds all words of another, in their order."""
    return bool(part) and f" {part} " in f" {text} "


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
