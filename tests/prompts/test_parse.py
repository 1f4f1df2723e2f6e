"""Answers as small models write them, each with the reply that is read or the reason that none is."""

import json
import re
import time

import pytest
from pydantic import BaseModel

from amem_integrations.errors import ModelReplyError
from amem_integrations.prompts.parse import parse
from amem_integrations.prompts.replies import (
    ConstructReply,
    EvolveReply,
    LinkReply,
    NoteAttributes,
    NoteEvolution,
    ProposedLink,
    ProposedUpdate,
    ReviseReply,
)

ONE = ConstructReply(
    notes=[NoteAttributes(id="n1", context="Ann paints.", keywords=["paint"], tags=["art"])]
)
ITEM = '{"id": "n1", "context": "Ann paints.", "keywords": ["paint"], "tags": ["art"]}'
GOOD = f'{{"notes": [{ITEM}]}}'
TWO = ConstructReply(notes=[*ONE.notes, NoteAttributes(id="n2", context="Bob runs.")])
SECOND = '{"id": "n2", "context": "Bob runs."}'
LINK = LinkReply(links=[ProposedLink(to="c1", relation="answers", reason="asked", strength=0.8)])
NOTHING = EvolveReply(notes=[])

KEPT: dict[str, tuple[str, BaseModel]] = {
    "plain JSON": (GOOD, ONE),
    "a fence": (f"```json\n{GOOD}\n```", ONE),
    "a fence without a language, and chatter": (f"Sure!\n```\n{GOOD}\n```\nHope it helps :)", ONE),
    "chatter with brackets": (f"Here are the notes [as asked]:\n{GOOD}\nAnything {{else}}?", ONE),
    "chatter with an odd quote": (f'The 5" note is done: {GOOD}', ONE),
    "chatter with a lone escape": (f"The \\[ note \\] is done: {GOOD}", ONE),
    "reasoning with a draft": (f'<think>Maybe {{"notes": []}}? No.</think>\n{GOOD}', ONE),
    "only the end of the reasoning": (f'so I say {{"notes": []}}\n</think>\n\n{GOOD}', ONE),
    "a draft and then the answer": (f'Draft: {{"notes": []}}\nFinal: {GOOD}', ONE),
    "an answer and then a remark": (f'{GOOD}\nNote that {{"id": "n9"}} was not shown.', ONE),
    "a tag in the text": (
        '{"change": true, "context": "uses <think> tags"}',
        ReviseReply(change=True, context="uses <think> tags"),
    ),
    "a special token at the end": (f"{GOOD}<|im_end|>", ONE),
    "the schema and then the answer": (
        f"{json.dumps(ConstructReply.model_json_schema())}\n\n{GOOD}",
        ONE,
    ),
    "trailing commas and a comment": (
        (
            '{"notes": [{"id": "n1", // the first\n "context": "Ann paints.",'
            ' "keywords": ["paint",], "tags": ["art"],},]}'
        ),
        ONE,
    ),
    "single quotes, None and True": (
        (
            "{'notes': [{'id': 'n1', 'context': 'Ann paints.', 'keywords': ['paint'], 'tags': ['art'],"
            " 'category': None, 'sure': True}]}"
        ),
        ONE,
    ),
    "keys without quotes": (
        '{notes: [{id: "n1", context: "Ann paints.", keywords: ["paint"], tags: ["art"]}]}',
        ONE,
    ),
    "curly quotes": (re.sub(r'"(.*?)"', r"“\1”", GOOD), ONE),
    "quotes that are not escaped": (
        '{"notes": [{"id": "n1", "context": "Ann said "hi" to Bob."}]}',
        ConstructReply(notes=[NoteAttributes(id="n1", context='Ann said "hi" to Bob.')]),
    ),
    "a line break in a string": (
        '{"notes": [{"id": "n1", "context": "Ann\npaints."}]}',
        ConstructReply(notes=[NoteAttributes(id="n1", context="Ann\npaints.")]),
    ),
    "doubled braces": ('{{"notes": []}}', NOTHING),
    "missing closing brackets": (GOOD.removesuffix("]}"), ONE),
    "missing closing brackets and chatter": (GOOD.removesuffix("}") + "\nDone!", ONE),
    "JSON encoded twice": (json.dumps(GOOD), ONE),
    "a bare list": (f"[{ITEM}]", ONE),
    "a list of one reply": (f"[{GOOD}]", ONE),
    "a list of parts of the reply": (f'[{GOOD}, {{"notes": [{SECOND}]}}]', TWO),
    "a list of one decision": ('[{"change": true}]', ReviseReply(change=True)),
    "calls as text": (
        (
            f'[TOOL_CALLS][{{"name": "f", "arguments": {GOOD}}},'
            f' {{"name": "f", "arguments": {{"notes": [{SECOND}]}}}}]'
        ),
        TWO,
    ),
    "a call between tags": (
        f'<tool_call>\n{{"name": "f", "arguments": {GOOD}}}\n</tool_call>',
        ONE,
    ),
    "a call after a special token": (f'<|python_tag|>{{"name": "f", "parameters": {GOOD}}}', ONE),
    "a call as XML": (f"<function=f>\n<parameter=notes>\n[{ITEM}]\n</parameter>\n</function>", ONE),
    "an empty list": ("```json\n[]\n```", NOTHING),
    "an empty list after reasoning": ("<think>none fit</think>[]", NOTHING),
    "null for nothing": ('{"notes": null}', NOTHING),
    "one object for a list": (f'{{"notes": {ITEM}}}', ONE),
    "one item and no list": (ITEM, ONE),
    "items one after the other": (f"{ITEM}\n{SECOND}", TWO),
    "items in fences of their own": (f"n1:\n```json\n{ITEM}\n```\nn2:\n```\n{SECOND}\n```", TWO),
    "items by alias": (f'{{"notes": {{"n1": {ITEM}, "n2": {{"context": "Bob runs."}}}}}}', TWO),
    "items by alias and no list": (f'{{"n1": {ITEM}, "n2": {{"context": "Bob runs."}}}}', TWO),
    "the name of the reply as a wrapper": (f'{{"ConstructReply": {GOOD}}}', ONE),
    "filled in under properties": (f'{{"type": "object", "properties": {GOOD}}}', ONE),
    "a tool call": (f'{{"name": "reply", "arguments": {json.dumps(GOOD)}}}', ONE),
    "two wrappers": (f'{{"result": {{"data": {GOOD}}}}}', ONE),
    "capital letters in keys": (
        '{"Notes": [{"ID": "n1", "Context": "Ann paints.", "Keywords": ["paint"], "Tags": ["art"]}]}',
        ONE,
    ),
    "text for a list": (
        '{"notes": [{"id": "[n1]", "context": ["Ann", "paints."], "keywords": "paint, ", "tags": "art"}]}',
        ONE,
    ),
    "the placeholders of the example": (
        '{"notes": [{"id": "n1", "context": "…", "keywords": ["…", "paint"], "tags": ["..."]}]}',
        ConstructReply(notes=[NoteAttributes(id="n1", keywords=["paint"])]),
    ),
    "nothing for a list": (
        '{"notes": [{"id": "n1", "context": null, "keywords": "none", "tags": null}]}',
        ConstructReply(notes=[NoteAttributes(id="n1")]),
    ),
    "numbers for texts": (
        '{"notes": [{"id": 1, "keywords": ["a", 2023, null, "", {"b": "c"}]}]}',
        ConstructReply(notes=[NoteAttributes(id="1", keywords=["a", "2023"])]),
    ),
    "half an emoji": (
        '{"notes": [{"id": "n1", "context": "Hi \\ud83d there"}]}',
        ConstructReply(notes=[NoteAttributes(id="n1", context="Hi \ufffd there")]),
    ),
    "a strength in percent": (
        '{"links": [{"to": "c1", "relation": "answers", "reason": "asked", "strength": "80%"}]}',
        LINK,
    ),
    "a strength as text": (
        '{"links": [{"to": "c1", "relation": "answers", "reason": "asked", "strength": "0.8"}]}',
        LINK,
    ),
    "strengths that are no shares": (
        (
            '{"links": [{"to": "c1", "strength": NaN}, {"to": "c2", "strength": "very"},'
            ' {"to": "c3", "strength": 8}, {"to": "c4", "strength": "high"}]}'
        ),
        LinkReply(
            links=[
                ProposedLink(to="c1"),
                ProposedLink(to="c2"),
                ProposedLink(to="c3", strength=1.0),
                ProposedLink(to="c4", strength=0.75),
            ]
        ),
    ),
    "links as bare ids": (
        '{"links": ["c1", "c2"]}',
        LinkReply(links=[ProposedLink(to="c1"), ProposedLink(to="c2")]),
    ),
    "a link to nothing": ('{"links": [{"to": null, "reason": "no match"}]}', LinkReply(links=[])),
    "links and updates of one note": (
        '{"id": "n1", "links": {"to": "c1"}, "updates": {"c2": {"context": "More."}}}',
        EvolveReply(
            notes=[
                NoteEvolution(
                    id="n1",
                    links=[ProposedLink(to="c1")],
                    updates=[ProposedUpdate(to="c2", context="More.")],
                )
            ]
        ),
    ),
    "additional fields of another prompt": (
        '{"should_evolve": true, "actions": ["strengthen"], "notes": []}',
        NOTHING,
    ),
    "yes and no for a decision": ('{"change": "no"}', ReviseReply(change=False)),
    "finished notes before the token limit": (
        f'{{"notes": [{ITEM}, {{"id": "n2", "context": "Bob ru',
        ConstructReply(notes=ONE.notes).cut(),
    ),
    "finished links before the token limit": (
        '{"notes": [{"id": "n1", "links": []}, {"id": "n2", "updates": [{"to": "c1", "context": "A',
        EvolveReply(notes=[NoteEvolution(id="n1")]).cut(),
    ),
    "a repeated answer that hits the token limit": (
        f'{{"notes": [{{"id": "n1"}}]}}\n{GOOD[:40]}',
        ConstructReply(notes=[NoteAttributes(id="n1")]),
    ),
}

REJECTED: dict[str, tuple[str, type[BaseModel], str]] = {
    "nothing": ("  \n", EvolveReply, "empty"),
    "a refusal": ("I'm sorry, but I can't help with that.", ConstructReply, "no JSON"),
    "prose that mentions what it would do": (
        "No evolution needed. It would strengthen n1 and update c2, but nothing new is said.",
        EvolveReply,
        "no JSON",
    ),
    "prose with brackets": (
        "No evolution needed; I would strengthen [n1, c2] and update {c3}.",
        EvolveReply,
        "another shape|does not have the requested shape",
    ),
    "prose with an empty list": ("Links: [] because it would strengthen c1", LinkReply, "no JSON"),
    "a decision in prose": ("Yes, update it with 'Ann paints'.", ReviseReply, "no JSON"),
    "the decision of another prompt": (
        '{"should_evolve": false, "reason": "would strengthen"}',
        EvolveReply,
        "notes: Field required",
    ),
    "a decision that is no boolean": (
        '{"change": "only if needed", "context": "x"}',
        ReviseReply,
        "change: Input should be a valid boolean",
    ),
    "reasoning only": ('<think>I could say {"notes": []}', EvolveReply, "no JSON"),
    "a number": ("42", ConstructReply, "no JSON"),
    "a list of texts": ('["n1", "n2"]', EvolveReply, "another shape"),
    "an empty object": ("{}", EvolveReply, "notes: Field required"),
    "a note without its id": (
        '{"notes": [{"context": "Ann paints."}]}',
        ConstructReply,
        "notes.0.id: Field required",
    ),
    "a text instead of a list": ('{"notes": "Ann paints."}', ConstructReply, "valid list"),
    "the only update cut by the token limit": (
        '{"notes": [{"id": "n2", "updates": [{"to": "c1", "context": "A',
        EvolveReply,
        "breaks off",
    ),
    "a context cut by the token limit": ('{"change": true, "context": "An', ReviseReply, "breaks"),
    "the only note cut by the token limit": (GOOD[:40], ConstructReply, "breaks off"),
    "very deep nesting": ("[" * 100_000, ConstructReply, "no JSON"),
    "very deep objects": ('{"notes":' * 50_000, ConstructReply, "no JSON"),
}


@pytest.mark.parametrize(("text", "expected"), KEPT.values(), ids=KEPT)
def test_what_a_model_meant_is_read(text: str, expected: BaseModel) -> None:
    assert expected == parse(text, type(expected))


@pytest.mark.parametrize("reply", [ConstructReply, EvolveReply, LinkReply, ReviseReply])
def test_a_copy_of_the_schema_is_an_error(reply: type[BaseModel]) -> None:
    with pytest.raises(ModelReplyError, match="repeats the schema"):
        parse(json.dumps(reply.model_json_schema()), reply)


@pytest.mark.parametrize(("text", "reply", "reason"), REJECTED.values(), ids=REJECTED)
def test_what_cannot_be_used_is_an_error_with_a_reason(
    text: str, reply: type[BaseModel], reason: str
) -> None:
    with pytest.raises(ModelReplyError, match=reason) as caught:
        parse(text, reply)
    assert len(str(caught.value)) < 300


# Three notes of which a small model spoils the second, as people report it of local models with memories of other
# makers: what is read of the others is what was written, and the second is read, or missing and asked for again.
FIRST = '{"id": "n1", "c": "Ann paints.", "k": ["paint"], "t": ["art"]}'
LAST = '{"id": "n3", "c": "Cid sails.", "k": ["sail"], "t": ["sea"]}'
BOB = "Bob runs."


def among(spoiled: str) -> str:
    return f'{{"notes": [{FIRST}, {spoiled}, {LAST}]}}'


SPOILED: dict[str, tuple[str, str | None]] = {  # the answer, and what is read of the second note
    "quotes within a sentence": (
        among('{"id": "n2", "c": "Bob said "go" to Ann."}'),
        'Bob said "go" to Ann.',
    ),
    "a quote at the end": (
        among('{"id": "n2", "c": "Bob reads "Dune"", "k": ["Dune"]}'),
        'Bob reads "Dune"',
    ),
    "a quote that is not closed": (among('{"id": "n2", "c": "Bob runs., "k": ["run"]}'), BOB),
    "single quotes and an apostrophe": (
        among("{'id': 'n2', 'c': \"Bob's run.\", 'k': None}"),
        "Bob's run.",
    ),
    "an escape that JSON does not know": (
        among('{"id": "n2", "c": "Bob\\\'s run."}'),
        "Bob's run.",
    ),
    "a line break and a tab": (among('{"id": "n2", "c": "Bob\n\truns."}'), "Bob\n\truns."),
    "no commas between fields": (among('{"id": "n2" "c": "Bob runs." "k": ["run"]}'), BOB),
    "no commas between notes": (
        among('{"id": "n2", "c": "Bob runs."}').replace("}, {", "} {"),
        BOB,
    ),
    "a trailing comma in each list": (
        among('{"id": "n2", "c": "Bob runs.",}').replace("]", ",]"),
        BOB,
    ),
    "a comment": (among('{"id": "n2", // the runner\n "c": "Bob runs."}'), BOB),
    "a brace too few": (among('{"id": "n2", "c": "Bob runs.", "k": ["run"]'), BOB),
    "a brace too many": (among('{"id": "n2", "c": "Bob runs.", "k": ["run"]}}'), BOB),
    "a bracket too few": (among('{"id": "n2", "c": "Bob runs.", "k": ["run"}'), BOB),
    "a key twice": (among('{"id": "n2", "c": "Bob walks.", "c": "Bob runs."}'), BOB),
    "NaN for a sentence": (among('{"id": "n2", "c": NaN, "k": [NaN]}'), ""),
    "undefined for a sentence": (among('{"id": "n2", "c": undefined}'), ""),
    "an object for a sentence": (among('{"id": "n2", "c": {"text": "Bob runs."}}'), ""),
    "the id as the key": (among('{"n2": {"c": "Bob runs."}}'), BOB),
    "an id in words": (among('{"id": "note N2", "c": "Bob runs."}'), BOB),
    "an id with the speaker": (among('{"id": "[n2]: Bob", "c": "Bob runs."}'), BOB),
    "no id": (among('{"c": "Bob runs."}'), None),
    "null as the id": (among('{"id": null, "c": "Bob runs."}'), None),
    "an id under another name": (among('{"note_id": "n2", "c": "Bob runs."}'), None),
    "a text for an object": (among('"n2: Bob runs."'), None),
    "a list for an object": (among('["n2", "Bob runs."]'), None),
    "a number for an object": (among("2"), None),
    "null for an object": (among("null"), None),
    "three dots": (among("..."), None),
    "a comment that there are more": (f'{{"notes": [{FIRST}, // … and n2\n {LAST}]}}', None),
    "a list in the list of another field": (
        f'{{"notes": [{FIRST}, {LAST}, {{"filler": ["n2"]}}]}}',
        None,
    ),
    "a list of each note": (f'{{"notes": [{FIRST}], "notes": [{LAST}]}}', None),
    "an answer for each note": (f'{{"notes": [{FIRST}]}}\n{{"notes": [{LAST}]}}', None),
    "a fence for each note": (
        f'```json\n{{"notes": [{FIRST}]}}\n```\nAnd:\n```json\n{{"notes": [{LAST}]}}\n```',
        None,
    ),
    "a numbered list": (f"1. {FIRST}\n2. {LAST}", None),
    "notes by number": (f'{{"0": {FIRST}, "1": {LAST}}}', None),
    "the schema, filled in below its items": (
        f'{{"notes": {{"type": "array", "items": [{FIRST}, {LAST}]}}}}',
        None,
    ),
    "a list of a list": (f"[[{FIRST}, {LAST}]]", None),
    "the list as text": (json.dumps({"notes": f"[{FIRST}, {LAST}]"}), None),
    "escaped quotes throughout": (f'{{"notes": [{FIRST}, {LAST}]}}'.replace('"', '\\"'), None),
    "channels of thought": (
        f'<|channel|>analysis<|message|>none? {{"notes": []}}<|end|><|channel|>final<|message|>[{FIRST}, {LAST}]',
        None,
    ),
    "thoughts with braces": (f"My thinking:\n1. Read {{all notes}}\n\n[{FIRST}, {LAST}]", None),
}


@pytest.mark.parametrize(("answer", "second"), SPOILED.values(), ids=SPOILED)
def test_what_a_small_model_spoils_is_one_note_and_not_the_batch(
    answer: str, second: str | None
) -> None:
    read = {note.id: note.context for note in parse(answer, ConstructReply).notes}
    expected = {"n1": "Ann paints.", "n2": second, "n3": "Cid sails."}
    assert read == {name: text for name, text in expected.items() if text is not None}


ENDLESS = {
    "newlines": '{"notes": [' + "\n" * 50_000,
    "braces": "{ word " * 7_000,
    "quotes": '"' * 50_000,
    "escaped quotes": '{"' + '\\"' * 25_000,
    "objects": '{"a": 1} ' * 5_000,
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_the_time_to_read_an_endless_answer_is_linear(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ModelReplyError):
        parse(text, EvolveReply)
    assert time.perf_counter() - started < 5  # less than 1; quadratic time would be 20 and more
