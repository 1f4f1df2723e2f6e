"""An agent that remembers what it is told, tidies its memory up, and is resumed later. No network needed.

    python examples/llamaindex_agent.py

Both language models are scripts, so that the run is the same each time: one plays the agent, the other
makes, links and evolves the notes. For real ones, take `llm = OpenAI("gpt-5-mini")` of `llama_index.llms.openai`,
or any other that calls functions: in `FunctionAgent(llm=llm)` in place of `scripted(*steps)`, and as
`LlamaIndexChatModel(llm)` in place of `ScriptedModel(annotate)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from amem_integrations import AgenticMemory, ModelRequest
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import AMemMemory, AMemRetriever, AMemToolSpec

USER = "ann"
FACT = "Ann's sister Clara works as a nurse in Lisbon."
CORRECTION = "Ann's sister Clara works as a nurse in Porto."

Step = Callable[[str], ChatMessage]


def annotate(request: ModelRequest) -> dict[str, Any]:
    """Play the model that makes notes: what is about Clara is linked to the first note about her."""
    notes = [note for note in request.inputs["notes"] if "Clara" in note["content"]]
    if request.task == "construct":
        return {
            "notes": [
                {
                    "id": note["alias"],
                    "context": f"Ann talks about family and trips: {note['content']}",
                    "keywords": ["Clara"] if note in notes else [],
                    "tags": ["family" if note in notes else "chat"],
                }
                for note in request.inputs["notes"]
            ]
        }
    earlier = [note for note in request.inputs["candidates"] if "Clara" in note["content"]]
    if not earlier:
        return {"notes": []}
    first = earlier[0]["alias"]
    link = {
        "to": first,
        "relation": "same person",
        "reason": "both are about Clara",
        "strength": 0.9,
    }
    update = {"to": first, "context": "Clara is the nurse whom Ann talks about visiting in May."}
    return {
        "notes": [
            {
                "id": note["alias"],
                "links": [link],
                "updates": [update] if "visit" in note["content"] else [],
            }
            for note in notes
        ]
    }


def say(answer: str) -> Step:
    """Return a step in which the agent answers."""
    return lambda _: ChatMessage(role="assistant", content=answer)


def call(tool: str, **arguments: str) -> Step:
    """Return a step in which the agent calls a tool."""
    block = ToolCallBlock(tool_call_id=tool, tool_name=tool, tool_kwargs=arguments)
    return lambda _: ChatMessage(role="assistant", blocks=[block])


def correct_the_first_note(prompt: str) -> ChatMessage:
    """Call the tool `correct` for the note that was remembered, whose id `recall` has shown."""
    *_, line = (line for line in prompt.splitlines() if f"] {FACT}" in line)  # of the tool's answer
    note_id = line.removeprefix("- [").split("]")[0].split(",")[0]
    return call("correct", note_id=note_id, content=CORRECTION)(prompt)


def scripted(*steps: Step) -> MockFunctionCallingLLM:
    """Return a language model that takes one step for each call."""
    left = list(steps)

    def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:  # noqa: ANN401
        return left.pop(0)("\n".join(message.content or "" for message in messages))

    return MockFunctionCallingLLM(response_generator=respond)


async def session(memory: AgenticMemory, session_id: str, message: str, *steps: Step) -> None:
    """Hold one session with an agent of its own, as a new process would."""
    tools = AMemToolSpec(memory, (USER,)).to_tool_list()
    agent = FunctionAgent(llm=scripted(*steps), tools=tools)
    # To be passed to every run: a workflow's context does not carry a memory from run to run.
    chat_memory = AMemMemory.from_defaults(memory=memory, user_id=USER, session_id=session_id)
    print(f"\n--- {session_id}\nann: {message}")
    answer = await agent.run(message, memory=chat_memory)
    for used in answer.tool_calls:
        lines = used.tool_output.content.splitlines()
        print(
            f"  agent calls {used.tool_name}: {next((s for s in lines if s[0] == '-'), lines[0])}"
        )
    print(f"agent: {answer}")
    await (
        memory.aflush()
    )  # the background worker links and evolves notes; wait for it, to show them


async def run(memory: AgenticMemory) -> None:
    """Hold three sessions, and show what became of the notes."""
    await session(
        memory,
        "monday",
        "Clara is a nurse in Lisbon.",
        call("remember", content=FACT),
        say("Noted."),
    )
    await session(memory, "friday", "I shall visit Clara in May.", say("Enjoy the trip!"))
    await show(memory)
    await session(
        memory,
        "sunday",
        "It is Porto where my sister lives, not Lisbon.",
        call("recall", query="where does Ann's sister Clara work as a nurse"),
        correct_the_first_note,
        say("I have corrected that."),
    )
    await show(memory)


async def show(memory: AgenticMemory) -> None:
    """Print what is found, by which links, and what later notes have added."""
    print("\n--- what is found for 'trip to Clara', and why")
    for found in await AMemRetriever(memory, (USER,), k=4).aretrieve("trip to Clara"):
        path = found.metadata["via"]
        why = path if path == "match" else f"linked: {json.loads(path)[0]['reason']}"
        print(f"- {found.text}\n    {why}; {len(found.metadata['links'].split(', '))} links")
        for context in found.metadata["contexts"].splitlines()[1:]:
            print(f"    learnt later: {context}")


def main() -> None:
    """Run the example."""
    model = ScriptedModel(annotate)
    with AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(256)) as memory:
        asyncio.run(run(memory))


if __name__ == "__main__":
    main()
