"""What is tried of the protocol of writes: who writes at the same time, what goes wrong, and what must hold then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from protocol.explorer import NAMESPACE, NOW, Collections, Exploration, Faults, Process, Request
from protocol.explorer import writer as writer_of

from amem_integrations.decisions import Call, Decision, Item, slot_id
from amem_integrations.journal.commit import commit, stored_decisions
from amem_integrations.journal.erasure import clear, forget, resume, resume_after_power_cut, sweep
from amem_integrations.journal.fold import fold, shows_same
from amem_integrations.journal.history import toggle
from amem_integrations.journal.projection import project
from amem_integrations.journal.writer import Writer, edit, insert, restore
from amem_integrations.notes import Note, Wording
from amem_integrations.ports import RecordQuery
from amem_integrations.runtime import resolve
from amem_integrations.stored_note import StoredNote

SECRET = "SECRET"
NOT_SETTLED = "not settled"
LATER = 50  # the seq of what is added after the first notes
SEQS = {"a": 1, "b": 2, "c": 3, "d": 4}  # also the revs of the first wordings
Told = Mapping[str, Any]
Check = Callable[[Collections, Told], str | None]


# --- what writers do -------------------------------------------------------------------------------------------------


def note(note_id: str, content: str, seq: int) -> Note:
    return Note(id=note_id, seq=seq, namespace=NAMESPACE, content=content, recorded_at=NOW)


def say(note_id: str, content: str, seq: int | None = None) -> Process:
    """Return what adds a note; it returns `added` if the note says that now."""

    async def process(writer: Writer) -> str:
        stored = await insert(writer, [note(note_id, content, seq or SEQS.get(note_id, LATER))])
        held = stored[note_id].note
        return "added" if held and held.content == content else "there"

    return process


def bring(note_id: str, content: str, text: str, of: str = "") -> Process:
    """Return what imports a note, and an entry that was made of it and of other notes."""

    async def process(writer: Writer) -> str:
        seq = SEQS.get(note_id, LATER)
        wanted = StoredNote(
            id=note_id,
            namespace=NAMESPACE,
            token=writer.new_token(),
            rev=seq,
            note=note(note_id, content, seq),
        )
        stands = await restore(writer, [wanted], await writer.notes([note_id]))
        held = stands.get(note_id)
        if held is None or held.note is None or held.note.content != content:
            return "there"
        revs, shown = {note_id: held.rev}, note_id + of
        made = decide("i1", note_id, ("entry", note_id, text), shown=shown, revs=revs)
        await commit(writer, call_of("i1", shown, revs), [made])
        return "imported"

    return process


def delete(note_id: str, *, thorough: bool = False) -> Process:
    async def process(writer: Writer) -> str:
        await forget(writer, note_id, thorough=thorough)
        return "deleted"

    return process


def delete_what_is_there(note_id: str) -> Process:
    """Return what deletes a note if it finds the note."""

    async def process(writer: Writer) -> str:
        stored = await writer.note(note_id)
        if stored is None or stored.is_deleted:
            return ""
        await forget(writer, note_id)
        return "deleted"

    return process


def correct(note_id: str, content: str, *, thorough: bool = False) -> Process:
    async def process(writer: Writer) -> str | None:
        change = lambda held: replace(held, content=content)  # noqa: E731
        done = await forget(writer, note_id, change, thorough=thorough)
        return "corrected" if done is not None else None

    return process


def entry(text: str, attempt: int = 0, sources: str = "") -> tuple[Any, ...]:
    """Return what makes a decision of stage construct: the text, and the ids whose texts are in it."""
    return ("entry", text, attempt, sources)


def decide(
    call: str,
    note_id: str,
    *items: tuple[str, str, str],
    shown: str,
    rev: int | None = None,
    attempt: int = 0,
    revs: Mapping[str, int] | None = None,
    sources: str | None = None,
) -> Decision:
    """Return what a call decided about a note: items are (kind, to, text)."""
    known = {**SEQS, **(revs or {})}
    at = tuple(Wording(one, known[one]) for one in sorted(shown if sources is None else sources))
    stage = {"entry": "construct", "form": "form"}.get(items[0][0], "link")
    by = "model"
    if call.startswith("user"):
        stage, by = "user", "user"
    made = tuple(
        Item(kind=kind, to=to, by=by, text=text, number=number, sources=at)
        for number, (kind, to, text) in enumerate(items)
    )
    rev = known.get(note_id, 0) if rev is None else rev
    return Decision(
        id=f"{call}!" if stage == "user" else slot_id(note_id, stage, rev, attempt),
        token=call,
        namespace=NAMESPACE,
        call=call,
        note=note_id,
        rev=rev,
        stage=stage,
        seq=100,
        at=NOW,
        attempt=attempt,
        items=made,
    )


def call_of(name: str, shown: str, revs: Mapping[str, int] | None = None) -> Call:
    known = {**SEQS, **(revs or {})}
    seen = tuple(Wording(one, known[one]) for one in sorted(shown))
    return Call(id=name, token=name, namespace=NAMESPACE, by="model", seq=100, shown=seen)


def answer(
    name: str, shown: str, *decisions: Decision, revs: Mapping[str, int] | None = None
) -> Process:
    """Return what commits the decisions of a call."""

    async def process(writer: Writer) -> str:
        return await told_of(writer, call_of(name, shown, revs), decisions)

    return process


async def told_of(writer: Writer, call: Call, decisions: Sequence[Decision]) -> str:
    """Commit, and return what the writer is told: `made` if some of what it decided stands, and all of that as it was."""
    given = {one.id: one.items for one in decisions}
    stands = (await commit(writer, call, decisions)).decisions
    is_made = stands and all(one.items == given.get(key) for key, one in stands.items())
    return "made" if is_made else "stale"


def linking(name: str, note_id: str, other: str, text: str = "") -> Process:
    """Return the work on a note that is linked to an earlier one."""
    both = other + note_id
    return answer(
        name, both,
        decide(name, note_id, ("entry", note_id, text or note_id), shown=note_id),
        decide(name, note_id, ("link", other, note_id + other), shown=both),
    )  # fmt: skip


def switch(decision_id: str, number: int, state: str) -> Process:
    async def process(writer: Writer) -> str:
        read = await stored_decisions(writer, [decision_id])
        done = await toggle(writer, {(decision_id, number): state}, read)  # type: ignore[dict-item]
        return "toggled" if done else "gone"

    return process


def turn_on(note_id: str, number: int = 0) -> Process:
    """Return what switches on an item that a link call decided about a note."""
    return switch(link_slot(note_id), number, "on")


def turn_off(note_id: str, number: int = 0) -> Process:
    return switch(link_slot(note_id), number, "off")


def sweeping(writer: Writer) -> Any:
    return sweep(writer, NOW)


def clearing(writer: Writer) -> Any:
    return clear(writer)


async def collecting(writer: Writer) -> None:
    await resolve(writer.store.remove_tombstones(NAMESPACE, NOW))  # type: ignore[misc]


def extend(note_id: str) -> Process:
    async def process(writer: Writer) -> str:
        later = NOW + timedelta(days=9)
        done = await edit(writer, note_id, lambda held: replace(held, expires_at=later))
        return "extended" if done else "gone"

    return process


def then(*processes: Process) -> Process:
    async def process(writer: Writer) -> Any:
        told = None
        for one in processes:
            told = await one(writer)
        return told

    return process


def again(name: str, note_id: str, *, links: bool = False) -> Process:
    """Return what constructs a note once more, as it is now, at its next attempt."""

    async def process(writer: Writer) -> str:
        stored = await writer.note(note_id)
        assert stored is not None
        revs = {note_id: stored.rev}
        shown = f"{note_id}a" if links else note_id
        made = [
            decide(
                name, note_id, ("entry", note_id, f"{note_id} again"), shown=note_id, rev=stored.rev,
                attempt=stored.note.next_attempts.construct, revs=revs,
            )
        ]  # fmt: skip
        if links:
            attempt = stored.note.next_attempts.link
            item = ("link", "a", "anew")
            made.append(
                decide(name, note_id, item, shown=shown, rev=stored.rev, attempt=attempt, revs=revs)
            )
        return await told_of(writer, call_of(name, shown, revs), made)

    return process


# --- how it begins ---------------------------------------------------------------------------------------------------


def construct_slot(note_id: str, attempt: int = 0) -> str:
    return slot_id(note_id, "construct", SEQS[note_id], attempt)


def link_slot(note_id: str) -> str:
    return slot_id(note_id, "link", SEQS[note_id], 0)


def begin(said: str = f"b {SECRET}", *, expired: str = "", inferred: bool = False) -> Collections:
    """Return four notes, of which `a`, `b` and `c` are constructed and linked; what is said of `b` is the secret.

    With `inferred` nothing but links of `b` names `b` among its sources, though the calls were shown `b`.
    """
    collections = Collections()
    for one in "abcd":
        collections.run(f"s{one}", say(one, said if one == "b" else one))
    secret = SECRET if SECRET in said else "x"
    of = (lambda ids: ids.replace("b", "")) if inferred else (lambda ids: ids)
    collections.run(
        "o1",
        answer(
            "o1", "ab",
            decide("o1", "a", ("entry", "a", f"a {secret}"), shown="ab", sources=of("ab")),
            decide("o1", "b", ("entry", "b", f"b {secret}"), shown="ab", sources="b"),
            decide("o1", "b", ("link", "a", secret), shown="ab", sources="ab"),
        ),
    )  # fmt: skip
    collections.run("o2", linking("o2", "c", "a"))
    for one in expired:
        past = NOW - timedelta(hours=1)
        change = lambda held, past=past: replace(held, expires_at=past)  # noqa: E731
        collections.run(f"e{one}", lambda w, one=one, change=change: edit(w, one, change))
    return collections


def half_deleted(requests: int = 3, *, thorough: bool = False) -> Collections:
    """Return a memory in which a delete of `b` died after some requests."""
    collections = begin(inferred=thorough)
    collections.run("f", delete("b", thorough=thorough), requests)
    return collections


def deleted() -> Collections:
    collections = begin()
    collections.run("f", delete("b"))
    return collections


def formed(name: str, sources: str | None = None) -> Process:
    """Return the process that writes a form made of `a` and `b`, or of these sources."""
    made = decide(name, name, ("form", name, SECRET), shown="ab", rev=0, sources=sources)
    return answer(name, "ab", made)


def with_forms(sources: str = "ab") -> Collections:
    """Return a memory with a form that was made of `b`, and another that was made of the first."""
    collections = begin()
    # Sources are flat: what is made of a derived text names the sources of that one.
    for name, of in (("F", sources), ("G", sources)):
        collections.run(name, formed(name, of))
    return collections


def died_committing() -> Collections:
    """Return a memory in which a worker died after it had inserted its decisions about `d`."""
    collections = begin("b")
    collections.run("w1", linking("w1", "d", "a", "one"), 1)
    return collections


def died_late() -> Collections:
    """Return a memory in which a late answer was inserted after the delete, and its writer died."""
    collections = deleted()
    collections.run("o3", late(), 1)
    return collections


# --- who writes ------------------------------------------------------------------------------------------------------

LATE_ITEMS = (("link", "b", SECRET), ("sentence", "c", f"c {SECRET}"))


def late() -> Process:
    """Return the answer of a call that was shown the secret."""
    return answer(
        "o3", "bcd",
        decide("o3", "d", ("entry", "d", f"d {SECRET}"), shown="bd"),
        decide("o3", "d", *LATE_ITEMS, shown="bcd"),
    )  # fmt: skip


def inferred() -> Process:
    """Return the answer of a call that was shown the secret, whose texts do not name `b` among their sources."""
    link, added = (
        decide("o3", "d", item, shown="bcd", sources=of)
        for item, of in zip(LATE_ITEMS, ("bd", "cd"), strict=True)
    )
    items = (*link.items, replace(added.items[0], number=1))
    return answer(
        "o3", "bcd",
        decide("o3", "d", ("entry", "d", f"d {SECRET}"), shown="d"),
        replace(link, items=items, about=(), sources=()),
    )  # fmt: skip


def about_the_next(text: str) -> Process:
    """Return the answer of a call that was shown `b` as `b` was said again."""
    revs = {"b": LATER}
    entry = decide("o7", "d", ("entry", "d", text), shown="bd", revs=revs)
    return answer("o7", "bd", entry, revs=revs)


def fresh() -> Process:
    """Return the work of another worker on `d`, who was not shown the secret."""
    return linking("o4", "d", "a")


def bounded(process: Process) -> Process:
    """Return a process that reads one decision about a note beside the note's own and those that supersede."""
    return lambda writer: process(replace(writer, most_others=1))


def begin_bounded() -> Collections:
    """Return what `begin` does, with views of bounded decisions."""
    collections = begin()
    collections.run("p", bounded(lambda writer: project(writer, "abcd")))
    return collections


def with_two(kind: str) -> Collections:
    """Return a memory in which one decision links `d` to `a` and to `c`, or adds a sentence to each."""
    collections = begin()
    items = (kind, "a", "da"), (kind, "c", "dc")
    collections.run("o4", answer("o4", "acd", decide("o4", "d", *items, shown="acd")))
    return collections


def with_sentences() -> Collections:
    """Return a memory in which `c` has a sentence of `a`, and a newer one that was made of the secret."""
    collections = begin_bounded()
    collections.run("s5", bounded(sentence()))
    collections.run("s3", bounded(late()))
    return collections


def sentence(name: str = "o5", of: str = "a") -> Process:
    """Return a writer who adds a sentence to `c`."""
    return answer(
        name, f"c{of}", decide(name, of, ("sentence", "c", "c new"), shown=f"c{of}", attempt=7)
    )


def evolved(note_id: str, shown: str = "") -> Process:
    """Return the work on a note that was just added, as it stands."""

    async def process(writer: Writer) -> str:
        stored = await writer.notes([note_id, *shown])
        revs = {key: one.rev for key, one in stored.items() if not one.is_deleted}
        if note_id not in revs:
            return "gone"
        made = [
            decide("e1", note_id, ("entry", note_id, f"{note_id} entry"), shown=note_id, revs=revs)
        ]
        for other in sorted(revs.keys() - {note_id}):
            item = ("link", other, f"{note_id} {other}")
            made.append(decide("e1", note_id, item, shown=note_id + other, revs=revs))
        known = "".join(sorted(revs))
        return await told_of(writer, call_of("e1", known, revs), made)

    return process


def work(name: str, text: str) -> Process:
    return answer(
        name, "cd",
        decide(name, "d", ("entry", "d", text), shown="d"),
        decide(name, "d", ("sentence", "c", f"c by d, {text}"), shown="cd"),
    )  # fmt: skip


def supersede(name: str, newer: str, older: str) -> Process:
    shown = newer + older
    item = ("supersession", older, "says the user")
    return answer(name, shown, decide(name, newer, item, shown=shown))


# --- what must hold --------------------------------------------------------------------------------------------------


def secret_in(points: Mapping[str, Any]) -> list[str]:
    return [key for key, point in points.items() if SECRET in repr(point)]


def checked(more: Check | None = None, *, newest: int | None = None) -> Check:
    """Return what checks, when all has ended and was resumed, that the statements of the design hold."""

    def after(collections: Collections, told: Told) -> str | None:
        notes, records = collections.notes, collections.records
        b = notes.get("b")
        is_forgotten = b is None or b.note is None or SECRET not in b.note.content
        if is_forgotten:
            left = {**notes, **records}
            if b is not None:  # a correction keeps the note's own earlier wordings
                left["b"] = replace(b, earlier=())
            if found := secret_in(left):
                return f"deleted text stands in {' '.join(found)}"
        decisions = [one for one in records.values() if isinstance(one, Decision)]
        for stored in notes.values():
            about = RecordQuery(about=frozenset([stored.id]), newest=newest).of(decisions)
            if problem := _view_problem(stored, about):
                return problem
        if told.get("delete") and b is not None and b.note and SECRET in b.note.content:
            return "a delete that returned did nothing"
        if more and (problem := more(collections, told)):
            return problem
        unsettled = [one.id for one in decisions if one.phase]
        return f"{NOT_SETTLED}: {unsettled}" if unsettled else None

    return after


def _view_problem(stored: StoredNote, decisions: list[Decision]) -> str | None:
    if stored.purge is not None:
        return f"{stored.id} still owes"
    if stored.note is None:
        return None
    made = fold(stored, decisions)
    if not shows_same(stored, made):
        return f"the view of {stored.id} is not what its decisions say: {stored} / {made}"
    if sum(context.cause == stored.id for context in stored.note.contexts) > 1:
        return f"{stored.id} has two entries"
    return None


def unseen(*names: str) -> Check:
    """Return what checks that no view shows the secret once one of these processes has returned."""

    def always(collections: Collections, told: Told) -> str | None:
        if any(told.get(name) for name in names):
            shown = [replace(one, earlier=()) for one in collections.notes.values()]
            if SECRET in repr(shown):
                return "a search shows deleted text after the delete has returned"
        return None

    return always


def must(problem: str, holds: Callable[[Collections, Told], bool]) -> Check:
    """Return what checks that something holds, and tells the problem where that does not."""
    return lambda collections, told: None if holds(collections, told) else problem


def contexts(collections: Collections, note_id: str) -> list[str]:
    stored = collections.notes[note_id]
    return [context.text for context in stored.note.contexts] if stored.note else []


def is_pending(collections: Collections, note_id: str) -> bool:
    stored = collections.notes[note_id]
    return stored.note is not None and stored.note.state == "pending"


def linked(collections: Collections, one: str, other: str) -> bool:
    stored = collections.notes[one]
    return stored.note is not None and other in stored.note.links


def outdated(collections: Collections, note_id: str) -> bool:
    stored = collections.notes[note_id]
    return stored.note is not None and bool(stored.note.supersessions)


def content(collections: Collections, note_id: str) -> str | None:
    stored = collections.notes.get(note_id)
    return stored.note.content if stored and stored.note else None


never_seen = must("a search shows deleted text", lambda held, _: not secret_in(held.notes))


def made(name: str, note_id: str) -> Check:
    return must(
        f"{name} was told that its entry for {note_id} is made; the note is pending",
        lambda held, told: told.get(name) != "made" or not is_pending(held, note_id),
    )


def says(note_id: str, text: str, name: str | None = None) -> Check:
    """Return what checks that a note says something, if the process that said it was told so."""
    return must(
        f"{note_id}, which was added again, is gone",
        lambda held, told: (
            (name is not None and told.get(name) != "added") or content(held, note_id) == text
        ),
    )


def _keeps(held: Collections, _told: Told) -> bool:
    note = held.notes["c"].note
    return note is None or "ca" in [link.reason for link in note.links.values()]


kept = must("what was made without the deleted note went too", _keeps)


def _has_no_stale_answer(held: Collections, _told: Told) -> bool:
    shown = [one.note.contexts for one in held.notes.values() if one.note]
    return content(held, "b") != "b anew" or SECRET not in repr(shown)


no_stale_answer = must("an answer made from the deleted text stands", _has_no_stale_answer)


def imported(note_id: str, text: str) -> Check:
    """Return what checks that a note which was imported has its entry."""
    return must(
        "an import did nothing",
        lambda held, told: told.get("I") != "imported" or text in contexts(held, note_id),
    )


def lost(text: str) -> Check:
    """Return what checks that the sentence of `W2` shows on `c`, if `W2` was told so."""
    return must(
        "a sentence that was made is lost",
        lambda held, told: told.get("W2") != "made" or text in contexts(held, "c"),
    )


remade = must("c is not made anew", lambda held, _: contexts(held, "c")[:1] == ["c again"])
redone = must(
    "the redo does not show",
    lambda held, told: not told.get("U") or contexts(held, "c")[:1] == ["c"],
)
link_redone = must(
    "the redo is lost", lambda held, told: told.get("U") != "toggled" or linked(held, "c", "a")
)
extended = must(
    "swept what was extended",
    lambda held, told: told.get("U") != "extended" or not held.notes["b"].is_deleted,
)
still_outdated = must(
    "c counts as current again", lambda held, told: not told.get("U") or outdated(held, "c")
)
slot_is_free = must("a stays pending: its slot is taken", lambda held, _: not is_pending(held, "a"))
has_links = must("the links of b are lost", lambda held, _: linked(held, "b", "a"))
not_paid_again = must(
    "d stays pending, and is paid again and again", lambda held, _: not is_pending(held, "d")
)
no_expired_answer = must(
    "an answer made from an expired note stands",
    lambda held, _: not any(SECRET in text for text in contexts(held, "d")),
)
both_hold = must(
    "the user's supersession or the model's link is lost",
    lambda held, told: (
        (told.get("U") != "made" or outdated(held, "c"))
        and (told.get("W") != "made" or linked(held, "d", "a"))
    ),
)


# --- the scenarios ---------------------------------------------------------------------------------------------------


NO_FAULTS = Faults()
ONE_KILL = Faults(kills=1)
KILL_AND_COPY = Faults(kills=1, copies=1)
KILL_AND_PART = Faults(kills=1, partial=1)
POWER_CUT = Faults(power=1)
WITH_FAULTS = {
    "kill": ONE_KILL,
    "kill, late copy": KILL_AND_COPY,
    "in part over shards, kill": KILL_AND_PART,
}
Scenario = Callable[[], Exploration]
peaceful, by_inference = partial(begin, "b"), partial(begin, inferred=True)


def explore(
    start: Callable[[], Collections],
    faults: Faults = NO_FAULTS,
    *,
    also: Check | None = None,
    always: Check | None = None,
    resume: Process | None = resume,
    after: Check | None = None,
    **writers: Process,
) -> Scenario:
    """Return the scenario of writers who begin with what `start` returns.

    No view shows the secret once a writer has returned whose name has `delete` in it.
    """
    deleting = [name for name in writers if "delete" in name]
    given: dict[str, Any] = {"resume": resume, "resume_power": resume_after_power_cut}
    given |= {"after": after or checked(also)}
    given |= {"always": always or unseen(*deleting)} if always or deleting else {}
    return lambda: Exploration(start(), writers, faults=faults, **given)


def decided_once(collections: Collections, told: Told) -> str | None:
    if sum("c by d" in text for text in contexts(collections, "c")) > 1:
        return "c has two sentences because of d"
    if "made" in told.values() and is_pending(collections, "d"):
        return "nothing is made"
    return None


def corrected_twice(collections: Collections, told: Told) -> str | None:
    stored = collections.notes["b"]
    if told.get("C1") == told.get("C2") == "corrected" and len(stored.earlier) != 2:
        return "a correction is lost"
    revs = [*(one.rev for one in stored.earlier), stored.rev]
    return None if revs == sorted(set(revs)) else f"the rev falls: {revs}"


def cleared(collections: Collections, told: Told) -> str | None:
    """Check that what was there before `clear` is gone, and that what was added and decided since is not."""
    left = [one.id for one in collections.notes.values() if one.note and one.note.seq < LATER]
    if "W" in told and left:
        return f"{left} were there before the memory was cleared"
    for key, stored in collections.notes.items():
        is_new = stored.note is not None and stored.note.seq >= LATER
        if is_new and told.get("A") == "made" and f"{key} entry" not in contexts(collections, key):
            return f"the entry of {key} is gone"
    return None


def arriving(*, secretly: bool = False) -> Exploration:
    """A commit of which a part has arrived when its writer died, and all of it arrives once more."""
    collections = begin(inferred=secretly)
    writer = late() if not secretly else inferred()
    request = request_of("o3", writer)
    part = request.what[1:2] if secretly else request.what[:2]
    apart = Request("insert", request.collection, part)
    collections.run("o3", lambda _: insert_only(apart))
    remove = delete("b", thorough=secretly)
    also = kept if secretly else None
    made = explore(lambda: collections, ONE_KILL, also=also, R1=resume, delete=remove)()
    return replace(made, late=[request])


def request_of(name: str, process: Process) -> Request:
    """Return the first request of a process."""
    coroutine = process(writer_of(name))
    request: Request = coroutine.send(None)
    coroutine.close()
    return request


async def insert_only(request: Request) -> None:
    await request


b_anew, b_back = say("b", "b anew", LATER), bring("b", "b anew", "b entry")
b_is_back = imported("b", "b entry")
delete_b, erase_b = delete("b"), delete("b", thorough=True)
erase_words = correct("b", "b other", thorough=True)
said_again = then(delete_b, b_anew)
undo, redo = (switch(construct_slot("c"), 0, state) for state in ("off", "on"))

SCENARIOS: dict[str, Scenario] = {
    **{
        f"late answer and delete, {how}": explore(begin, faults, late=late(), delete=delete_b)
        for how, faults in WITH_FAULTS.items()
    },
    **{
        f"thorough delete and late answer, {how}": explore(
            by_inference, faults, also=kept, late=inferred(), delete=erase_b
        )
        for how, faults in WITH_FAULTS.items()
    },
    "thorough correction, then a plain delete, and a late answer": explore(
        by_inference, always=unseen("W"), also=kept, W=then(erase_words, delete_b), late=inferred()
    ),
    "late answer and correction, kill": explore(
        begin, ONE_KILL, always=unseen("cor"), late=late(), cor=correct("b", "b other")
    ),
    "an import of what was made of a note that is being deleted, kill, late copy": explore(
        begin, KILL_AND_COPY, I=bring("e", "e", f"e {SECRET}", of="b"), delete=delete_b
    ),
    "an import brings a deleted note back, beside a late answer for the old one, kill": explore(
        deleted, ONE_KILL, always=no_stale_answer, also=b_is_back, I=b_back, late=late()
    ),
    "two imports of one file, kill, late copy": explore(
        deleted, KILL_AND_COPY, also=b_is_back, I=b_back, J=b_back
    ),
    "three writers and a delete": explore(
        begin, also=made("W3", "d"), late=late(), W2=sentence(), W3=fresh(), delete=delete_b
    ),
    "another writer projects the same notes, kill": explore(
        begin, ONE_KILL, also=lost("c new"), late=late(), W2=sentence()
    ),
    "stale writer and a good one take one slot": explore(
        deleted, ONE_KILL, always=never_seen, also=made("W2", "d"), late=late(), W2=fresh()
    ),
    "two workers evolve one thread": explore(
        peaceful, ONE_KILL, also=decided_once, W1=work("w1", "one"), W2=work("w2", "two")
    ),
    "undo of an entry, then evolve again": explore(
        peaceful, also=remade, U=then(undo, again("o6", "c"))
    ),
    "undo of an entry, evolve again, redo of the first": explore(
        peaceful, ONE_KILL, also=redone, U=then(undo, again("o6", "c"), redo), W2=sentence(of="d")
    ),
    "undo and redo against delete, kill, late copy": explore(
        begin, KILL_AND_COPY, also=link_redone, U=then(turn_off("c"), turn_on("c")), delete=delete_b
    ),
    "two items of one decision are undone at once, kill": explore(
        partial(with_two, "link"), KILL_AND_COPY, U=turn_off("d"), V=turn_off("d", 1)
    ),
    "all sentences of a decision are undone at once, kill": explore(
        partial(with_two, "sentence"), KILL_AND_COPY, U=turn_off("d"), V=turn_off("d", 1)
    ),
    "one sentence after the other is undone and redone beside a delete, kill": explore(
        partial(with_two, "sentence"),
        ONE_KILL,
        U=then(turn_off("d"), turn_off("d", 1), turn_on("d", 1)),
        delete=delete_b,
    ),
    "undo of what a delete is removing": explore(
        begin, KILL_AND_COPY, U=turn_off("b"), delete=delete_b
    ),
    "undo of a link of a late answer": explore(
        begin, late=late(), U=turn_off("d", 1), delete=delete_b
    ),
    "undo of an answer that nobody looked at, beside a writer": explore(
        died_late, ONE_KILL, always=never_seen, U=turn_off("d"), W2=sentence()
    ),
    "same key said again, late answer, kill": explore(
        begin, ONE_KILL, also=says("b", "b anew", "delete_add"), late=late(), delete_add=said_again
    ),
    "same key said again, late copy": explore(
        begin, Faults(copies=1), also=says("b", "b anew"), late=late(), delete_add=said_again
    ),
    "add of an id whose delete is open, resumed by two": explore(
        half_deleted, ONE_KILL, also=says("b", "b anew", "add"), add=b_anew, R1=resume, R2=resume
    ),
    "add of an id whose delete is open, then deleted again": explore(
        half_deleted,
        ONE_KILL,
        add_delete=then(say("b", f"b {SECRET} too", 50), about_the_next(f"{SECRET} too"), delete_b),
        R1=resume,
    ),
    "an add, and a delete of what was just added": explore(
        Collections, KILL_AND_COPY, add=say("b", f"b {SECRET}"), delete=delete_what_is_there("b")
    ),
    "an add of an id whose delete is open, and a delete of what was just added": explore(
        half_deleted,
        ONE_KILL,
        add=say("b", f"b {SECRET}", LATER),
        delete=delete_what_is_there("b"),
        R1=resume,
    ),
    "two corrections at once": explore(
        begin, ONE_KILL, also=corrected_twice, C1=correct("b", "b one"), C2=correct("b", "b two")
    ),
    "correction and delete at once": explore(
        begin, ONE_KILL, C1=correct("b", "b one"), delete=delete_b
    ),
    "two deletes of linked notes, kill": explore(begin, ONE_KILL, delete=delete_b, d2=delete("a")),
    "two deletes of one note": explore(begin, KILL_AND_COPY, delete=delete_b, d2=delete_b),
    "late copy of the add after the delete": explore(
        Collections, Faults(copies=1), add_delete=then(say("b", f"b {SECRET}"), delete_b)
    ),
    "resumed by two, an undo, the slow one killed": explore(
        half_deleted, ONE_KILL, R1=resume, R2=resume, U=turn_off("c")
    ),
    "resumed twice, killed at each request": explore(
        half_deleted, Faults(kills=2), R1=resume, R2=resume
    ),
    "sweep while the user extends the note": explore(
        partial(begin, "b", expired="b"), ONE_KILL, also=extended, sweep=sweeping, U=extend("b")
    ),
    "sweep of a thread, late answer": explore(
        partial(begin, expired="ab"), ONE_KILL, always=unseen("sweep"), sweep=sweeping, late=late()
    ),
    "a form, and another made of it, of a deleted note": explore(
        with_forms, ONE_KILL, delete=delete_b
    ),
    "a form is written while its source goes": explore(
        begin, KILL_AND_COPY, F=formed("F"), delete=delete_b
    ),
    "power cut: delete": explore(begin, POWER_CUT, delete=delete_b),
    "power cut: commit and delete": explore(begin, POWER_CUT, W=then(late(), delete_b)),
    "power cut: delete, add again": explore(
        begin, POWER_CUT, W=then(delete_b, b_anew, about_the_next("d anew"))
    ),
    "late answer and delete, resumed, late copy": explore(
        begin, Faults(kills=1, copies=1, partial=1), late=late(), R1=resume, delete=delete_b
    ),
    "a part of a commit arrives after its writer died, resume, delete": arriving,
    "a commit of which the call arrives last, resume, thorough delete": lambda: arriving(
        secretly=True
    ),
    "thorough correction and late answer, kill": explore(
        by_inference, ONE_KILL, always=unseen("cor"), also=kept, late=inferred(), cor=erase_words
    ),
    "thorough delete half done, resume, undo": explore(
        partial(half_deleted, thorough=True), ONE_KILL, also=kept, R1=resume, U=turn_off("b")
    ),
    "thorough delete of what a plain delete is removing": explore(
        by_inference, ONE_KILL, also=kept, delete=erase_b, d2=erase_b
    ),
    "plain delete, then a thorough one": explore(
        by_inference,
        always=unseen("d2"),
        also=kept,
        d1=delete_b,
        d2=then(delete_b, erase_b),
        late=inferred(),
    ),
    "thorough delete, same key said again, late answer, kill": explore(
        by_inference,
        ONE_KILL,
        always=unseen("W"),
        also=kept,
        W=then(erase_b, b_anew),
        late=inferred(),
    ),
    "thorough delete, tombstone collected, late answer": explore(
        by_inference,
        ONE_KILL,
        always=unseen("W"),
        also=kept,
        W=then(erase_b, collecting),
        late=inferred(),
    ),
    "every view is made anew beside a late answer and a delete, kill": explore(
        begin, ONE_KILL, late=late(), delete=delete_b, R=lambda writer: project(writer, "abcd")
    ),
    "an import among writers, kill": explore(
        begin, ONE_KILL, I=bring("e", "e", "e entry", of="b"), late=late(), delete=delete_b
    ),
    "power cut: thorough delete": explore(by_inference, POWER_CUT, also=kept, delete=erase_b),
    "late answer, delete, and a writer on the same notes": explore(
        begin, late=late(), W2=sentence(), delete=delete_b
    ),
    "redacted, then made again": explore(
        begin, also=slot_is_free, W=then(delete_b, again("o8", "a"))
    ),
    "undo against another writer": explore(
        peaceful, ONE_KILL, U=then(undo, redo), W2=sentence(of="d")
    ),
    "a worker died after its insertion, another does the work, nobody resumes": explore(
        died_committing, resume=None, after=not_paid_again, W2=fresh()
    ),
    "the user supersedes while a model links": explore(
        peaceful, ONE_KILL, also=both_hold, U=supersede("user", "d", "c"), W=linking("w1", "d", "a")
    ),
    "the user supersedes, then corrects the newer note": explore(
        peaceful,
        ONE_KILL,
        also=still_outdated,
        U=then(supersede("user", "b", "c"), correct("b", "b without its slip")),
        W=linking("w1", "d", "b"),
    ),
    "tombstone collected, same key again, late answer": explore(
        begin, ONE_KILL, also=no_stale_answer, W=then(delete_b, collecting, b_anew), late=late()
    ),
    "tombstone collected, same key again, evolved": explore(
        begin, also=has_links, W=then(delete_b, collecting, b_anew, again("o9", "b", links=True))
    ),
    "clear, same key again, late answer, kill": explore(
        begin, ONE_KILL, also=no_stale_answer, W=then(clearing, b_anew), late=late()
    ),
    "clear, late copy of an add": explore(
        Collections, Faults(copies=1), always=unseen("W"), W=then(say("b", f"b {SECRET}"), clearing)
    ),
    "bounded views: a late sentence and a delete, kill": explore(
        begin_bounded,
        ONE_KILL,
        resume=bounded(resume),
        after=checked(newest=1),
        late=bounded(late()),
        more=bounded(sentence()),
        delete=bounded(delete_b),
    ),
    "bounded views: the newest sentence goes, kill": explore(
        with_sentences,
        ONE_KILL,
        resume=bounded(resume),
        after=checked(
            lambda c, t: None if not t.get("o4") or outdated(c, "c") else "forgotten", newest=1
        ),
        delete=bounded(delete_b),
        o4=bounded(supersede("user1", "d", "c")),
    ),
    "clear against add and delete": explore(
        begin, ONE_KILL, W=clearing, add=say("x", "x new", 50), delete=delete_b
    ),
    "clear beside an evolving add, kill": explore(
        peaceful, ONE_KILL, also=cleared, W=clearing, A=then(say("e", "e"), evolved("e", "a"))
    ),
    "clear beside the same key said again and evolved, kill": explore(
        begin,
        ONE_KILL,
        always=unseen("W"),
        also=cleared,
        W=clearing,
        A=then(b_anew, evolved("b", "c")),
    ),
    "clear beside another writer on the same notes, kill": explore(
        begin, ONE_KILL, also=cleared, W=clearing, late=late()
    ),
    "clear, late copy, beside an evolving add": explore(
        peaceful, Faults(copies=1), also=cleared, W=clearing, A=then(say("e", "e"), evolved("e"))
    ),
    "clear while a form is written, kill, late copy": explore(
        with_forms, KILL_AND_COPY, W=clearing, F=formed("H")
    ),
    "clear of a form that names no sources": explore(
        partial(with_forms, ""), also=cleared, W=clearing
    ),
    "two clears, kill": explore(with_forms, ONE_KILL, also=cleared, W=clearing, W2=clearing),
    "power cut: clear": explore(begin, POWER_CUT, W=clearing),
    "late answer for an expired note that is not swept yet": explore(
        partial(begin, expired="b"), also=no_expired_answer, late=late()
    ),
}

# A read of an older state breaks what is promised: replicas have to answer by majority.
NEEDS_FRESH_READS: dict[str, Scenario] = {
    "a stale replica is read": explore(begin, Faults(stale=1), late=late(), delete=delete_b)
}


def nobody_resumes(make: Scenario) -> Scenario:
    """Return a scenario in which nobody is killed, and nobody resumes: what every writer finished is right as it is."""
    return lambda: replace(make(), faults=Faults(), resume=None, late=())


SCENARIOS |= {
    f"{name}, nobody resumes": nobody_resumes(make)
    for name, make in list(SCENARIOS.items())
    if "power cut" not in name and "nobody resumes" not in name
}
