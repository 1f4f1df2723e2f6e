"""Pure: what a plan did when it was committed before, as a commit reports only what it changes itself.

A run that is killed between the commit and its checkpoint commits the same plan again when it is resumed;
its report should say what the run did all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from amem_integrations import EvolutionReport, Note

PlanData = Mapping[str, Any]


def touched(plan: PlanData) -> list[str]:
    """Return the ids of all notes that a plan may change."""
    ids = [note["id"] for note in plan["notes"]]
    ids += [item["target"] for note in plan["notes"] for item in (*note["links"], *note["updates"])]
    return list(dict.fromkeys(ids))


def was_before(plan: PlanData, report: EvolutionReport) -> bool:
    """Return whether a commit changed nothing although its plan would have."""
    planned = any(note["links"] or note["updates"] for note in plan["notes"])
    return planned and not (report.links or report.evolved or report.proposals)


def report(now: EvolutionReport, plan: PlanData, notes: Sequence[Note]) -> EvolutionReport:
    """Return the report with the links and updates of the plan that the notes show."""
    known = {note.id: note for note in notes}
    entries = {entry.change for note in notes for entry in note.contexts}
    links = [
        (note["id"], link["target"])
        for note in plan["notes"]
        for link in note["links"]
        if note["id"] in known and link["target"] in known[note["id"]].links
    ]
    evolved = [
        update["target"]
        for note in plan["notes"]
        for update in note["updates"]
        if update["id"] in entries
    ]
    return replace(now, links=len(links), evolved=tuple(dict.fromkeys(evolved)))
