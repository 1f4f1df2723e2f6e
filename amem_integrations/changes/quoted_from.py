"""Whose words may stand in what a model wrote.

Every operation of a model leaves a record (kind `prompt`) of the notes whose words may stand in what it wrote: those
that it was shown, and those whose words it can have found in the contexts and relations of these. The record is
written with the texts. So of a note that is deleted or corrected it is known at once, without following a chain of
quotes, which operations may quote it, also where a note in the middle of the chain is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..fetch import all_changes
from ..notes import RELATIONS, Change, Namespace, Note
from ..runtime import RULES, Runtime, resolve
from .edits import prompt_id
from .quote_matching import FROM_PROMPTS, Fragments, own_words, texts_in, texts_of


@dataclass(frozen=True, slots=True)
class Sources:
    """The ids of the notes whose words may stand in a text.

    `stale` says that what was shown held a quote that has been removed since, so it is not known of whom.
    """

    ids: tuple[str, ...]
    stale: bool = False


async def sources_of(
    runtime: Runtime, namespace: Namespace, shown: Mapping[str, Note], written: Iterable[str]
) -> Sources:
    """Return whose words may stand in texts that a model wrote when it was shown these notes.

    A note that is quoted at second hand and is not there any more is taken for a source: it is just being deleted.
    """
    left = Fragments(written).minus(FROM_PROMPTS)
    left = left.minus(Fragments(text for note in shown.values() for text in own_words(note)))
    made = await _copied_from(runtime, namespace, shown, left) if left else []
    if not made:
        return Sources(tuple(shown))
    store, ops = runtime.store, {prompt_id(one.op) for one in made}
    prompts = await resolve(store.changes_by_id(namespace, sorted(ops)))
    named = {note_id for prompt in prompts for note_id in prompt.data["shown"]}
    far = sorted(named - shown.keys())
    stored = {note.id: note for note in await resolve(store.get(namespace, far))}
    quoted = [i for i in far if i not in stored or Fragments(texts_of(stored[i])).shares(left)]
    stale = any(one.data.get("blanked") for one in made)
    current = {one.op for one in made}
    stale |= any(prompt.data.get("stale") for prompt in prompts if prompt.op in current)
    return Sources((*shown, *quoted), stale=stale)


async def _copied_from(
    runtime: Runtime, namespace: Namespace, shown: Mapping[str, Note], left: Fragments
) -> list[Change]:
    """Return the changes that brought the contexts and relations from which `left` may come."""
    entries = [
        entry.change
        for note in shown.values()
        for entry in note.contexts
        if Fragments(texts_in(entry)).shares(left)
    ]
    made: list[Change] = []
    if entries:
        made += await resolve(runtime.store.changes_by_id(namespace, entries))
    relations = {} if runtime.model_name == RULES else _relations_with(shown, left)
    for note_id, targets in relations.items():  # rules have relations of their own
        links = await all_changes(runtime.store, namespace, note_id, ("link",))
        made += [one for one in links if one.data["target"] in targets]
    return made


def _relations_with(shown: Mapping[str, Note], left: Fragments) -> dict[str, Sequence[str]]:
    """Return by note the targets of links among the notes shown whose relation has something of `left`."""
    found = {
        note.id: [
            target
            for target, link in note.links.items()
            if target in shown
            and link.relation not in RELATIONS
            and Fragments([link.relation]).shares(left)
        ]
        for note in shown.values()
    }
    return {note_id: targets for note_id, targets in found.items() if targets}
