"""A chat engine that remembers across sessions, and tells its users apart. Runs without a network.

    python examples/llamaindex_chat_engine.py

The language model here is a stand-in that can only read: it answers with the line of its prompt that
shares most words with the question. Whatever it knows, it was told by the memory. For a real one, only the
line `llm = Reader()` changes.
"""

from __future__ import annotations

import re
from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory

ANN_ON_MONDAY = [
    "My sister Clara moved to Lisbon to work as a nurse.",
    "I am allergic to peanuts, so no satay for me.",
    "Clara wants me to visit her in Lisbon in May.",
]


class Reader(CustomLLM):
    """Answers from what stands in its prompt, as a language model would, but with less wit."""

    @property
    def metadata(self) -> LLMMetadata:
        """Say what this model is."""
        return LLMMetadata(model_name="reader")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:  # noqa: ANN401, ARG002
        """Return the recalled line that is nearest to the question."""
        *_, question = re.findall(r"^(?:user: )?(.+)\nassistant:", prompt, re.MULTILINE)
        if not question.endswith("?"):
            return CompletionResponse(text="I will remember that.")
        notes = re.findall(r"^- user: (.+)$", prompt, re.MULTILINE)
        best = max(notes, key=lambda note: len(_words(note) & _words(question)), default="")
        known = _words(best) & _words(question)
        return CompletionResponse(text=f"You told me: {best}" if known else "I do not know.")

    def stream_complete(
        self,
        prompt: str,
        formatted: bool = False,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> CompletionResponseGen:
        """Yield the whole answer at once."""
        answer = self.complete(prompt).text
        yield CompletionResponse(text=answer, delta=answer)


def _words(text: str) -> set[str]:
    small = {
        "a",
        "am",
        "an",
        "and",
        "as",
        "do",
        "for",
        "i",
        "in",
        "is",
        "me",
        "my",
        "no",
        "so",
        "the",
        "to",
    }
    return set(re.findall(r"\w+", text.lower())) - small - {"what", "where", "which", "who"}


def chat(memory: AgenticMemory, user_id: str, session_id: str, messages: list[str]) -> None:
    """Hold one session, and print it."""
    print(f"\n--- {user_id}, {session_id}")
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id=user_id, session_id=session_id)
    llm = Reader()  # or OpenAI("gpt-5-mini") of llama_index.llms.openai, or any other
    engine = SimpleChatEngine.from_defaults(memory=chat_memory, llm=llm)
    for message in messages:
        print(f"{user_id}: {message}\n  bot: {engine.chat(message)}")


def main() -> None:
    """Hold three sessions, and show what is remembered."""
    # No model: keywords, tags and links are made without one. Give `model=LlamaIndexChatModel(llm)`, and
    # a folder or the URL of a Qdrant server instead of ":memory:".
    with AgenticMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        chat(memory, "ann", "monday", ANN_ON_MONDAY)
        chat(memory, "ann", "friday", ["Where does my sister work?", "What am I allergic to?"])
        chat(memory, "bob", "friday", ["Where does my sister work?"])

        memory.flush()  # the background worker links and evolves notes; wait for it, to show them
        print("\n--- what ann's memory holds")
        for note in memory.get_all(namespace=("ann",), where={"source": "user"}):
            print(
                f"- {note.content}\n    tags {', '.join(note.tags) or '-'}; {len(note.links)} links"
            )


if __name__ == "__main__":
    main()
