"""A report as a reader sees it: sections of texts, charts and tables, the same in Markdown and on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .data import CATEGORIES
from .systems import KNOWN, SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .plots.style import Look

V = TypeVar("V")
Values = Mapping[str, Any]

BOOTSTRAP = "95 % bootstrap intervals over questions"
COSTS = "Costs"  # the title of a section

_MEASURES = {
    "recall": "Recall of the evidence",
    "all_evidence": "All evidence found",
    "f1": "F1",
    "bleu1": "BLEU-1",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "meteor": "METEOR",
    "sbert": "SBERT cosine",
    "judge": "Judged correct",
}

_TOKENS = {"input_tokens": "tokens in", "output_tokens": "tokens out"}
_BUILD = {
    "notes": "notes",
    "model_calls": "model calls",
    "calls_per_note": "calls a note",
    **_TOKENS,
    "rejected_replies": "rejected replies",
    "links": "links",
    "updates": "updates",
    "digests": "digests",
}
_STAGE = {"calls": "calls", **_TOKENS, "cost": "price"}
_TIMES = {
    "search_p50": "search, median",
    "search_p95": "95th percentile",
    "embed_query_p50": "encoding of the question, median",
}


class System(str):
    """The name of a system in a table: a page shows its label, Markdown the name itself."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Values | None) -> Estimate | None:
        """Return the estimate that a report holds, or None if it is one of nothing."""
        if not found or found["mean"] is None:
            return None
        return cls(found["mean"], found["low"], found["high"])

    @property
    def reach(self) -> list[list[float]]:
        """The lengths of its error bar, below and above."""
        return [[max(0.0, self.mean - self.low)], [max(0.0, self.high - self.mean)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart: `name` is that of its file, `alt` describes it in words, `draw` makes it."""

    name: str
    alt: str
    caption: str
    draw: Callable[[Look], Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text, of which the first cell names the row; the first `words` columns are no figures.

    A second line of a cell is shown smaller, or in brackets in Markdown. A `folded` table is closed on the page.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int
    folded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report; `about` says in a few sentences what was measured, and how."""

    title: str
    about: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def table(
    caption: str,
    head: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    first: str = "",
    words: int = 1,
    folded: bool = False,
) -> Table:
    """Return a table of values as a report holds them; `first` is the head of the first column."""
    cells = [[cell(value) for value in row] for row in rows]
    return Table(caption=caption, head=[first, *head], rows=cells, words=words, folded=folded)


def joined(mean: float | None, interval: Sequence[float] | None) -> Values:
    """Return a mean and its interval, which stand apart in a report, as one estimate."""
    low, high = interval or (None, None)
    return {"mean": mean, "low": low, "high": high}


def system_table(
    caption: str,
    head: Iterable[str],
    systems: Mapping[str, V],
    cells: Callable[[V], Iterable[object]],
    *,
    folded: bool = False,
) -> Table:
    """Return a table with a row of `cells` for each system, in the usual order."""
    rows = [[System(name), *cells(systems[name])] for name in ordered(systems)]
    return table(caption, head, rows, folded=folded)


def cell(value: object) -> str:
    """Return a value as a table shows it: a float is a share, a mapping an estimate or a difference."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        if "difference" in value:
            return f"{gain(value['difference'])}\n{gain(value['low'])} to {gain(value['high'])}"
        one = Estimate.of(value)
        return f"{share(one.mean)}\n{share(one.low)} to {share(one.high)}" if one else share(None)
    return f"{value:,}" if isinstance(value, int) else share(cast("float | None", value))


def markdown(title: str, sections: Iterable[Section], settings: Values) -> str:
    """Return a report as Markdown, without its charts, and its settings at the end."""
    blocks = [f"# {title}"]
    for section in sections:
        if section.title != title:
            blocks.append(f"## {section.title}")
        blocks += section.about
        for one in section.tables:
            blocks += [f"{one.caption}:", _markdown_table(one.head, one.rows)]
    rows = [(name, f"`{text}`") for name, text in flat(settings)]
    return "\n\n".join([*blocks, "## Settings", _markdown_table(("", ""), rows)]) + "\n"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_markdown_cell, line))} |" for line in lines)


def _markdown_cell(text: str) -> str:
    first, _, second = text.partition("\n")
    plain = f"{first} ({second})" if second else first
    plain = plain.replace("|", "\\|").replace("\n", " ")
    return f"`{plain}`" if isinstance(text, System) else plain


def cost_tables(report: Values) -> Iterator[Table]:
    """Yield what building, the language models and a search took, in a report on any data set."""
    if builds := report.get("builds"):
        yield system_table(
            "Building each memory; a memory that is searched in two ways is built once",
            _BUILD.values(),
            builds,
            lambda one: _numbers(one, _BUILD),
        )
        yield system_table(
            "The links of annotations that led to one of the candidates, notes that were not linked in the "
            "end, and seconds",
            ["candidate recall", "unfinished", "seconds"],
            builds,
            lambda one: [one["candidate_recall"], *_numbers(one, ("unfinished", "seconds"))],
            folded=True,
        )
    if stages := {name: one for name, one in report.get("costs", {}).items() if one.get("calls")}:
        yield table(
            "What the language models were asked, by stage; a price only where prices were given",
            _STAGE.values(),
            ([name, *_numbers(one, _STAGE)] for name, one in stages.items()),
        )
    if times := report.get("latency_ms"):
        yield system_table(
            "Milliseconds of the memory's search, with the encoding of the question",
            _TIMES.values(),
            {"amem": times},
            lambda one: _numbers(one, _TIMES),
        )


def _numbers(values: Values, names: Iterable[str]) -> list[str]:
    return [number(values.get(name)) for name in names]


def system(name: str) -> str:
    """Return the label of a system."""
    return SHOWN[name][0] if name in SHOWN else name


def ordered(names: Iterable[str]) -> list[str]:
    """Return systems, each once, in the usual order: the memory first, unknown ones last."""
    given = dict.fromkeys(names)
    return [
        *(name for name in KNOWN if name in given),
        *(name for name in given if name not in KNOWN),
    ]


def measure(name: str) -> str:
    """Return the label of a measure."""
    return _MEASURES.get(name, name)


def category(name: str) -> str:
    """Return the label of a category of questions, with its number, which alone is unambiguous."""
    return f"{name} {CATEGORIES[int(name)]}" if name != "all" else "all categories"


def share(value: float | None) -> str:
    """Return a figure between -1 and 1 as papers write it, `.870`; a dash for None."""
    if value is None:
        return "\N{EN DASH}"
    rounded = round(value, 3) + 0.0  # no minus before 0
    text = f"{rounded:.3f}".replace("-", "\N{MINUS SIGN}")
    return text.replace("0.", ".", 1) if abs(rounded) < 1 else text


def gain(value: float | None) -> str:
    """Return a difference with its sign."""
    return share(value) if value is None or round(value, 3) < 0 else f"+{share(value)}"


def percent(value: float | None) -> str:
    """Return a share as `96.2 %`; a dash for None."""
    return share(None) if value is None else f"{value:.1%}".replace("%", " %")


def number(value: float | None) -> str:
    """Return a count or a size, with decimals only where they matter; a dash for None."""
    if value is None:
        return share(None)
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"  # noqa: PLR2004


def counted(count: int, noun: str) -> str:
    """Return `1 note`, `2 notes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def flat(values: Values, prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as rows of a name with dots and a text."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{name}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            rows.append((prefix + name, text))
    return rows
