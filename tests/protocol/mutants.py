"""Each safeguard of the protocol taken out, by a patch of the source, and a scenario that must break then.

Two have no patch here: the user's decisions take nobody's slot because their ids are random (`flows/edit`), and a
reindex has no writers beside it, for it holds the lock of its folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

JOURNAL = "amem_integrations.journal"
MODULES = (
    JOURNAL,
    "amem_integrations.decisions",
    "amem_integrations.ports",
    "amem_integrations.stored_note",
    "protocol.explorer",
    "protocol.scenarios",
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
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


MUTANTS: Mapping[str, Mutant] = {
    "a tombstone is not kept": Mutant(
        module=f"{JOURNAL}.erasure",
        old="    return await purge(writer, [stored])\n",
        new=(
            "    redacted = await purge(writer, [stored])\n"
            "    await resolve(writer.store.remove_tombstones(writer.namespace, writer.now()))\n"
            "    return redacted\n"
        ),
        breaks="late copy of the add after the delete",
    ),
    "a rev is used again": Mutant(
        module=f"{JOURNAL}.writer",
        old="rev=max(made.rev, tombstone.rev + 1)",
        new="rev=tombstone.rev",
        breaks="same key said again, late answer, kill",
    ),
    "what is deleted while it is added comes back": Mutant(
        module=f"{JOURNAL}.writer",
        old="            if key not in since\n",
        new="",
        breaks="an add, and a delete of what was just added",
    ),
    "a rev falls where a clock is behind": Mutant(
        module=f"{JOURNAL}.erasure",
        old="rev = max(seq, stored.rev + 1)",
        new="rev = seq",
        breaks="two corrections at once",
    ),
    "sources are not looked at": Mutant(
        module=f"{JOURNAL}.commit",
        old="new = redact(decision, fate_of)",
        new="new = decision",
        breaks="late answer and delete, kill",
    ),
    "what was not looked at shows": Mutant(
        module="amem_integrations.decisions",
        old="return not self.void and self.phase != WRITTEN",
        new="return not self.void",
        breaks="late answer, delete, and a writer on the same notes",
    ),
    "tokens of decisions are read after the look": Mutant(
        module=f"{JOURNAL}.commit",
        old="        was_stale = was_stale or is_stale\n",
        new=(
            "        was_stale = was_stale or is_stale\n"
            "        decisions = await writer.decisions(RecordQuery(calls=frozenset([call_id])))\n"
            "        looked = {k: looked.get(k, shown_once(one)) for k, one in decisions.items()}\n"
        ),
        breaks="a part of a commit arrives after its writer died, resume, delete",
    ),
    "a view that stays the same is not written": Mutant(
        module=f"{JOURNAL}.projection",
        old="            if not stored.is_deleted\n",
        new=(
            "            if not stored.is_deleted\n"
            "            and not shows_same(stored, view_of(stored, [d for d in decisions if stored.id in d.about], writer))\n"
        ),
        breaks="late answer and delete, kill, late copy",
    ),
    "tokens of notes are read after the decisions": Mutant(
        module=f"{JOURNAL}.projection",
        old="        views = [\n",
        new="        read = await writer.whole_notes(waiting)\n        views = [\n",
        breaks="another writer projects the same notes, kill",
    ),
    "a view is written blindly": Mutant(
        module=f"{JOURNAL}.projection",
        old="        await writer.swap_notes((read[key], new) for key, new in made.items())\n",
        new=(
            "        held = await writer.notes(made)\n"
            "        await writer.swap_notes((held[k], n) for k, n in made.items() if held[k].rev == n.rev)\n"
        ),
        breaks="another writer projects the same notes, kill",
    ),
    "a view is not read back": Mutant(
        module=f"{JOURNAL}.projection",
        old="        tokens = await writer.brief_notes(made)\n",
        new="        return {}\n",
        breaks="another writer projects the same notes, kill",
    ),
    "a view is finished by its own token only": Mutant(
        module=f"{JOURNAL}.projection",
        old="return stands.token == made.token or shows_same(stands, made)",
        new="return stands.token == made.token",
        breaks="late answer and delete, kill",
    ),
    "a decision has no slot": Mutant(
        module=f"{JOURNAL}.commit",
        old="    await writer.insert_records([call, *decisions])\n",
        new=(
            "    decisions = [replace(one, id=call.id + one.id) for one in decisions]\n"
            "    await writer.insert_records([call, *decisions])\n"
        ),
        breaks="two workers evolve one thread",
    ),
    "the slot of what is void stays taken": Mutant(
        module=f"{JOURNAL}.fold",
        old="one.attempt + _is_spent(one, entry)",
        new="one.attempt",
        breaks="redacted, then made again",
    ),
    "what a delete owes has no rev": Mutant(
        module=f"{JOURNAL}.erasure",
        old="stands.purge.rev > owed.purge.rev or stands.thorough > owed.thorough",
        new="stands.thorough > owed.thorough",
        breaks="add of an id whose delete is open, then deleted again",
    ),
    "that a delete is thorough has no rev": Mutant(
        module=f"{JOURNAL}.erasure",
        old="stands.purge.rev > owed.purge.rev or stands.thorough > owed.thorough",
        new="stands.purge.rev > owed.purge.rev",
        breaks="plain delete, then a thorough one",
    ),
    "decisions are redacted once": Mutant(
        module=f"{JOURNAL}.erasure",
        old="        wrote |= await writer.swap_records(changed)\n",
        new="        wrote |= await writer.swap_records(changed)\n        break\n",
        breaks="undo of what a delete is removing",
    ),
    "decisions are settled blindly": Mutant(
        module=f"{JOURNAL}.commit",
        old="for one in decisions.values() if one.phase == VISIBLE",
        new="for one in (await writer.decisions(RecordQuery(calls=frozenset([call_id])))).values()",
        breaks="a part of a commit arrives after its writer died, resume, delete",
    ),
    "a sweep does not look again": Mutant(
        module=f"{JOURNAL}.erasure",
        old="only_if=lambda stored: _is_expired(stored, time)",
        new="only_if=lambda stored: True",
        breaks="sweep while the user extends the note",
    ),
    "a switch is set blindly": Mutant(
        module=f"{JOURNAL}.history",
        old="(read[key], reopened(",
        new='(__import__("dataclasses").replace(read[key], token="*"), reopened(',
        breaks="undo and redo against delete, kill, late copy",
    ),
    "a decision is closed that somebody else has switched": Mutant(
        module=f"{JOURNAL}.history",
        old="key in stands and stands[key] == wrote[key]",
        new="key in stands",
        breaks="two items of one decision are undone at once, kill",
    ),
    "that a note waits again does not show": Mutant(
        module=f"{JOURNAL}.history",
        old="before.is_off != after.is_off or ",
        new="",
        breaks="one sentence after the other is undone and redone beside a delete, kill",
    ),
    "a switch shows what was not looked at": Mutant(
        module=f"{JOURNAL}.writer",
        old="phase=max(decision.phase, VISIBLE)",
        new="phase=VISIBLE",
        breaks="undo of an answer that nobody looked at, beside a writer",
    ),
    "the holder of a slot is left alone": Mutant(
        module=f"{JOURNAL}.commit",
        old="    for holder in sorted(holders):\n",
        new="    for holder in ():\n",
        breaks="a worker died after its insertion, another does the work, nobody resumes",
    ),
    "an expired note counts as there": Mutant(
        module=f"{JOURNAL}.commit",
        old="stored is None or stored.is_gone(time)",
        new="stored is None or stored.is_deleted",
        breaks="late answer for an expired note that is not swept yet",
    ),
    "notes are cleared once": Mutant(
        module=f"{JOURNAL}.erasure",
        old="    while alive:\n",
        new="    if alive:\n",
        breaks="clear beside another writer on the same notes, kill",
    ),
    "decisions about living notes are cleared": Mutant(
        module=f"{JOURNAL}.erasure",
        old='if one.stage != "form" and alive.isdisjoint(one.about)',
        new='if one.stage != "form"',
        breaks="clear beside an evolving add, kill",
    ),
    "notes are read before the decisions that are cleared": Mutant(
        module=f"{JOURNAL}.erasure",
        old=(
            "    records = (await writer.find_records(RecordQuery())).values()\n"
            "    # Notes are read after the decisions: a note that was there to be decided about is found, unless it went since.\n"
            "    alive = (await writer.find_notes(NoteQuery(alive=True))).keys()\n"
        ),
        new=(
            "    alive = (await writer.find_notes(NoteQuery(alive=True))).keys()\n"
            "    records = (await writer.find_records(RecordQuery())).values()\n"
        ),
        breaks="clear beside an evolving add, kill",
    ),
    "what was added again is not projected": Mutant(
        module=f"{JOURNAL}.erasure",
        old="    touched = {key for key, gone in owed.items() if gone.deleted and not owing[key].is_deleted}\n",
        new="    touched = set()\n",
        breaks="clear beside the same key said again and evolved, kill",
    ),
    "what a call was shown is not looked at": Mutant(
        module=f"{JOURNAL}.commit",
        old="is_void = not calls or any(",
        new="is_void = not calls or False and any(",
        breaks="thorough delete and late answer, kill",
    ),
    "a decision without its call is believed": Mutant(
        module=f"{JOURNAL}.commit",
        old="is_void = not calls or any(",
        new="is_void = any(",
        breaks="a commit of which the call arrives last, resume, thorough delete",
    ),
    "what the user decided is redacted like a model's": Mutant(
        module=f"{JOURNAL}.commit",
        old='if decision.stage == "user":',
        new='if decision.stage == "nobody":',
        breaks="the user supersedes, then corrects the newer note",
    ),
    "what is void forgets its sources": Mutant(
        module="amem_integrations.decisions",
        old="return replace(self, items=(), void=True)",
        new="return replace(self, items=(), void=True, sources=(), about=(self.note,))",
        breaks="late answer and delete, kill",
    ),
    "what is owed is forgotten when an id is added again": Mutant(
        module=f"{JOURNAL}.writer",
        old="purge=tombstone.purge",
        new="purge=None",
        breaks="add of an id whose delete is open, resumed by two",
    ),
    "that a delete was thorough is forgotten when an id is added again": Mutant(
        module=f"{JOURNAL}.writer",
        old="thorough=tombstone.thorough",
        new="thorough=0",
        breaks="thorough delete, same key said again, late answer, kill",
    ),
    "a plain delete forgets that a correction was thorough": Mutant(
        module="amem_integrations.stored_note",
        old="self.rev if thorough else self.thorough",
        new="self.rev if thorough else 0",
        breaks="thorough correction, then a plain delete, and a late answer",
    ),
    "of what was shown a tombstone that was collected counts as there": Mutant(
        module=f"{JOURNAL}.commit",
        old="is_late = any(",
        new="is_late = False and any(",
        breaks="thorough delete, tombstone collected, late answer",
    ),
    "a form that only inferred is left when its notes are cleared": Mutant(
        module=f"{JOURNAL}.erasure",
        old="for one in forms if not one.void",
        new="for one in ()",
        breaks="clear of a form that names no sources",
    ),
    "after a power cut decisions are believed": Mutant(
        module=f"{JOURNAL}.erasure",
        old="    for call_id in sorted(calls):\n        await settle(writer, call_id)\n",
        new="",
        breaks="power cut: commit and delete",
    ),
    "after a power cut views are believed": Mutant(
        module=f"{JOURNAL}.erasure",
        old="    await project(writer, await writer.find_notes(NoteQuery(alive=True)))\n",
        new="",
        breaks="power cut: commit and delete",
    ),
    "what supersedes is bounded like the rest": Mutant(
        module="amem_integrations.ports",
        old="if one.note == note or one.supersedes}",
        new="if one.note == note}",
        breaks="bounded views: the newest sentence goes, kill",
    ),
    "a text that is made of a derived one names the derived one alone": Mutant(
        module="protocol.scenarios",
        old='("G", sources)',
        new='("G", "a")',
        breaks="a form, and another made of it, of a deleted note",
    ),
}
