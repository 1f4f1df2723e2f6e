"""mem0 as a row: `--system benchmarks/rivals/mem0_memory.py:Mem0 --python venv/bin/python` (`pip install mem0ai`).

Its defaults but for a vector store in the process, and the encoder and model of the run. Each session is one `add`; every
turn starts with its speaker and date, as the texts have no other place for them. A question finds ten memories.
"""

import os

os.environ["MEM0_TELEMETRY"] = "False"  # before the import, which would send events

from mem0 import Memory

WHO = "benchmark"


class Mem0:
    """All memories of one user."""

    def __init__(self) -> None:
        size = int(os.environ["AMEM_DIMENSIONS"])
        url = os.environ["OPENAI_BASE_URL"]
        model = {"model": os.environ["AMEM_MODEL"], "openai_base_url": url}
        encoder = {"model": "shared", "openai_base_url": url, "embedding_dims": size}
        store = {"path": "qdrant", "embedding_model_dims": size}
        self.memory = Memory.from_config({
            "llm": {"provider": "openai", "config": model},
            "embedder": {"provider": "openai", "config": encoder},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": "history.db",
        })  # fmt: skip

    def add(self, turns: list[dict[str, str]]) -> None:
        """Remember the turns of a session."""
        said = [{"role": "user", "content": turn["text"]} for turn in turns]
        self.memory.add(said, user_id=WHO)

    def recall(self, question: str) -> str:
        """Return the memories that are found."""
        found = self.memory.search(question, filters={"user_id": WHO}, top_k=10)
        return "\n".join(one["memory"] for one in found["results"])
