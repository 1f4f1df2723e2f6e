"""A LangGraph agent whose memory evolves as a step of its own, with a person looking on.

::

    recall → answer → remember → evolution (construct → propose → review → commit)

Runs offline: the two models below repeat what is written here. To use real ones, replace them:

    from langchain.chat_models import init_chat_model
    from langchain_amem import LangChainChatModel

    CHAT = init_chat_model("openai:gpt-5-mini")
    memory = AgenticMemory.open("./memory", model=LangChainChatModel(CHAT))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from amem_integrations import AgenticMemory, ModelRequest
from amem_integrations.testing import HashEmbedder, ScriptedModel
from langchain_amem import MemoryState, build_evolution_graph, recall_node, remember_node

CHAT = GenericFakeChatModel(
    messages=iter(
        [
            AIMessage("Pottery, how nice! Enjoy your first evening."),
            AIMessage("A bowl already? Ella has a talent for pottery."),
            AIMessage("You go to the pottery class together with Ella."),
        ]
    )
)
LATER = "Melanie's pottery class, which she signed up for, is now something she does with Ella."


def construct(request: ModelRequest) -> dict[str, Any]:
    """Say what each new note is about."""
    notes = request.inputs["notes"]
    return {
        "notes": [
            {"id": note["alias"], "context": "Melanie and pottery.", "tags": ["pottery"]}
            for note in notes
        ]
    }


def evolve(request: ModelRequest) -> dict[str, Any]:
    """See that the second thing said puts the first one in another light."""
    shown = [*request.inputs["candidates"], *request.inputs["notes"]]
    first = next((note for note in shown if "signed up" in note["content"]), None)
    ella = next((note for note in request.inputs["notes"] if "Ella made" in note["content"]), None)
    if first is None or ella is None:
        return {"notes": []}
    link = {"to": first["alias"], "relation": "continues", "reason": "the same class"}
    update = {"to": first["alias"], "context": LATER, "tags": ["pottery", "family"]}
    return {"notes": [{"id": ella["alias"], "links": [link], "updates": [update]}]}


@dataclass
class Context:
    """What the application knows of a run: who is talking."""

    user_id: str


class State(MessagesState, MemoryState):
    """A conversation, and what the memory adds to it."""


def user(run: Any) -> tuple[str, ...]:  # noqa: ANN401 - a Run
    """Return whose memory a run is about."""
    return (run.context.user_id,)


def answer(state: State) -> dict[str, Any]:
    """Answer with what was recalled."""
    system = [SystemMessage(state["memories"])] if state["memories"] else []
    return {"messages": [CHAT.invoke([*system, *state["messages"]])]}


def build(memory: AgenticMemory) -> Any:  # noqa: ANN401 - a compiled graph of four parameters
    """Return the graph; the whole of the memory is in four lines of it."""
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("recall", recall_node(memory, namespace=user))
    graph.add_node("answer", answer)
    graph.add_node("remember", remember_node(memory, namespace=user))
    graph.add_node("evolution", build_evolution_graph(memory, namespace=user, review=True))
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", "evolution")
    return graph.compile(checkpointer=InMemorySaver())


def show(graph: Any, given: Any, options: dict[str, Any]) -> None:  # noqa: ANN401 - see build
    """Print the answer as it streams, and what the memory says of its steps."""
    for _, mode, part in graph.stream(
        given, **options, stream_mode=["messages", "custom"], subgraphs=True
    ):
        if mode == "messages":
            print(part[0].text, end="", flush=True)
        else:
            step = part.pop("amem")
            counts = {k: v if isinstance(v, int) else len(v) for k, v in part.items() if v}
            told = ", ".join(f"{count} {name}" for name, count in counts.items())
            print(f"\n    {step:<9} {told or 'nothing'}", end="\nAgent: " * (step == "recall"))
    print()


def main() -> None:
    """Hold two conversations, and review what evolution makes of them."""
    model = ScriptedModel({"construct": construct, "evolve": evolve})
    memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())
    graph = build(memory)
    for thread, text in (
        ("monday", "I signed up for a pottery class."),
        ("sunday", "Ella made a bowl at the pottery class."),
        ("sunday", "Who comes along to the pottery class?"),
    ):
        options: dict[str, Any] = {
            "config": {"configurable": {"thread_id": thread}},
            "context": Context("melanie"),
        }
        print(f"\nMelanie: {text}", end="")
        show(graph, {"messages": [HumanMessage(text)]}, options)
        for pending in graph.get_state(options["config"]).interrupts:
            (entry,) = pending.value["entries"]
            edited = {"context": LATER.replace("Ella", "her daughter Ella")}
            print(f"    review    the note {entry['note']['content']!r} is to change")
            print(
                f"              before: {entry['before']}\n              after:  {entry['after']}"
            )
            print(f"              edited: {edited['context']}", end="")
            show(graph, Command(resume={entry["id"]: edited}), options)
    first = memory.get_all(namespace=("melanie",))[0]
    print(f"\nThe first note now: {first.content!r}")
    for item in first.contexts:
        print(f"  - {item.text} {list(item.tags)}")
    memory.close()


if __name__ == "__main__":
    main()
