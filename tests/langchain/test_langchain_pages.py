"""The code of guides, examples and the README runs offline, and prints what they promise; other people's code runs too."""

from __future__ import annotations

import json
import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_kit import Talker, ask, called, calling, scripted

from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemStore

ROOT = Path(__file__).parents[2]
PLATFORM = ROOT / "examples/langgraph_platform"
ANSWERS = {"What is my dog called?": "Rex.", "My dog is called Rex.": "Nice to meet Rex!"}
PROMISED = {
    "langgraph_evolution": [
        "before: Melanie and pottery.",
        "1 evolved",
        "something she does with her daughter",
    ],
    "langchain_agent": [
        "You live in Oslo.",
        "I do not know yet.",
        "[correct_memory]",
        "user: Ann lives in Bergen.",
    ],
    "langchain_agent_review": [
        "A person is asked: forget_memory",
        "My key is under the flower pot.",
        "started again --\nI have forgotten where the key is.\n['Thank you, I will",
    ],
    "langchain_classic_chain": ["<memories>", "I made a bowl", "You made a bowl."],
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning",
    "ignore::DeprecationWarning",
)


def page(name, language="python"):
    """Return the blocks of a language on a page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_runs_offline(name, capsys):
    runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [text for text in PROMISED[name] if text not in printed] == []


def test_the_readme_shows_each_door_with_a_real_model():
    shown = "\n".join(page("README.md"))
    for name in ("AMemMiddleware", "memory_tools", "recall_node", "remember_node", "evolve_node"):
        assert f"{name}(" in shown
    assert shown.count('"openai:') >= 2


def talk(messages):
    said = messages[-1].text
    return next((answer for asked, answer in ANSWERS.items() if asked in said), "I see.")


GUIDES = ["langchain", "langchain-documents", "langgraph", "langgraph-store"]


@pytest.mark.parametrize("name", GUIDES)
def test_the_guide_runs(name, monkeypatch, capsys):
    code, opening = "\n".join(page(f"docs/{name}.md")), 'open_memory("./memory")'
    assert opening in code
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: Talker(answer=talk))
    module = type(sys)("guide")
    monkeypatch.setitem(sys.modules, "guide", module)  # where type hints are looked up
    module.__dict__.update(__name__="guide", embedder=HashEmbedder(), model=scripted())
    here = 'open_memory(":memory:", embedder=embedder, model=model)'
    exec(code.replace(opening, here), module.__dict__)
    module.__dict__["memory"].close()
    printed = capsys.readouterr().out
    for shown in page(f"docs/{name}.md", "text"):
        assert re.search(re.escape(shown).replace("…", ".*"), printed), printed


# LangGraph Platform


def named(reference):
    """Return what a reference such as `./store.py:open_store` names, as the server loads it."""
    path, name = reference.split(":")
    return runpy.run_path(str(PLATFORM / path))[name]


async def test_the_graph_of_the_platforms_file_works_with_its_store(monkeypatch, tmp_path):
    config = json.loads((PLATFORM / "langgraph.json").read_text(encoding="utf-8"))
    (shown,) = page("docs/langgraph-store.md", "json")
    assert json.loads(shown) == config
    monkeypatch.setenv("AMEM_LOCATION", str(tmp_path))
    monkeypatch.setattr("amem_integrations.providers.minilm.MiniLmEmbedder", HashEmbedder)
    graph, open_store = named(config["graphs"]["agent"]), named(config["store"]["path"])
    noted = "I will keep that in mind."
    for user, said, answer in (
        ("ann", "My dog is called Rex.", noted),
        ("ann", "What is my dog called?", "You said: My dog is called Rex."),
        ("bob", "What is my dog called?", noted),
    ):
        async with open_store() as store:  # and again, as after a restart of the server
            graph.store = store
            done = await graph.ainvoke(ask(said), context={"user_id": user})
            assert done["messages"][-1].text == answer


# langmem

PLACE = ("memories", "{langgraph_user_id}")


@pytest.fixture
def langmem():
    with warnings.catch_warnings():
        # langmem depends on a package that uses imports LangGraph has moved.
        warnings.simplefilter("ignore")
        return pytest.importorskip("langmem", reason="not with the lowest versions")


def of(user):
    return {"configurable": {"langgraph_user_id": user, "thread_id": "1"}}


def run(langmem, store, user, tool, **arguments):
    manage = langmem.create_manage_memory_tool(PLACE)
    search = langmem.create_search_memory_tool(PLACE, response_format="content_and_artifact")
    agent = create_agent(calling(called(tool, **arguments)), [manage, search], store=store)
    return agent.invoke(ask("Go."), of(user))["messages"][2].artifact


def test_langmems_tools_write_search_update_and_delete_for_one_user(langmem, memory):
    store, mine = AMemStore(memory), ("memories", "ann")
    run(langmem, store, "ann", "manage_memory", content="Ann moved to Oslo.", action="create")
    (item,) = store.search(mine)
    assert item.value == {"content": "Ann moved to Oslo."}
    found = run(langmem, store, "ann", "search_memory", query="Where does Ann live?")
    assert [one.key for one in found] == [item.key]
    assert run(langmem, store, "bob", "search_memory", query="Where does Ann live?") == []
    rome = {"content": "Ann moved to Rome."}
    run(langmem, store, "ann", "manage_memory", action="update", id=item.key, **rome)
    assert [one.value for one in store.search(mine)] == [rome]
    run(langmem, store, "ann", "manage_memory", action="delete", id=item.key)
    assert store.search(mine) == []


def test_langmems_store_manager_keeps_what_a_model_extracts(langmem, memory):
    store = AMemStore(memory, evolve=True)
    model = calling(called("Memory", content="Ann moved to Oslo."))
    manager = langmem.create_memory_store_manager(model, namespace=PLACE, store=store)
    manager.invoke(ask("I moved to Oslo."), config=of("ann"))
    (item,) = store.search(("memories", "ann"))
    assert item.value == {"kind": "Memory", "content": {"content": "Ann moved to Oslo."}}
    memory.flush()
    assert store.note(("memories", "ann"), item.key).state == "done"
    assert [hit.key for hit in manager.search(query="Oslo", config=of("ann"))] == [item.key]
