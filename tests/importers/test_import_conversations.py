"""Exports of ChatGPT and Claude: trees of messages, of which one branch was shown last."""

from __future__ import annotations

from datetime import UTC, datetime
from zipfile import ZipFile

from importing_kit import imported_twice, open_memory, write

from amem_integrations.importers import import_from

ANN = ("ann",)
START = 1_700_000_000.25


def node(name, parent, children, role, parts, *, kind="text", tool=None, **more):
    body = {"text": parts} if isinstance(parts, str) else {"parts": parts}
    usual = {"create_time": START + int(name), "weight": 1.0, "metadata": {}, "recipient": "all"}
    said = {"author": {"role": role, "name": tool}, "content": {"content_type": kind, **body}}
    message = {"id": name, **said, **usual, **more}
    return {"id": name, "message": message, "parent": parent, "children": children}


IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0000"}
SPOKEN = {"content_type": "audio_transcription", "text": "And in winter?", "direction": "in"}
AUDIO = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_0001"}
HIDDEN = {"is_visually_hidden_from_conversation": True}


def chatgpt():
    nodes = [
        {"id": "root", "message": None, "parent": None, "children": ["1"]},
        node("1", "root", ["2"], "system", [""], create_time=None, weight=0.0, metadata=HIDDEN),
        node("2", "1", ["3"], "user", "My name is Ann.", kind="user_editable_context"),
        node("3", "2", ["4", "5"], "user", ["What is on this picture?", IMAGE], kind="multimodal_text"),
        node("4", "3", [], "assistant", ["A pear, I think."]),
        node("5", "3", ["6"], "assistant", "search('quince')", kind="code", recipient="browser"),
        node("6", "5", ["7"], "tool", "…", kind="tether_browsing_display", tool="browser"),
        node("7", "6", ["8"], "assistant", [], kind="thoughts"),
        node("8", "7", ["9", "x"], "assistant", ["A quince."], create_time=None),
        node("9", "8", ["10"], "user", [SPOKEN, AUDIO], kind="multimodal_text"),
        node("10", "9", ["11"], "assistant", ["Bare."]),
        node("11", "10", ["13"], "user", ["hidden"], weight=0.0),
        node("13", "11", ["12"], "user", ["hidden too"], metadata=HIDDEN),
        node("12", "13", [], "assistant", ["look(4)"], recipient=["python"]),
    ]  # fmt: skip
    mapping = {one["id"]: one for one in nodes}
    ids = {"conversation_id": "c-1", "id": "c-1", "current_node": "12"}
    talk = {"title": "Fruit", "create_time": START, "mapping": mapping, **ids}
    secret = {**talk, "id": "c-2", "conversation_id": "c-2", "is_do_not_remember": True}
    return [talk, secret]


def test_chatgpt_takes_what_was_said_on_the_branch_that_was_shown_last(tmp_path):
    report, notes = imported_twice(write(tmp_path, "conversations.json", chatgpt()), namespace=ANN)
    assert report.format == "chatgpt"
    assert [(note.speaker, note.content) for note in notes] == [
        ("user", "What is on this picture?"),
        ("assistant", "A quince."),
        ("user", "And in winter?"),
        ("assistant", "Bare."),
    ]
    assert {(note.thread, note.metadata["title"]) for note in notes} == {("c-1", "Fruit")}
    assert [note.source for note in notes] == ["user", "assistant"] * 2
    # A message without a time has that of the message before it.
    assert [note.at.timestamp() for note in notes[:2]] == [START + 3, START + 7]
    assert report.skipped == {
        "image or other file": 2,
        "custom instructions": 1,
        "call of a tool": 2,
        "output of a tool": 1,
        "reasoning": 1,
        "hidden message": 2,
        "message on another branch": 1,
        "conversation that was not to be remembered": 1,
    }
    where = report.first_skipped["conversation that was not to be remembered"]
    assert where.endswith("conversations.json, item 2")


def test_a_zip_file_is_read_as_the_conversations_in_it(tmp_path):
    path = tmp_path / "export.zip"
    one, two = chatgpt()
    write(tmp_path, "0.json", [one])
    write(tmp_path, "1.json", {"conversations": [{**two, "is_do_not_remember": False}]})
    with ZipFile(path, "w") as archive:
        archive.write(tmp_path / "0.json", "conversations-000.json")
        archive.write(tmp_path / "1.json", "conversations-001.json")
        archive.writestr("user.json", '{"email": "ann@example.org"}')
    report, notes = imported_twice(path, namespace=ANN)
    assert report.added == {ANN: 8}
    assert {note.thread for note in notes} == {"c-1", "c-2"}


def test_a_conversation_that_went_on_adds_only_what_is_new(tmp_path):
    path = write(tmp_path, "conversations.json", chatgpt())
    with open_memory() as memory:
        import_from(memory, path, namespace=ANN)
        later = chatgpt()
        mapping = later[0]["mapping"]
        mapping["12"]["children"] = ["13"]
        mapping["13"] = node("13", "12", [], "user", ["Thanks."])
        later[0]["current_node"] = "13"
        report = import_from(memory, write(tmp_path, "conversations.json", later), namespace=ANN)
        assert report.added == {ANN: 1}


DAMAGES = {
    "the end is gone": lambda talk: talk.update(current_node="gone"),
    "the end is no id": lambda talk: talk.update(current_node=["10"]),
    "a circle": lambda talk: talk["mapping"]["1"].update(parent="12"),
    "no author": lambda talk: talk["mapping"]["9"]["message"].update(author=None),
    "no content": lambda talk: talk["mapping"]["9"]["message"].update(content=None),
    "no node": lambda talk: talk["mapping"].update({"4": None}),
}


def test_a_damaged_tree_does_not_stop_an_import(tmp_path):
    for name, damage in DAMAGES.items():
        talk = chatgpt()[0]
        damage(talk)
        _, notes = imported_twice(write(tmp_path, "conversations.json", [talk]), namespace=ANN)
        assert "A quince." in [note.content for note in notes], name


def test_where_the_end_is_not_said_the_order_of_the_messages_makes_no_difference(tmp_path):
    talk = chatgpt()[0]
    _, whole = imported_twice(write(tmp_path, "conversations.json", [talk]), namespace=ANN)
    del talk["current_node"]
    other = talk["mapping"].pop("4")
    talk["mapping"] = {"4": other, **dict(reversed(talk["mapping"].items()))}
    _, notes = imported_twice(write(tmp_path, "conversations.json", [talk]), namespace=ANN)
    assert [note.content for note in notes] == [note.content for note in whole]


def said(name, sender, blocks, parent=None, **more):
    text = "\n".join(block.get("text", "This block is not supported.") for block in blocks)
    at = f"2026-02-14T10:04:0{name[-1]}.000000Z"
    message = {"uuid": name, "sender": sender, "created_at": at, "text": text, "content": blocks}
    return message | more | ({} if parent is None else {"parent_message_uuid": parent})


def text(words):
    return {"type": "text", "text": words}


def claude():
    root = "00000000-0000-4000-8000-000000000000"
    pasted = {"file_name": "notes.txt", "extracted_content": "Prune in March."}
    talk = {
        "uuid": "t-1",
        "name": "Trees",
        "account": {"uuid": "a-1"},
        "chat_messages": [
            said("m1", "human", [text("When do I prune?")], root, attachments=[pasted],
                 files=[{"file_name": "tree.jpg"}]),
            said("m2", "assistant", [text("In May.")], "m1"),
            said("m3", "assistant", [{"type": "thinking", "thinking": "Read the notes."},
                                     {"type": "tool_use", "name": "view", "input": {}},
                                     {"type": "tool_result", "name": "view", "content": []},
                                     text("In March,"), text("before the sap.")], "m1"),
            said("m4", "human", [text("Thanks.")], "m3"),
        ],
    }  # fmt: skip
    older = [
        {"uuid": "m8", "sender": "human", "text": "Hello.", "created_at": "2024-02-14T10:04:01Z"},
        {"uuid": "m9", "sender": "assistant", "text": "Hello Ann."},
    ]
    return [talk, {"uuid": "t-2", "name": "", "account": {}, "chat_messages": older}]


def test_claude_takes_texts_and_attachments_of_the_branch_that_was_shown_last(tmp_path):
    report, notes = imported_twice(write(tmp_path, "conversations.json", claude()), namespace=ANN)
    assert report.format == "claude"
    assert [(note.thread, note.speaker, note.content) for note in notes] == [
        ("t-1", "user", "When do I prune?"),
        ("t-1", "user", "Prune in March."),
        ("t-1", "assistant", "In March,\nbefore the sap."),
        ("t-1", "user", "Thanks."),
        ("t-2", "user", "Hello."),
        ("t-2", "assistant", "Hello Ann."),
    ]
    assert notes[1].metadata == {"title": "Trees", "file": "notes.txt"}
    assert notes[0].at == datetime(2026, 2, 14, 10, 4, 1, tzinfo=UTC)
    assert report.skipped == {
        "message on another branch": 1,
        "image or other file": 1,
        "reasoning": 1,
        "call of a tool": 1,
        "output of a tool": 1,
    }


def test_the_current_leaf_decides_the_branch_if_it_is_named(tmp_path):
    talk = {**claude()[0], "current_leaf_message_uuid": "m2"}
    _, notes = imported_twice(write(tmp_path, "conversations.json", [talk]), namespace=ANN)
    assert [note.content for note in notes][-1] == "In May."
    messages = [
        {"uuid": "m1", "sender": "human", "text": "first"},
        {"sender": "assistant", "text": "second"},
        {"uuid": ["m3"], "parent_message_uuid": {"a": 1}, "sender": "human", "text": "third"},
    ]  # their ids are missing, or no texts
    talks = [{"chat_messages": messages, "current_leaf_message_uuid": []}]
    _, notes = imported_twice(write(tmp_path, "conversations.json", talks), namespace=ANN)
    assert [note.content for note in notes] == ["first", "second", "third"]


def test_a_conversation_that_cannot_be_read_is_told_and_the_others_are_taken(tmp_path):
    talks = claude()
    talks[0]["chat_messages"][0]["created_at"] = "yesterday"
    talks[1]["chat_messages"][0]["sender"] = "system"
    report, notes = imported_twice(write(tmp_path, "conversations.json", talks), namespace=ANN)
    assert [note.content for note in notes] == ["Hello Ann."]
    assert "item 1: 'yesterday' is not a time" in report.first_skipped["cannot be read"]
    assert report.skipped["sender 'system'"] == 1


def test_a_long_text_is_one_note_and_one_that_is_too_long_is_told(tmp_path):
    talks, words = claude()[1:], ("The quince is a fruit that is best cooked. " * 2000).strip()
    for given, taken in ((words, [words, "Hello Ann."]), (words * 2, ["Hello Ann."])):
        talks[0]["chat_messages"][0]["text"] = given
        report, notes = imported_twice(write(tmp_path, "conversations.json", talks), namespace=ANN)
        assert [note.content for note in notes] == taken
    assert report.skipped == {"cannot be stored": 1}
    assert "m8" in report.first_skipped["cannot be stored"]
    assert "characters, more than 100000" in report.first_skipped["cannot be stored"]
