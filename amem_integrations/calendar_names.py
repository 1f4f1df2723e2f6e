"""Names of weekdays, months and small numbers in the languages that the rules know, in lower case."""

from __future__ import annotations

from collections.abc import Iterable

_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "mondays tuesdays wednesdays thursdays fridays saturdays sundays",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "montags dienstags mittwochs donnerstags freitags samstags sonntags",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lundis mardis mercredis jeudis vendredis samedis dimanches",
    "lunes martes miércoles jueves viernes sábado domingo",
    "月曜 火曜 水曜 木曜 金曜 土曜 日曜",
)
_MONTHS = (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
    "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "une deux trois quatre cinq six sept huit neuf dix onze douze",
    "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
)

# From 0 for Monday, 1 for January, and 1.
DAYS = {name: n for line in _DAYS for n, name in enumerate(line.split())}
MONTHS = {name: n for line in _MONTHS for n, name in enumerate(line.split(), start=1)} | {"sept": 9}
NUMBERS = {name: n for line in _NUMBERS for n, name in enumerate(line.split(), start=1)}


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches one of some words.

    The longest word that fits is found: "march" before "mar".
    """
    return "|".join(sorted(words, key=len, reverse=True))
