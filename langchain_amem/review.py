"""The step in which a person looks at what evolution proposes, before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from amem_integrations import AgenticMemory, ConfigurationError, MissingExtraError, Note
from amem_integrations.adapting import Call, both, check_namespace

from .runs import report

try:
    from langgraph.types import interrupt
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

State = Mapping[str, Any]
EDITABLE = {"context": str, "keywords": list, "tags": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Interrupts the graph with the proposed entries, and takes the decisions.

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


def _updates(plan: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for note in plan.get("notes", ()):
        for update in note["updates"]:
            yield note["id"], update


def _mentioned(plan: Mapping[str, Any]) -> list[str]:
    """Return the ids of the notes a reviewer has to see."""
    ids = [note_id for cause, update in _updates(plan) for note_id in (cause, update["target"])]
    return list(dict.fromkeys(ids))


def _decided(state: State, notes: Sequence[Note]) -> dict[str, Any]:
    """Ask until there is an answer that can be used; an unusable one must not reach the commit."""
    contents = {note.id: note.content for note in notes}
    entries = [_entry(cause, update, contents) for cause, update in _updates(state["plan"])]
    ids = [entry["id"] for entry in entries]
    problem = None
    while True:
        answer = interrupt({"kind": "amem.review", "entries": entries, "problem": problem})
        problem = _problem(answer, ids)
        if problem is None:
            decisions = dict.fromkeys(ids, False) if answer is False else answer
            decisions = {} if decisions is True else decisions
            report("review", decisions=decisions)
            return {"decisions": decisions}


def _entry(cause: str, update: Mapping[str, Any], contents: Mapping[str, str]) -> dict[str, Any]:
    """Return one proposal as before and after, with the note that gave rise to it."""
    return {
        "id": update["id"],
        "note": {"id": update["target"], "content": contents.get(update["target"])},
        "because_of": {"id": cause, "content": contents.get(cause)},
        "before": update["before"],
        "after": f"{update['before']} {update['context']}".strip(),
        "adds": {name: update[name] for name in EDITABLE},
        "similarity": update["similarity"],
        "stopped_by_gate": update["rejected"],
    }


def _problem(answer: object, ids: Sequence[str]) -> str | None:
    """Return what is wrong with an answer, or None."""
    if isinstance(answer, bool):
        return None
    if not isinstance(answer, Mapping):
        return f"{answer!r} is no answer; give True, False, or a dict of entry id to a decision"
    if unknown := sorted(set(map(str, answer)) - set(ids)):
        return f"there is no entry {', '.join(unknown)}"
    wrong = [entry for entry, decision in answer.items() if not _usable(decision)]
    kinds = ", ".join(f"{name}: {kind.__name__}" for name, kind in EDITABLE.items())
    return f"{', '.join(wrong)}: give True, False, or a dict with {kinds}" if wrong else None


def _usable(decision: object) -> bool:
    if not isinstance(decision, Mapping):
        return isinstance(decision, bool)
    return bool(decision) and all(
        name in EDITABLE and isinstance(value, EDITABLE[name]) and value != ""
        for name, value in decision.items()
    )
