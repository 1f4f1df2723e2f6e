"""Pure: whether all that a text says stands in its sources, as far as that can be told without a model.

Numbers, dates, names and quoted words of the text have to occur in the sources, or follow from their dates; and each
sentence has to share words with them (in scripts without spaces: pairs of characters). What is inferred with the words
of the sources is not found out here.
"""

# ruff: noqa: RUF001 - marks of other scripts

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..kinds import function_words
from ..notes import Note
from .grounded_dates import DATE_WORDS, Dates, without_dates
from .number_words import numbers_in

# Least share of the words of a sentence that stand in the sources. Of 419 sentences that a model wrote of turns of a
# conversation, 4 fail against these turns (7 with .5), and 350 against turns of another day (294 with .3).
SHARED = 0.4
SHARED_PAIRS = 0.4  # of pairs of characters, in scripts without spaces
FEWEST = 3  # words or pairs that a sentence has for that to be counted
TELLING = 2  # words, or pairs, that a text shares with a note of which it says something
STEM = 4  # first letters by which words are compared


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_SENTENCE = re.compile(r"(?<=[.!?;:。！？；])\s*|\n+")
_QUOTED = re.compile(r"[\"“”„«»「」『』]([^\"“”„«»「」『』]{2,})[\"“”„«»「」『』]")
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]{2,}")
# From Hebrew to the Indic scripts and Tibetan, Ethiopic, Khmer, kana, Chinese, Hangul.
_CASELESS = re.compile(
    "[\u0590-\u109f\u1200-\u137f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
_HIRAGANA = re.compile("[\u3040-\u309f]")
_ENGLISH = _set("the a an and of in to is was her his their she he they with for at from has")
# Words of German before a noun, which has a capital there without being a name.
_ARTICLES = _set(
    "der die das den dem des ein eine einen einem einer eines kein keine keinen ihr ihre ihren ihrem ihrer sein seine "
    "seinen seinem seiner im am zum zur vom beim ins als jeden jede jedes neue neuen neuer neues viele"
)
_GERMAN = _set("und ist nicht mit seit hat sich auf bei nach wurde war")
# After the first word of a sentence, a word like these shows that it is what the sentence is about.
_VERB = re.compile(r"is|was|are|were|has|had|will|became|gave|got|went|bought|[a-z]+(?:s|ed)")
_ABBREVIATED = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Prof|Mt|Jr|Sr|No)\.")
_PRONOUNS = _set(
    "she he they it her his their this that these those there both all each one some now currently previously formerly "
    "first then later since before after until earlier who which what most many others another"
)


def unsupported(text: str, sources: Sequence[Note], participants: Iterable[str] = ()) -> str | None:
    """Return what of a model's text does not stand in the notes that it cites, in words; None if all does.

    `participants` are the names of those who took part in the conversations of these notes.
    """
    held = _Held(sources, tuple(participants))
    if problem := Dates(sources).problem(text):
        return problem
    plain = without_dates(text)
    for number in _unknown_numbers(plain, held):
        return f"the number {number:g} is in no source"
    for quoted in _QUOTED.findall(text):
        if _flat(quoted) not in held.flat:
            return f"the quoted words {quoted!r} are in no source"
    is_english = _is_english(text)
    for name in dict.fromkeys(_names(plain, held)):
        if not held.has_name(name, is_english=is_english):
            return f"the name {name!r} is in no source"
    for sentence in _SENTENCE.split(plain):
        if not held.shares(sentence):
            return f"the sources do not say {sentence.strip()!r}"
    return None


def tells_of(text: str, note: Note, participants: Iterable[str] = ()) -> bool:
    """Return whether a text has words of a note, so that it may say something of it; names of speakers do not count."""
    small = function_words() | {part for name in participants for part in _words(name)}
    own = {word[:STEM] for word in _words(note.content) if word not in small}
    said = {word[:STEM] for word in _words(text) if word not in small}
    return (
        len(own & said) >= min(TELLING, len(own))
        or len({*_pairs(text)} & {*_pairs(note.content)}) >= TELLING
    )


@dataclass(frozen=True)
class _Held:
    """What the sources hold."""

    sources: Sequence[Note]
    participants: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(
            [
                *(note.content for note in self.sources),
                *(n.speaker or "" for n in self.sources),
                *self.participants,
            ]
        )

    @cached_property
    def flat(self) -> str:
        return _flat(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(part for word in _words(self.text) for part in (word, *word.split("-")))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word[:STEM] for word in self.words)

    @cached_property
    def numbers(self) -> frozenset[float]:
        return frozenset(number for note in self.sources for number in numbers_in(note.content))

    @cached_property
    def pairs(self) -> frozenset[str]:
        return frozenset(_pairs(self.text))

    def has_name(self, name: str, *, is_english: bool) -> bool:
        """Return whether a name is held; in languages other than English it may be inflected."""
        forms = {name, *name.split("-")}
        if (
            {name, _singular(name)} & self.words
            or forms <= self.words
            or _flat(name) in self.tokens
        ):
            return True
        return not is_english and any(_is_inflected(name, word) for word in self.words)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """What stands between spaces, such as `r2d2`."""
        return frozenset(part.strip(".,;:!?()'\"") for part in self.flat.split())

    def shares(self, sentence: str) -> bool:
        """Return whether a sentence has enough in common with the sources."""
        if any(run not in self.text for run in _KATAKANA.findall(sentence)):
            return False
        pairs = list(_pairs(sentence))
        if len(pairs) >= FEWEST:
            return sum(pair in self.pairs for pair in pairs) >= SHARED_PAIRS * len(pairs)
        words = [word for word in _words(sentence) if _means_something(word)]
        if len(words) < FEWEST:
            return True
        return sum(word[:STEM] in self.stems for word in words) >= SHARED * len(words)


def _unknown_numbers(text: str, held: _Held) -> Iterator[float]:
    """Yield the numbers that no source has; one that counts what follows it is known."""
    for sentence in re.split(r"(?<=[.!?;。！？；])\s+", text):
        for number in numbers_in(sentence):
            if number not in held.numbers and number != _items(sentence):
                yield number


def _items(sentence: str) -> int:
    """Return how many items a sentence lists after a colon."""
    _, colon, listed = sentence.partition(":")
    return (
        len([item for item in re.split(r",|、|，|\band\b", listed) if item.strip(" .")])
        if colon
        else 0
    )


def _names(text: str, held: _Held) -> Iterator[str]:
    """Yield the words of a text that are names, in small letters: those with a capital, but for common ones."""
    german = len(_GERMAN & set(_words(text))) > 1
    known = {word for name in held.participants for word in _words(name)}
    for sentence in re.split(r"(?<=[.!?。！？])\s+|\n+", _ABBREVIATED.sub(r"\1", text)):
        before = ""
        found = list(_WORD.finditer(sentence))
        for place, match in enumerate(found):
            word = _bare(match[0])
            following = found[place + 1][0] if place + 1 < len(found) else ""
            if match[0][0].isupper() and not _is_common(word):
                if place == 0:
                    is_name = word in known or _begins_with_name(match[0], following)
                else:
                    is_name = not (german and before in _ARTICLES)
                if is_name:
                    yield word
            before = word


def _begins_with_name(first: str, following: str) -> bool:
    """Return whether the first word of a sentence, which has a capital anyhow, seems to be a name."""
    if first.endswith(("'s", "’s")) or first[1:] != first[1:].lower():
        return True
    return bool(_VERB.fullmatch(following)) and not first.endswith(("ly", "ing", "ed"))


def _is_common(word: str) -> bool:
    return word in DATE_WORDS or word in _PRONOUNS or word in _ENGLISH or word in function_words()


def _is_english(text: str) -> bool:
    words = list(_words(text))
    return sum(word in _ENGLISH for word in words) >= max(1, len(words) // 20)


def _words(text: str) -> Iterator[str]:
    return (_bare(word) for word in _WORD.findall(text))


def _bare(word: str) -> str:
    """Return a word in small letters and composed form, without the mark of possession."""
    plain = unicodedata.normalize("NFKC", word).casefold().replace("’", "'")
    return plain.removesuffix("'s").removesuffix("'")


def _flat(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())


def _singular(word: str) -> str:
    return word[:-2] if word.endswith("es") and len(word) > 5 else word.removesuffix("s")  # noqa: PLR2004


def _is_inflected(name: str, word: str) -> bool:
    """Return whether two words differ by their last letters only."""
    shorter = min(len(name), len(word))
    least = max(3, shorter - 2)
    return shorter >= 3 and name[:least] == word[:least] and abs(len(name) - len(word)) <= 4  # noqa: PLR2004


def _means_something(word: str) -> bool:
    return len(word) >= STEM and not _is_common(word)


def _pairs(text: str) -> Iterator[str]:
    """Yield runs of characters in scripts without capitals: two where a character is a syllable or more, else three.

    Of Japanese those of hiragana are left out, which are mostly grammar.
    """
    for run in _CASELESS.findall(unicodedata.normalize("NFKC", text)):
        for part in _HIRAGANA.split(run):
            length = 2 if _DENSE.search(part) else 3
            yield from (part[i : i + length] for i in range(len(part) - length + 1))
