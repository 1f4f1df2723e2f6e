"""Each safeguard of the protocol taken out, by a patch of the source, and a scenario that must break then.

Two have no patch here: the user's decisions take nobody's slot because their ids are random (`flows/edit`), and a
reindex has no writers beside it, for it holds the lock of its folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import NamedTuple

JOURNAL = "amem_integrations.journal"
MODULES = (
    JOURNAL,
    "amem_integrations.decisions",
    "amem_integrations.ports",
    "amem_integrations.stored_note",
    "protocol.explorer",
    "protocol.scenarios",
)


class Mutant(NamedTuple):
    """A safeguard that is taken out.

    Attributes:
        module: Which module is patched.
        old: Source that stands there exactly once.
        new: What stands there instead.
        breaks: The scenario that must break.
    """

    module: str
    old: str
    new: str
    breaks: str


@contextmanager
def patched(mutant: Mutant) -> Iterator[ModuleType]:
    """Yield the module of scenarios over a journal in which a safeguard is taken out.

    Raises:
        LookupError: The source to patch does not stand there exactly once.
    """
    held = {name: module for name, module in sys.modules.items() if name.startswith(MODULES)}
    for name in held:
        del sys.modules[name]
    try:
        spec = find_spec(mutant.module)
        assert spec is not None
        assert spec.loader is not None
        source = spec.loader.get_source(mutant.module)  # type: ignore[attr-defined]
        if (count := source.count(mutant.old)) != 1:
            raise LookupError(f"{mutant.old!r} stands {count} times in {mutant.module}")
        module = module_from_spec(spec)
        sys.modules[mutant.module] = module
        exec(
            compile(source.replace(mutant.old, mutant.new), str(spec.origin), "exec"),
            module.__dict__,
        )
        yield import_module("protocol.scenarios")
    finally:
        for name in [name for name in sys.modules if name.startswith(MODULES)]:
            del sys.modules[name]
        sys.modules.update(held)
        for name, module in held.items():  # an import of a module also sets it at its package
            package, _, own = name.rpartition(".")
            if package:
                setattr(sys.modules[package], own, module)


# By module and name: source that stands there exactly once, what stands there instead, and the scenario that must break.
BY_MODULE: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    f"{JOURNAL}.erasure": {
        "a tombstone is not kept": (
            "    return await purge(writer, [stored])\n",
            (
                "    redacted = await purge(writer, [stored])\n"
                "    await resolve(writer.store.remove_tombstones(writer.namespace, writer.now()))\n"
                "    return redacted\n"
            ),
            "late copy of the add after the delete",
        ),
        "a rev falls where a clock is behind": (
            "rev = max(seq, stored.rev + 1)",
            "rev = seq",
            "two corrections at once",
        ),
        "what a delete owes has no rev": (
            "stands.purge.rev > owed.purge.rev or stands.thorough > owed.thorough",
            "stands.thorough > owed.thorough",
            "add of an id whose delete is open, then deleted again",
        ),
        "that a delete is thorough has no rev": (
            "stands.purge.rev > owed.purge.rev or stands.thorough > owed.thorough",
            "stands.purge.rev > owed.purge.rev",
            "plain delete, then a thorough one",
        ),
        "decisions are redacted once": (
            "        wrote |= await writer.swap_records(changed)\n",
            "        wrote |= await writer.swap_records(changed)\n        break\n",
            "undo of what a delete is removing",
        ),
        "a sweep does not look again": (
            "only_if=lambda stored: _is_expired(stored, time)",
            "only_if=lambda stored: True",
            "sweep while the user extends the note",
        ),
        "notes are cleared once": (
            "    while alive:\n",
            "    if alive:\n",
            "clear beside another writer on the same notes, kill",
        ),
        "decisions about living notes are cleared": (
            'if one.stage != "form" and alive.isdisjoint(one.about)',
            'if one.stage != "form"',
            "clear beside an evolving add, kill",
        ),
        "notes are read before the decisions that are cleared": (
            (
                "    records = (await writer.find_records(RecordQuery())).values()\n"
                "    # Notes are read after the decisions: a note that was there to be decided about is found, unless it went since.\n"
                "    alive = (await writer.find_notes(NoteQuery(alive=True))).keys()\n"
            ),
            (
                "    alive = (await writer.find_notes(NoteQuery(alive=True))).keys()\n"
                "    records = (await writer.find_records(RecordQuery())).values()\n"
            ),
            "clear beside an evolving add, kill",
        ),
        "what was added again is not projected": (
            "    touched = {key for key, gone in owed.items() if gone.deleted and not owing[key].is_deleted}\n",
            "    touched = set()\n",
            "clear beside the same key said again and evolved, kill",
        ),
        "a form that only inferred is left when its notes are cleared": (
            "for one in forms if not one.void",
            "for one in ()",
            "clear of a form that names no sources",
        ),
        "after a power cut decisions are believed": (
            "    for call_id in sorted(calls):\n        await settle(writer, call_id)\n",
            "",
            "power cut: commit and delete",
        ),
        "after a power cut views are believed": (
            "    await project(writer, await writer.find_notes(NoteQuery(alive=True)))\n",
            "",
            "power cut: commit and delete",
        ),
    },
    f"{JOURNAL}.writer": {
        "a rev is used again": (
            "rev=max(made.rev, tombstone.rev + 1)",
            "rev=tombstone.rev",
            "same key said again, late answer, kill",
        ),
        "what is deleted while it is added comes back": (
            "            if key not in since\n",
            "",
            "an add, and a delete of what was just added",
        ),
        "a switch shows what was not looked at": (
            "phase=max(decision.phase, VISIBLE)",
            "phase=VISIBLE",
            "undo of an answer that nobody looked at, beside a writer",
        ),
        "what is owed is forgotten when an id is added again": (
            "purge=tombstone.purge",
            "purge=None",
            "add of an id whose delete is open, resumed by two",
        ),
        "that a delete was thorough is forgotten when an id is added again": (
            "thorough=tombstone.thorough",
            "thorough=0",
            "thorough delete, same key said again, late answer, kill",
        ),
    },
    f"{JOURNAL}.commit": {
        "sources are not looked at": (
            "new = redact(decision, fate_of)",
            "new = decision",
            "late answer and delete, kill",
        ),
        "tokens of decisions are read after the look": (
            "        was_stale = was_stale or is_stale\n",
            (
                "        was_stale = was_stale or is_stale\n"
                "        decisions = await writer.decisions(RecordQuery(calls=frozenset([call_id])))\n"
                "        looked = {k: looked.get(k, shown_once(one)) for k, one in decisions.items()}\n"
            ),
            "a part of a commit arrives after its writer died, resume, delete",
        ),
        "a decision has no slot": (
            "    await writer.insert_records([call, *decisions])\n",
            (
                "    decisions = [replace(one, id=call.id + one.id) for one in decisions]\n"
                "    await writer.insert_records([call, *decisions])\n"
            ),
            "two workers evolve one thread",
        ),
        "decisions are settled blindly": (
            "for one in decisions.values() if one.phase == VISIBLE",
            "for one in (await writer.decisions(RecordQuery(calls=frozenset([call_id])))).values()",
            "a part of a commit arrives after its writer died, resume, delete",
        ),
        "the holder of a slot is left alone": (
            "    for holder in sorted(holders):\n",
            "    for holder in ():\n",
            "a worker died after its insertion, another does the work, nobody resumes",
        ),
        "an expired note counts as there": (
            "stored is None or stored.is_gone(time)",
            "stored is None or stored.is_deleted",
            "late answer for an expired note that is not swept yet",
        ),
        "what a call was shown is not looked at": (
            "is_void = not calls or any(",
            "is_void = not calls or False and any(",
            "thorough delete and late answer, kill",
        ),
        "a decision without its call is believed": (
            "is_void = not calls or any(",
            "is_void = any(",
            "a commit of which the call arrives last, resume, thorough delete",
        ),
        "what the user decided is redacted like a model's": (
            'if decision.stage == "user":',
            'if decision.stage == "nobody":',
            "the user supersedes, then corrects the newer note",
        ),
        "of what was shown a tombstone that was collected counts as there": (
            "is_late = any(",
            "is_late = False and any(",
            "thorough delete, tombstone collected, late answer",
        ),
    },
    "amem_integrations.decisions": {
        "what was not looked at shows": (
            "return not self.void and self.phase != WRITTEN",
            "return not self.void",
            "late answer, delete, and a writer on the same notes",
        ),
        "what is void forgets its sources": (
            "return replace(self, items=(), void=True)",
            "return replace(self, items=(), void=True, sources=(), about=(self.note,))",
            "late answer and delete, kill",
        ),
    },
    f"{JOURNAL}.projection": {
        "a view that stays the same is not written": (
            "            if not stored.is_deleted\n",
            (
                "            if not stored.is_deleted\n"
                "            and not shows_same(stored, view_of(stored, [d for d in decisions if stored.id in d.about], writer))\n"
            ),
            "late answer and delete, kill, late copy",
        ),
        "tokens of notes are read after the decisions": (
            "        views = [\n",
            "        read = await writer.whole_notes(waiting)\n        views = [\n",
            "another writer projects the same notes, kill",
        ),
        "a view is written blindly": (
            "        await writer.swap_notes((read[key], new) for key, new in made.items())\n",
            (
                "        held = await writer.notes(made)\n"
                "        await writer.swap_notes((held[k], n) for k, n in made.items() if held[k].rev == n.rev)\n"
            ),
            "another writer projects the same notes, kill",
        ),
        "a view is not read back": (
            "        tokens = await writer.brief_notes(made)\n",
            "        return {}\n",
            "another writer projects the same notes, kill",
        ),
        "a view is finished by its own token only": (
            "return stands.token == made.token or shows_same(stands, made)",
            "return stands.token == made.token",
            "late answer and delete, kill",
        ),
    },
    f"{JOURNAL}.fold": {
        "the slot of what is void stays taken": (
            "one.attempt + _is_spent(one, entry)",
            "one.attempt",
            "redacted, then made again",
        ),
    },
    f"{JOURNAL}.history": {
        "a switch is set blindly": (
            "(read[key], reopened(",
            '(__import__("dataclasses").replace(read[key], token="*"), reopened(',
            "undo and redo against delete, kill, late copy",
        ),
        "a decision is closed that somebody else has switched": (
            "key in stands and stands[key] == wrote[key]",
            "key in stands",
            "two items of one decision are undone at once, kill",
        ),
        "that a note waits again does not show": (
            "before.is_off != after.is_off or ",
            "",
            "one sentence after the other is undone and redone beside a delete, kill",
        ),
    },
    "amem_integrations.stored_note": {
        "a plain delete forgets that a correction was thorough": (
            "self.rev if thorough else self.thorough",
            "self.rev if thorough else 0",
            "thorough correction, then a plain delete, and a late answer",
        ),
    },
    "amem_integrations.ports": {
        "what supersedes is bounded like the rest": (
            "if one.note == note or one.supersedes}",
            "if one.note == note}",
            "bounded views: the newest sentence goes, kill",
        ),
    },
    "protocol.scenarios": {
        "a text that is made of a derived one names the derived one alone": (
            '("G", sources)',
            '("G", "a")',
            "a form, and another made of it, of a deleted note",
        ),
    },
}
MUTANTS = {
    name: Mutant(module, *patch)
    for module, patches in BY_MODULE.items()
    for name, patch in patches.items()
}
