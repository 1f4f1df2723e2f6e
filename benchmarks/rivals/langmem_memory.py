"""langmem as a row: `--system benchmarks/rivals/langmem_memory.py:LangMem --python venv/bin/python`.

Needs `pip install langmem langchain-openai`. Its store manager with its own instructions reads each session, every turn with
its speaker and date, and keeps memories in LangGraph's store in the process; a question finds ten of them.
"""

import os

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.store.base import IndexConfig
from langgraph.store.memory import InMemoryStore
from langmem import create_memory_store_manager

SPACE = ("memories",)


class LangMem:
    """The memories of one conversation."""

    def __init__(self) -> None:
        encoder = OpenAIEmbeddings(model="shared", check_embedding_ctx_length=False)
        index: IndexConfig = {"dims": int(os.environ["AMEM_DIMENSIONS"]), "embed": encoder}
        self.store = InMemoryStore(index=index)
        self.manager = create_memory_store_manager(
            ChatOpenAI(model=os.environ["AMEM_MODEL"]), namespace=SPACE, store=self.store
        )

    def add(self, turns: list[dict[str, str]]) -> None:
        """Remember the turns of a session."""
        said = [{"role": "user", "content": turn["text"]} for turn in turns]
        self.manager.invoke({"messages": said})

    def recall(self, question: str) -> str:
        """Return the memories that are found."""
        found = self.store.search(SPACE, query=question, limit=10)
        return "\n".join(str(one.value.get("content", one.value)) for one in found)
