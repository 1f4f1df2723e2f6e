"""Two sessions of one user, in two processes, share what is remembered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SESSION = """
import sys, time
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory

def slowly(request):
    time.sleep(0.5)
    return {"notes": [{"id": note["alias"], "context": "said"} for note in request.inputs["notes"]]}

folder, user, session, evolve, message = sys.argv[1:]
model = ScriptedModel(slowly) if evolve == "leaving" else None
evolve = evolve.replace("leaving", "background")
memory = AgenticMemory.open(folder, model=model, embedder=HashEmbedder(256))
chat_memory = AMemMemory.from_defaults(
    memory=memory, user_id=user, session_id=session, evolve=evolve
)
print(SimpleChatEngine.from_defaults(memory=chat_memory, llm=MockLLM()).chat(message))
if evolve == "background" and model is None:
    chat_memory.block.flush()
    print({note.state for note in memory.get_all(namespace=(user,))})
"""


def chat(folder: Path, user: str, session: str, evolve: str, message: str) -> str:
    """Hold a session in a process of its own, which ends without closing anything."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(folder), user, session, evolve, message],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_later_process_remembers_what_an_earlier_one_was_told(tmp_path: Path) -> None:
    chat(tmp_path, "ann", "one", "off", "My dog is called Rex.")

    assert "called Rex" in chat(tmp_path, "ann", "two", "inline", "What is my dog called?")
    assert "called Rex" not in chat(tmp_path, "bob", "one", "inline", "What is my dog called?")
    assert "{'done'}" in chat(tmp_path, "ann", "three", "background", "Good dog!")


def test_a_process_that_ends_leaves_its_work_to_the_next_one(tmp_path: Path) -> None:
    chat(tmp_path, "ann", "one", "leaving", "My dog is called Rex.")

    assert "{'done'}" in chat(tmp_path, "ann", "two", "background", "Good dog!")
