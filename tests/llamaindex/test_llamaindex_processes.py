"""What one process was told, the next one knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llamaindex_fakes import ANN

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory

# It ends without closing anything.
SESSION = """
import sys
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import AMemMemory

memory = AgenticMemory.open(sys.argv[1], embedder=HashEmbedder())
chat_memory = AMemMemory.from_defaults(
    memory=memory, user_id="ann", session_id="one", evolve=False
)
SimpleChatEngine.from_defaults(memory=chat_memory, llm=MockLLM()).chat("My dog is called Rex.")
"""


def test_a_later_process_remembers_what_an_earlier_one_was_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    def chat(user: str, session: str, evolve: bool, message: str) -> str:
        chat_memory = AMemMemory.from_defaults(
            memory=memory, user_id=user, session_id=session, evolve=evolve
        )
        answer = str(
            SimpleChatEngine.from_defaults(memory=chat_memory, llm=MockLLM()).chat(message)
        )
        memory.flush(timeout=30)
        return answer

    with AgenticMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        assert "called Rex" in chat("ann", "two", False, "What is my dog called?")
        assert "called Rex" not in chat("bob", "one", True, "What is my dog called?")
        chat("ann", "three", True, "Good dog!")
        assert {note.state for note in memory.get_all(namespace=ANN)} == {"done"}
