"""The chat models of an evaluation, and what each of them does in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ..errors import InvalidInputError
from ..ports import ChatModel
from ..testing import RecordedModel
from .answering import Answering, Judging
from .answering.questions import Examiner
from .building import RULES, Writer
from .cache import Kept, KeptModel
from .recordings import Recording
from .settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A chat model, and everything that decides its answers: name, endpoint, temperature."""

    model: ChatModel
    identity: str

    def kept(self, kept: Kept) -> KeptModel:
        """Return the model with its replies kept."""
        return KeptModel(self.model, kept, identity=self.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The chat models of an evaluation.

    Attributes:
        writer: Makes the notes of conversations without annotations; None makes them by rules.
        answerer: Answers the questions.
        judge: Says which answers are correct; None leaves that out.
    """

    writer: Named | None = None
    answerer: Named | None = None
    judge: Named | None = None

    def writer_of(self, recording: Recording | None, kept: Kept) -> Writer:
        """Return who makes the notes of a conversation: its annotations before any model."""
        if recording is not None:
            records = recording.as_records()
            return Writer(
                name="annotations",
                identity=f"annotations {hashlib.sha256(repr(records).encode()).hexdigest()}",
                make=lambda: RecordedModel(records),
            )
        if self.writer is None:
            return RULES
        model = self.writer.kept(kept)
        return Writer(name=model.name, identity=self.writer.identity, make=lambda: model)

    def examiner(self, settings: Settings, kept: Kept) -> Examiner | None:
        """Return who has the questions answered, or None if they are not to be.

        Raises:
            InvalidInputError: They are to be, and there is no model for it.
        """
        if not settings.answer_ks:
            return None
        if self.answerer is None:
            raise InvalidInputError("questions cannot be answered without a model; name one")
        return Examiner(
            answering=Answering(self.answerer.kept(kept)),
            judging=Judging(self.judge.kept(kept)) if self.judge else None,
            concurrency=settings.concurrency,
        )
