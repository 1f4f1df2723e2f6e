"""Measures recall of evidence on LoCoMo and, with --answer, what a chat model answers.

Every turn becomes a note and every question a search. Notes are written from the annotations where there are any, else
by the model if one is named, else by rules. A run that was stopped is continued by the same command.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from amem_integrations.errors import InvalidInputError

from . import data
from .answering import PROMPTS
from .command import command, count, names, numbers, option
from .experiment import measure, served, shared_options
from .provenance import file_digest
from .report import build, tables, write
from .rivals import RIVALS, Maker, table
from .rivals.piped import Piped
from .systems import ABLATIONS, BASELINES, KNOWN, Settings


def _rivals(given: Namespace) -> dict[str, Maker]:
    """Return what makes the other memories that are named, by their names; an unknown one is an `InvalidInputError`."""
    named = names(given.systems)
    if unknown := [name for name in named if name not in (*KNOWN, *RIVALS)]:
        raise InvalidInputError(
            f"there is no system {unknown[0]!r}; there are {', '.join((*KNOWN, *RIVALS))}"
        )
    found = {name: make for name, make in RIVALS.items() if name in named}
    if (found or given.system) and not given.answer:
        raise InvalidInputError("other memories are compared by answers: give --answer")
    if len(given.python) != len(given.system) or (given.system and not given.model):
        raise InvalidInputError(
            "each --system needs a --python to run it, and all of them a --model"
        )
    for system, python in zip(given.system, given.python, strict=True):
        name = system.rpartition(":")[2].lower()
        found[name] = partial(Piped, system=system, python=python, served=served(given)["model"])
    return found


def _locomo(given: Namespace) -> None:
    known = data.load(given.dataset)
    asked = data.select(known, names(given.conversations))
    if given.turns is not None:
        asked = [data.first_turns(one, given.turns) for one in asked]
    ids = [one.id for one in asked]
    rivals = _rivals(given)
    every = data.load_annotations(given.annotations, known)
    written = {name: one for name, one in every.items() if name in ids}
    systems = names(given.systems)
    systems += ABLATIONS if given.ablations else ()
    systems += BASELINES if given.baselines else ()
    settings = Settings(
        ks=numbers(given.k),
        concurrency=given.concurrency,
        answer_k=given.answer_k if given.answer else None,
        budgets=numbers(given.budget, "budget") if given.budget else (),
        systems=tuple(systems),
    )
    about = {
        "budgets": list(settings.budgets),
        "systems": [*settings.chosen, *rivals],
        "turns": given.turns,
        "prompts_of_rivals": file_digest(PROMPTS) if rivals else None,
        "conversations": ids,
        "annotations": {name: file_digest(one.file) for name, one in written.items()},
    }
    more = {"annotations": written, "rivals": rivals}
    results, described, embedder = measure(given, settings, asked, about, **more)
    report = build(results, settings.ks, described, embedder=embedder, budgets=settings.budgets)
    beside, figures = [*table.tables(report)], {}
    if beside:
        figures["cost"] = table.figure(report)
        drawn = "\n\n".join(one.latex() for one in beside if one.rows)
        (given.out / "report.tex").write_text(f"{drawn}\n", encoding="utf-8")
    write(given.out, "report", report, [*tables(report), *beside], figures)


# fmt: off
main = command(
    "locomo", __doc__, _locomo, *shared_options("3,5,10,20"),
    option("--answer", action="store_true", help="have a chat model answer the questions (needs --model)"),
    option("--answer-k", type=count, default=10, help="how many of the first hits the model answers from"),
    option("--budget", default="", metavar="TOKENS", help="tokens that recall may fill, such as 600,1100,2100: what evidence is in them and, with --answer, what the model answers from them in place of the first hits"),
    option("--baselines", action="store_true", help="compare with plain rankings of the turns and, for answers, the whole conversation"),
    option("--ablations", action="store_true", help="compare with the memory without links, without evolution, without both, and built by the paper's calls"),
    option("--systems", default="", help=f"what to compare with, separated by commas: {', '.join((*KNOWN[1:], *RIVALS))}"),
    option("--system", action="append", default=[], metavar="FILE.py:CLASS", help="another memory to compare with, see benchmarks/rivals/piped_child.py; may be given several times"),
    option("--python", action="append", default=[], metavar="PYTHON", help="the Python that runs it, of an environment of its own; one for each --system"),
    option("--turns", type=count, help="only so many turns of each conversation, from the first, and the questions whose evidence is in them"),
    option("--annotations", type=Path, action="append", default=[], help="what a language model wrote about a conversation, such as conv-26.annotations.jsonl; may be given several times"),
    option("--conversations", default="", help="ids, separated by commas; all conversations by default"),
)
# fmt: on

if __name__ == "__main__":
    sys.exit(main())
