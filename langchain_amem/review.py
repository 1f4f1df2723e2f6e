"""The step in which a person looks at what evolution proposes, before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from amem_integrations import AgenticMemory, ConfigurationError, MissingExtraError, Note
from amem_integrations.adapting import HELD, Call, both, check_namespace

from .runs import report

try:
    from langgraph.types import interrupt
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

State = Mapping[str, Any]
EDITABLE = {"context": str, "keywords": list, "tags": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Interrupts the graph with what is proposed, and takes the decisions.

    It is a step of its own because `interrupt` runs its step again from the top: no model is asked twice.
    """

    memory: AgenticMemory

    async def _review(self, call: Call, state: State, config: RunnableConfig) -> dict[str, Any]:
        """Return what a person decides about each proposed entry."""
        if not (wanted := _mentioned(state["plan"])):
            return {"decisions": {}}
        _require_checkpointer(config)
        notes = await call(
            self.memory.get_all,
            namespace=check_namespace(state["namespace"]),
            where={"id": {"$in": wanted}},
            limit=len(wanted),
        )
        return _decided(state, notes)

    review, areview = both(_review)


def _require_checkpointer(config: RunnableConfig) -> None:
    # Without one, `interrupt` ends the run quietly and nothing could ever resume it.
    configurable = config.get("configurable", {})
    if configurable.get("__pregel_checkpointer", configurable.get("thread_id")) is None:
        raise ConfigurationError(
            "review=True waits for a person, which needs a checkpointer: compile the outermost graph "
            "with one, and invoke it with a thread_id"
        )


def _proposed(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield what a person is asked about: the note that gave rise to it, its kind, and what is planned.

    Links are made without being asked about, unless the memory holds everything back for a review.
    """
    for note in plan.get("notes", ()):
        for update in note["updates"]:
            yield note["id"], "entry", update
        for supersession in note["supersessions"]:
            yield note["id"], "supersession", supersession
        for link in note["links"]:
            if link["rejected"] is not None:
                yield note["id"], "link", link


def _mentioned(plan: Mapping[str, Any]) -> list[str]:
    """Return the ids of the notes a reviewer has to see."""
    ids = [each for cause, _, planned in _proposed(plan) for each in (cause, planned["target"])]
    return list(dict.fromkeys(ids))


def _decided(state: State, notes: Sequence[Note]) -> dict[str, Any]:
    """Ask until there is an answer that can be used; an unusable one must not reach the commit."""
    contents = {note.id: note.content for note in notes}
    asked = list(_proposed(state["plan"]))
    entries = [_entry(cause, kind, planned, contents) for cause, kind, planned in asked]
    problem = None
    while True:
        answer = interrupt({"kind": "amem.review", "entries": entries, "problem": problem})
        problem = _problem(answer, {entry["id"]: entry["kind"] for entry in entries})
        if problem is None:
            decisions = answer if isinstance(answer, Mapping) else {}
            if answer is False:
                decisions = {planned["id"]: False for _, _, planned in asked}
            if answer is True:  # what was only held back for this question is written
                held = [planned for _, _, planned in asked if planned["rejected"] == HELD]
                decisions = {planned["id"]: True for planned in held}
            report("review", decisions=decisions)
            return {"decisions": decisions}


def _entry(
    cause: str, kind: str, planned: Mapping[str, Any], contents: Mapping[str, str]
) -> dict[str, Any]:
    """Return one proposal as before and after, with the note that gave rise to it."""
    names = EDITABLE if kind == "entry" else ("relation", "reason", "strength")
    adds = {name: planned[name] for name in names if name in planned}
    words = planned["context"] if kind == "entry" else _sentence(kind, planned)
    before = planned.get("before", "")
    return {
        "id": planned["id"],
        "kind": kind,
        "note": {"id": planned["target"], "content": contents.get(planned["target"])},
        "because_of": {"id": cause, "content": contents.get(cause)},
        "before": before,
        "after": f"{before} {words}".strip(),
        "adds": adds,
        "similarity": planned.get("similarity"),
        "stopped_by_gate": None if planned["rejected"] == HELD else planned["rejected"],
    }


def _sentence(kind: str, planned: Mapping[str, Any]) -> str:
    """Return what a link or a supersession says, for a person to read."""
    what = "outdated" if kind == "supersession" else "linked"
    reason = f": {planned['reason']}" if planned["reason"] else ""
    return f"{what} ({planned['relation']}){reason}"


def _problem(answer: object, kinds: Mapping[str, str]) -> str | None:
    """Return what is wrong with an answer, or None."""
    if isinstance(answer, bool):
        return None
    if not isinstance(answer, Mapping):
        return f"{answer!r} is no answer; give True, False, or a dict of entry id to a decision"
    if unknown := sorted(set(map(str, answer)) - set(kinds)):
        return f"there is no entry {', '.join(unknown)}"
    wrong = [entry for entry, decision in answer.items() if not _usable(decision, kinds[entry])]
    fields = ", ".join(f"{name}: {kind.__name__}" for name, kind in EDITABLE.items())
    form = f"True, False, or, for a context entry, a dict with {fields}"
    return f"{', '.join(wrong)}: give {form}" if wrong else None


def _usable(decision: object, kind: str) -> bool:
    if not isinstance(decision, Mapping) or kind != "entry":
        return isinstance(decision, bool)
    return bool(decision) and all(
        name in EDITABLE and isinstance(value, EDITABLE[name]) and value != ""
        for name, value in decision.items()
    )
