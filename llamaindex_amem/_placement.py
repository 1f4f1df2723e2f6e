"""Where recalled text goes in the prompt."""

from __future__ import annotations

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole
from llama_index.core.memory import InsertMethod

from ._shared import SharedMemory

# Someone waits for an answer while the last message is one of these.
_UNANSWERED = (MessageRole.USER, MessageRole.TOOL, MessageRole.FUNCTION)


class PlacingMemory(SharedMemory):
    """A `Memory` that puts recalled text where engine or agent will show it to the model.

    `ReActAgent` and `CodeActAgent` replace a leading system message, so there it goes with the question. The
    engines that ask outside of the history would see it in the question before, so there it is a system
    message.
    """

    adaptive: bool = True

    def _insert_memory_content(
        self,
        chat_history: list[ChatMessage],
        memory_content: list[ContentBlock],
        chat_message_data: list[ChatMessage],
    ) -> list[ChatMessage]:
        asked = bool(chat_history) and chat_history[-1].role in _UNANSWERED
        method = InsertMethod.USER if asked else InsertMethod.SYSTEM
        memory = self.model_copy(update={"insert_method": method}) if self.adaptive else self
        return super(PlacingMemory, memory)._insert_memory_content(
            chat_history, memory_content, chat_message_data
        )
