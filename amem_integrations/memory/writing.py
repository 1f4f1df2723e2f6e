"""Facade: methods that add notes, each with its asynchronous twin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._sync import run
from ..conversation import SPEAKING, from_dict, note_inputs
from ..engine import Progress
from ..errors import InvalidInputError
from ..notes import Note, NoteInput, Source
from .base import Base
from .opening import reporter


class WritingMethods(Base):
    """`add`, `add_many`, `add_messages`."""

    def add(
        self,
        content: str,
        *,
        namespace: Sequence[str],
        at: datetime | None = None,
        key: str | None = None,
        thread: str | None = None,
        speaker: str | None = None,
        source: Source = "user",
        metadata: Mapping[str, Any] | None = None,
        evolve: bool = True,
    ) -> Note:
        """Return the note made of something experienced.

        The raw content is stored, and can be found, before any model is called. Adding the same again
        returns the existing note and costs no model call. The same `key` again is the user's correction:
        the note takes the content, `at`, `speaker` and `metadata` that are given, and keeps what is left
        out. If more than metadata is other than it was, it is made anew, as after `update`.

        Args:
            content: What was said or seen; never changed by a model.
            namespace: Whose memory it is, such as `("user-42",)`.
            at: When it happened, if that is not now; with a time zone.
            key: Identifies the experience, such as a message id; without one, thread, speaker, content
                and `at` do.
            thread: The conversation; notes of one thread give each other context.
            speaker: Who said it.
            source: `"user"`, `"assistant"`, `"tool"` or `"import"`.
            metadata: JSON values of your own, to filter on.
            evolve: Construct, link and evolve at once; False leaves that to `evolve()`.

        Raises:
            InvalidInputError: The note cannot be stored as given.
            NamespaceError: The namespace is missing or malformed.
            StoreError: The store refused.
            ModelUnavailableError: Only with `on_model_error="raise"`; the raw note is stored.
        """
        item = _item(content, at, key, thread, speaker, source, metadata)
        return self.add_many([item], namespace=namespace, evolve=evolve)[0]

    async def aadd(
        self,
        content: str,
        *,
        namespace: Sequence[str],
        at: datetime | None = None,
        key: str | None = None,
        thread: str | None = None,
        speaker: str | None = None,
        source: Source = "user",
        metadata: Mapping[str, Any] | None = None,
        evolve: bool = True,
    ) -> Note:
        """Asynchronous twin of `add`."""
        item = _item(content, at, key, thread, speaker, source, metadata)
        return (await self.aadd_many([item], namespace=namespace, evolve=evolve))[0]

    def add_many(
        self,
        items: Iterable[str | NoteInput],
        *,
        namespace: Sequence[str],
        evolve: bool = True,
        progress: bool | Progress = False,
    ) -> list[Note]:
        """Return a note for each item, in order; either all are stored or none.

        Model calls are made for batches of one thread, about .29 a note.

        Args:
            items: Texts, or `NoteInput` values with the fields of `add`.
            namespace: Whose memory it is.
            evolve: Construct, link and evolve at once; False leaves that to `evolve()`.
            progress: True logs how far it is; a function is called with (notes finished, notes in all).

        Raises:
            InvalidInputError: An item cannot be stored as given; none is.
        """
        return run(
            self._engine.add_many(
                _items(items), namespace=namespace, evolve=evolve, progress=reporter(progress)
            )
        )

    async def aadd_many(
        self,
        items: Iterable[str | NoteInput],
        *,
        namespace: Sequence[str],
        evolve: bool = True,
        progress: bool | Progress = False,
    ) -> list[Note]:
        """Asynchronous twin of `add_many`."""
        return await self._async_engine.add_many(
            _items(items), namespace=namespace, evolve=evolve, progress=reporter(progress)
        )

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        namespace: Sequence[str],
        thread: str | None = None,
        roles: Sequence[str] = SPEAKING,
        offset: int = 0,
        should_store: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[Note]:
        """Return a note for each non-empty chat message of the given roles.

        Args:
            messages: Dicts with `role` and `content` (text, or a list of blocks of which the text is
                taken), optionally `name` (the speaker), `at` (a datetime) and `id`. A message is known by
                thread, role and id; without an id, by its place in the thread: pass the conversation from
                its start each time, or say the `offset`, and nothing is stored twice.
            namespace: Whose memory it is.
            thread: The conversation.
            roles: Whose messages are stored.
            offset: How many messages of user and assistant came before the first of these in the thread.
            should_store: Called with each message; False leaves it out.

        Raises:
            InvalidInputError: A message has no role, or content that is no text.
        """
        items = _of_messages(messages, thread, roles, offset, should_store)
        return self.add_many(items, namespace=namespace)

    async def aadd_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        namespace: Sequence[str],
        thread: str | None = None,
        roles: Sequence[str] = SPEAKING,
        offset: int = 0,
        should_store: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[Note]:
        """Asynchronous twin of `add_messages`."""
        items = _of_messages(messages, thread, roles, offset, should_store)
        return await self.aadd_many(items, namespace=namespace)


def _item(
    content: str,
    at: datetime | None,
    key: str | None,
    thread: str | None,
    speaker: str | None,
    source: Source,
    metadata: Mapping[str, Any] | None,
) -> NoteInput:
    return NoteInput(
        content=content,
        at=at,
        key=key,
        thread=thread,
        speaker=speaker,
        source=source,
        metadata=metadata or {},
    )


def _of_messages(
    messages: Iterable[Mapping[str, Any]],
    thread: str | None,
    roles: Sequence[str],
    offset: int,
    should_store: Callable[[Mapping[str, Any]], bool] | None,
) -> list[NoteInput]:
    read = [
        replace(from_dict(message), stored=should_store is None or bool(should_store(message)))
        for message in messages
    ]
    return note_inputs(read, thread=thread, roles=roles, offset=offset)


def _items(items: Iterable[str | NoteInput]) -> list[NoteInput]:
    if isinstance(items, str | NoteInput):
        raise InvalidInputError(
            "add_many wants a list of texts or NoteInput values; use add for one"
        )
    return [_as_input(item) for item in items]


def _as_input(item: str | NoteInput) -> NoteInput:
    if isinstance(item, NoteInput):
        return item
    if not isinstance(item, str):
        raise InvalidInputError(f"{item!r} is neither text nor a NoteInput")
    return NoteInput(content=item)
