"""Pure: the numbers in a text, in digits of any script or in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ..providers._calendar_names import NUMBERS

_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {name: n * 10 for n, name in enumerate(_NAMES.split(), start=2)}
_ALSO_OTHER_WORDS = {"one", "ein", "une", "una", "once", "neuf", "elf"}
_WORDS = (
    {word: n for word, n in NUMBERS.items() if word not in _ALSO_OTHER_WORDS}
    | _TENS
    | {"twice": 2, "dozen": 12}
)
_SCALES = {"k": 1_000.0, "m": 1_000_000.0}
_DIGITS = re.compile(r"\d+(?:[.,:'\u00a0\u202f]\d+)*([km](?![^\W\d_]))?", re.IGNORECASE)
_WORD = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})[- ](?P<unit>one|{'|'.join(NUMBERS)})|(?P<word>[^\W\d_]+))\b"
)
# Chinese numerals are parts of other words too, unless what is counted follows.
_CHINESE = {char: n for n, char in enumerate("一二三四五六七八九", start=1)} | {"两": 2, "兩": 2}
_COUNTED = re.compile(
    r"([一二三四五六七八九两兩]?十?[一二三四五六七八九]?)(?=[个個只隻年月日岁歳歲次人天周週件本辆輛台匹枚冊册回名位条條匹頭头張张])"
)


def numbers_in(text: str) -> Iterator[float]:
    """Yield the numbers of a text but for one: `1,200`, `3.5`, `40k`, `two`, `twenty-five`, `三匹`."""
    plain = unicodedata.normalize("NFKC", text)
    for match in _DIGITS.finditer(plain):
        scale = _SCALES[match[1].lower()] if match[1] else 1.0
        digits = match[0][:-1] if match[1] else match[0]
        for part in digits.split(":"):  # times of day
            yield _value(part) * scale
    for match in _WORD.finditer(plain.casefold()):
        if match["tens"]:
            yield float(_TENS[match["tens"]] + NUMBERS[match["unit"]])
        elif match["word"] in _WORDS:
            yield float(_WORDS[match["word"]])
    yield from (_chinese(found) for found in _COUNTED.findall(plain) if found and found != "一")


def _value(digits: str) -> float:
    """Return the value of digits with points and commas: a group of three after one is of thousands."""
    groups = re.split(r"[.,'\u00a0\u202f]", digits)
    if len(groups) > 1 and all(len(group) == 3 for group in groups[1:]):  # noqa: PLR2004
        return float("".join(groups))
    return float(f"{''.join(groups[:-1])}.{groups[-1]}") if len(groups) > 1 else float(groups[0])


def _chinese(text: str) -> float:
    tens, ten, units = text.rpartition("十")
    return float((_CHINESE.get(tens, 1) * 10 if ten else 0) + _CHINESE.get(units, 0))
