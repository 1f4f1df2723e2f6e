"""Chat histories and buffer memories of LangChain, chat stores of LlamaIndex: in files and rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from importing_kit import imported_twice, open_memory, write
from langchain_core import load
from langchain_core import messages as core
from llama_index.core import llms

from amem_integrations import InvalidInputError
from amem_integrations.importers import import_from

ANN, BOB = ("ann",), ("bob",)
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
IMAGES = [{"type": "image_url", "image_url": {"url": url}} for url in ("data:,", "data:,x")]
MESSAGES = [
    core.SystemMessage("Be kind."),
    core.HumanMessage("I am Ann.", id="h1"),
    core.AIMessage("One moment.", tool_calls=[CALL]),
    core.ToolMessage("42", tool_call_id="c1"),
    core.AIMessage("Hello Ann!"),
    core.HumanMessage([{"type": "text", "text": "See?"}, *IMAGES]),
]
SAID = ["I am Ann.", "One moment.", "Hello Ann!", "See?"]
NOT_TAKEN = {"system message": 1, "output of a tool": 1, "image or other file": 2}


def spellings():
    dumped = [message.model_dump(mode="json") for message in MESSAGES]
    buffer = {"chat_memory": {"messages": dumped}, "memory_key": "history", "output_key": None}
    dumps = [load.dumpd(message) for message in MESSAGES]
    dicts = core.messages_to_dict(MESSAGES)
    return {"dumpd": dumps, "to_dict": dicts, "model_dump": dumped, "buffer memory": buffer}


def test_histories_in_files_are_read_as_langchain_writes_them(tmp_path):
    for spelling, history in spellings().items():
        path = write(tmp_path, "session-1.json", history)
        for name in ("auto", "langchain", "chat"):
            report, notes = imported_twice(path, name, namespace=ANN)
            assert [note.content for note in notes] == SAID, (spelling, name)
            assert {note.thread for note in notes} == {"session-1"}, (spelling, name)
            assert report.skipped == NOT_TAKEN, (spelling, name)


def test_the_summary_of_a_summary_memory_is_told(tmp_path):
    messages = [message.model_dump(mode="json") for message in MESSAGES[1:2]]
    memory = {"moving_summary_buffer": "Ann said hello.", "chat_memory": {"messages": messages}}
    report, (note,) = imported_twice(write(tmp_path, "x.json", memory), namespace=ANN)
    assert note.content == "I am Ann."
    assert report.skipped == {"summary that a memory wrote": 1}


def test_a_block_whose_type_is_no_text_is_counted_and_the_words_beside_it_are_taken(tmp_path):
    blocks = [{"type": ["image"]}, {"type": "text", "text": "See?"}]
    path = write(tmp_path, "x.json", [{"role": "user", "content": blocks}])
    report, (note,) = imported_twice(path, namespace=ANN)
    assert note.content == "See?"
    assert report.skipped == {"image or other file": 1}


def test_what_a_runnable_with_message_history_kept_by_session_is_a_thread_each(tmp_path):
    sessions = {"s-1": MESSAGES[:2], "s-2": MESSAGES[4:]}
    store = {"store": {name: core.messages_to_dict(said) for name, said in sessions.items()}}
    _, notes = imported_twice(write(tmp_path, "store.json", store), namespace=ANN)
    told = [(note.thread, note.content) for note in notes]
    assert told == [("s-1", "I am Ann."), ("s-2", "Hello Ann!"), ("s-2", "See?")]


def rows_of_a_database():
    """Return rows as `SQLChatMessageHistory` keeps them."""
    return [
        {"id": 1, "session_id": session, "message": json.dumps(core.message_to_dict(one))}
        for session in ("s-1", "s-2")
        for one in MESSAGES
    ]


def test_rows_of_histories_give_each_session_a_thread():
    report, notes = imported_twice(rows_of_a_database(), namespace=ANN)
    assert report.format == "langchain"
    assert [note.content for note in notes if note.thread == "s-2"] == SAID
    assert report.added == {ANN: 8}
    assert report.skipped == {reason: 2 * count for reason, count in NOT_TAKEN.items()}
    assert report.first_skipped["system message"] == "rows, item 1"


def test_rows_of_other_databases_may_hold_json_and_a_time(tmp_path):
    message = core.message_to_dict(MESSAGES[1])
    row = {"id": 1, "session_id": "0f-1", "created_at": "2026-05-08T10:00:00+00:00"}
    rows = [{**row, "message": json.dumps(message)}, {**row, "message": message}]
    for source in (
        *([row] for row in rows),
        *(write(tmp_path, f"{n}.jsonl", json.dumps(row) + "\n") for n, row in enumerate(rows)),
        *(write(tmp_path, f"{n}.json", [row]) for n, row in enumerate(rows)),
    ):
        report, (note,) = imported_twice(source, namespace=ANN)
        assert report.format == "langchain"
        assert (note.thread, note.at) == ("0f-1", datetime(2026, 5, 8, 10, tzinfo=UTC))


def test_the_same_history_by_any_way_is_the_same_notes(tmp_path):
    with open_memory() as memory:
        import_from(memory, rows_of_a_database(), namespace=ANN, evolve=False)
        path = write(tmp_path, "s-1.json", core.messages_to_dict(MESSAGES))
        assert import_from(memory, path, namespace=ANN).added == {ANN: 0}


def test_a_call_of_a_tool_has_no_place_in_a_conversation():
    asked = {"role": "user", "content": "I am Ann."}
    call = {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c"}]}
    answer = {"role": "assistant", "content": "Hello Ann!"}
    blocks = [
        {"block_type": "text", "text": "Let me look."},
        {"block_type": "tool_call", "tool_name": "look", "tool_kwargs": {}},
    ]
    with open_memory() as memory:
        memory.add_messages([asked, call, answer], namespace=ANN)
        rows = [asked, {"role": "assistant", "blocks": blocks}, answer]
        report = import_from(memory, rows, namespace=ANN)
        assert (report.added, report.skipped) == ({ANN: 0}, {})
        import_from(memory, rows, "jsonl", namespace=BOB)  # what has a place is no metadata, too
        assert [note.metadata for note in memory.get_all(namespace=BOB)] == [{}, {}, {}]


def test_rows_in_hand_are_the_messages_that_add_messages_stores():
    said = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hello!"}]
    with open_memory() as memory:
        for thread in (None, "t"):
            memory.add_messages(said, namespace=ANN, thread=thread)
            assert import_from(memory, said, namespace=ANN, thread=thread).added == {ANN: 0}


def test_a_row_without_a_message_stops_the_import_and_nothing_is_stored():
    with open_memory() as memory:
        for message, said in (
            ("{", ": message is not JSON"),
            ({"type": "human"}, " is no message"),
        ):
            with pytest.raises(InvalidInputError, match=f"item 1{said}"):
                import_from(memory, [{"session_id": "s", "message": message}], namespace=ANN)
        assert memory.namespaces() == []


def test_chat_stores_of_llamaindex_give_each_key_a_thread(tmp_path):
    turns = [("user", "I am Ann."), ("assistant", "Hello!")]
    messages = [llms.ChatMessage(role=role, content=text) for role, text in turns]
    said = [message.model_dump(mode="json") for message in messages]
    store = {"store": {"user-1": said, "user-2": said}, "class_name": "SimpleChatStore"}
    path = write(tmp_path, "chat_store.json", store)
    rows = [
        {"id": number, "key": key, "timestamp": 1_778_234_400_000_000_000 + number, "role": role,
         "status": "active", "data": message.model_dump_json()}
        for key in ("user-1", "user-2")
        for number, ((role, _), message) in enumerate(zip(turns, messages, strict=True))
    ]  # fmt: skip
    for source, name in ((path, "auto"), (path, "llamaindex"), (rows, "auto")):
        report, notes = imported_twice(source, name, namespace=ANN)
        assert source is path or report.format == "llamaindex"
        told = [(note.thread, note.content) for note in notes]
        assert told == [(user, text) for user in ("user-1", "user-2") for _, text in turns]
