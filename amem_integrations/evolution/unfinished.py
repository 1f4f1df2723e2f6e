"""Notes that could not be finished: the reason is recorded, and a later `evolve` tries again."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..changes import edits
from ..changes.rewrite import rewrite
from ..ids import now
from ..notes import Namespace, Note
from ..plans import EvolutionReport
from ..runtime import Runtime

log = logging.getLogger("amem_integrations")


async def mark_failed(
    runtime: Runtime,
    namespace: Namespace,
    reasons: Mapping[str, str],
    op: str,
    base: Mapping[str, Note] | None = None,
) -> EvolutionReport:
    """Record why notes could not be finished; what is known of them stays."""
    if not reasons:
        return EvolutionReport()
    at = now()
    failures = {note_id: edits.fail(reason, op, at) for note_id, reason in reasons.items()}
    done = await rewrite(runtime, namespace, f"{op}:failed", failures, base=base)
    for note_id, reason in reasons.items():
        log.warning("note %s could not be finished: %s", note_id, reason)
        note = done.notes.get(note_id)
        if note is not None and note.attempts >= runtime.config.max_attempts:
            log.warning("it failed %d times; only evolve(retry=True) tries it again", note.attempts)
    return EvolutionReport(failed=dict(reasons))
