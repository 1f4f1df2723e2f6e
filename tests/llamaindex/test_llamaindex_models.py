"""LlamaIndex's models as ports of the core: by schema where the LLM calls functions, and in words where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import llamaindex_fakes as kit
import numpy as np
import pytest
from llama_index.core import MockEmbedding, Settings
from llama_index.core.base.llms import types
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.llms.llm import ToolSelection
from llamaindex_fakes import ANN
from pydantic import Field

from amem_integrations import AgenticMemory, AmemError, ConfigurationError, MemoryConfig
from amem_integrations.testing import HashEmbedder, ScriptedModel
from llamaindex_amem import LlamaIndexChatModel, LlamaIndexEmbedder, open_memory


@pytest.fixture(autouse=True)
def settings():
    before = Settings._llm, Settings._embed_model
    yield
    Settings._llm, Settings._embed_model = before


# --- what a model answers


def filled_in(prompt: str) -> types.ChatMessage:
    """Call the function, as a model does that knows how."""
    return kit.calling("ConstructReply", json.loads(kit.annotated_text([kit.user(prompt)])))


def broken(prompt: str) -> types.ChatMessage:
    """Call the function with JSON that breaks off before its last brackets."""
    return kit.calling("ConstructReply", kit.annotated_text([kit.user(prompt)])[:-2])


def in_text(prompt: str) -> types.ChatMessage:
    """Say the arguments instead of calling the function."""
    return kit.assistant(f"Sure!\n```json\n{kit.annotated_text([kit.user(prompt)])}\n```")


def one_call_a_note(prompt: str) -> types.ChatMessage:
    """Call the function once for each note."""
    notes = json.loads(kit.annotated_text([kit.user(prompt)]))["notes"]
    blocks = [kit.calling("ConstructReply", {"notes": [note]}).blocks[0] for note in notes]
    return types.ChatMessage(role="assistant", blocks=blocks)


class RefusalError(Exception):
    """What a vendor's package raises for an answer that is an error."""

    def __init__(self, status: int, text: str = "no tools, please") -> None:
        super().__init__(text)
        self.status_code = status


class Caller(kit.Toolbot):
    """A model that is given functions, and answers in words as well; it may raise, and say what its server says."""

    _given: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _says: SimpleNamespace = PrivateAttr()

    def __init__(self, **says: Any) -> None:
        super().__init__()
        usual = {"answers": filled_in, "refusal": None, "error": None, "raw": None}
        self._says = SimpleNamespace(**{**usual, **says})  # the refusal is of functions

    @property
    def forms(self) -> list[str]:
        """How it was asked at each call."""
        return ["schema" if given.get("tools") else "words" for given in self._given]

    def _answer(self, prompt: str, **kwargs: Any) -> types.ChatMessage:
        self.prompts.append(prompt)
        self._given.append(kwargs)
        error = self._says.error or (self._says.refusal if kwargs.get("tools") else None)
        if error is not None:
            raise error
        return self._says.answers(prompt) if kwargs.get("tools") else in_text(prompt)

    def chat(self, messages: Sequence[types.ChatMessage], **kwargs: Any) -> types.ChatResponse:
        return super().chat(messages, **kwargs).model_copy(update={"raw": self._says.raw})


def opened(llm: Any, config: MemoryConfig | None = None, **options: Any) -> AgenticMemory:
    model = LlamaIndexChatModel(llm, **options)
    return AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(), config=config)


def add(memory: AgenticMemory, text: str = "My dog is called Rex.") -> Any:
    return memory.add(text, namespace=ANN)


# --- by schema


def test_a_model_that_calls_functions_has_to_call_one_with_the_reply():
    llm = Caller()
    with opened(llm, name="mine") as memory:
        first = add(memory)
        add(memory, "Rex likes the sea.")

    assert (first.state, first.tags, first.attributes_source) == ("done", ("talk",), "mine")
    assert llm.forms == ["schema"] * 3
    (construct,), _, (evolve,) = [given["tools"] for given in llm._given]
    names = [tool.metadata.name for tool in (construct, evolve)]
    assert names == ["ConstructReply", "EvolveReply"]
    assert '"k"' in json.dumps(construct.metadata.get_parameters_dict())  # keywords
    assert all(given["tool_required"] for given in llm._given)


def test_the_prompt_reaches_the_model_as_it_is():
    class Assistant(kit.Chatbot):
        @property
        def metadata(self) -> types.LLMMetadata:
            return types.LLMMetadata(is_chat_model=True, system_role=types.MessageRole.USER)

    caller = Caller(answers=lambda _: kit.calling("Reply", {"notes": []}))
    for llm, role, answer in (
        (kit.Chatbot("one"), "system", "one"),
        (caller, "system", '{"notes": []}'),
        (Assistant("one"), "user", "one"),
    ):
        assert LlamaIndexChatModel(llm).generate(kit.REQUEST).text == answer
        assert llm.prompts == [f"{role}: Be brief.\nuser: {kit.REQUEST.prompt}"]


def test_a_model_that_calls_no_functions_is_asked_in_words():
    wordy = Caller()
    for llm, structured in (
        (wordy, "words"),
        (kit.Chatbot(kit.annotated_text([kit.user("n1")])), "auto"),
    ):
        with opened(llm, structured=structured) as memory:
            assert add(memory).state == "done"
    assert wordy.forms == ["words"]


def test_what_can_be_read_of_a_reply_is_read():
    for answers in (broken, in_text, one_call_a_note):
        with opened(Caller(answers=answers)) as memory:
            assert add(memory).state == "done"
            assert memory.stats()["usage"]["construct"].get("rejected_replies", 0) == 0
    for calls, text in [
        ([{"a": 1}], '{"a": 1}'),
        (['{"a": 1'], '{"a": 1'),
        ([{}, "", "{}"], "in words"),
        ([{"a": 1}, {}, '{"a": "ø"}'], '[{"a": 1}, {"a": "ø"}]'),
    ]:
        blocks = [
            types.TextBlock(text="in words"),
            *(kit.calling("Reply", c).blocks[0] for c in calls),
        ]
        answer = types.ChatMessage(role="assistant", blocks=blocks)
        llm = Caller(answers=lambda _, answer=answer: answer)
        assert LlamaIndexChatModel(llm).generate(kit.REQUEST).text == text


def test_calls_are_read_as_an_older_integration_gives_them():
    class Older(Caller):
        def get_tool_calls_from_response(
            self, response: types.ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
        ) -> list[ToolSelection]:
            assert not error_on_no_tool_call
            calls = response.message.additional_kwargs["tool_calls"]
            return [ToolSelection(tool_id="1", tool_name="x", tool_kwargs=c) for c in calls]

    def answers(prompt: str) -> types.ChatMessage:
        calls = [filled_in(prompt).blocks[0].tool_kwargs]
        return types.ChatMessage(role="assistant", additional_kwargs={"tool_calls": calls})

    with opened(Older(answers=answers)) as memory:
        assert add(memory).state == "done"


# --- in words after a refusal


def test_after_a_refusal_the_model_is_asked_in_words_from_then_on():
    for error in (RefusalError(400), RefusalError(501), NotImplementedError("tools")):
        llm = Caller(refusal=error)
        with opened(llm) as memory:
            assert add(memory).state == add(memory, "Rex likes the sea.").state == "done"

        assert llm.forms == ["schema", "words", "words", "words"]


def test_where_schemas_are_settled_a_refusal_is_an_error():
    with opened(Caller(refusal=RefusalError(400)), structured="schema") as memory:
        note = add(memory)
    assert (note.state, "no tools, please" in str(note.failure)) == ("failed", True)
    with pytest.raises(ConfigurationError, match=r"'chatbot' calls no functions.*'auto'"):
        LlamaIndexChatModel(kit.Chatbot(), structured="schema").generate(kit.REQUEST)


def test_a_model_that_refuses_both_forms_is_asked_by_schema_again():
    llm = Caller(error=RefusalError(400, "too long"))
    model = LlamaIndexChatModel(llm)
    for _ in range(2):
        with pytest.raises(RefusalError, match="too long"):
            model.generate(kit.REQUEST)

    assert llm.forms == ["schema", "words"] * 2


def test_settings_are_read_at_each_call_and_another_model_is_asked_by_schema():
    refusing, other, model = Caller(refusal=RefusalError(400)), Caller(), LlamaIndexChatModel()
    for llm in (refusing, other, refusing):
        Settings.llm = llm
        model.generate(kit.REQUEST)
        model.generate(kit.REQUEST)

    assert refusing.forms == ["schema", "words", "words", "words", "words"]
    assert other.forms == ["schema", "schema"]
    assert model.name == "Settings.llm"
    assert LlamaIndexChatModel(kit.Chatbot()).name == "chatbot"
    assert LlamaIndexChatModel(MockLLM()).name == "unknown"


# --- errors, and what it costs


def test_errors_are_those_of_the_core():
    google = type("GoogleError", (Exception,), {"code": 400})
    httpx = type("HttpxError", (Exception,), {"response": SimpleNamespace(status_code=403)})
    aiohttp = type("AiohttpError", (Exception,), {"status": 404})
    refused = {"ResponseMetadata": {"HTTPStatusCode": 400}, "Error": {"Code": "Validation"}}
    botocore = type("ClientError", (Exception,), {"response": refused})
    for error, says, state in [
        (RefusalError(401, "key sk-secret"), "check the API key", "pending"),
        (RefusalError(404, "no such model"), "check its name", "pending"),
        (RefusalError(413, "much too long"), "much too long", "failed"),
        (RefusalError(429, "slower"), "slower.*try again later", "pending"),
        (RefusalError(503, "overloaded"), "overloaded", "pending"),
        (ConnectionError("no route"), "no route", "pending"),
        (google("odd"), "refused.*odd", "failed"),
        (httpx(), "check the API key", "pending"),
        (aiohttp("no model"), "check its name", "pending"),
        (botocore("no tools"), "refused.*no tools", "failed"),
    ]:
        llm = Caller(error=error)
        raises = pytest.raises(AmemError, match=says) if state == "pending" else nullcontext()
        with opened(llm, MemoryConfig(on_model_error="raise")) as memory:
            with raises as raised:
                add(memory)
            (note,) = memory.get_all(namespace=ANN)
        assert note.state == state
        assert state == "pending" or re.search(says, str(note.failure))
        assert "sk-secret" not in str(raised and raised.value)
        # What is overloaded is not taken for what refuses.
        assert says != "overloaded" or llm.forms == ["schema"]


def test_what_cannot_be_used_is_refused_at_once(tmp_path):
    for wrong, says in [
        ({"llm": "gpt-5-mini"}, "'gpt-5-mini' is no LlamaIndex LLM"),
        ({"llm": kit.Chatbot}, "is no LlamaIndex LLM"),
        ({"structured": "yaml"}, "structured='yaml' must be"),
    ]:
        with pytest.raises(ConfigurationError, match=says):
            LlamaIndexChatModel(**wrong)
    embedder = HashEmbedder(32)
    for wrong, says in (({"model": "gpt-5-mini"}, "model="), ({"colour": "red"}, "colour")):
        with pytest.raises(ConfigurationError, match=says):
            open_memory(str(tmp_path), embedder=embedder, **wrong)


def test_tokens_are_counted_where_integrations_report_them_and_estimated_otherwise():
    reported = [
        {"usage": {"prompt_tokens": 11, "completion_tokens": 7}},
        {"usage_metadata": {"prompt_token_count": 11, "candidates_token_count": 7}},
    ]
    for raw in [*reported, None, {}, "text", {"usage": None}, {"usage": {"input_tokens": 0}}]:
        with opened(Caller(raw=raw)) as memory:
            add(memory)
            counted = memory.stats()["usage"]["construct"]
        tokens = (counted["input_tokens"], counted["output_tokens"])
        assert tokens == (11, 7) if raw in reported else min(tokens) > 2


# --- embedders, and the door


class Recording(MockEmbedding):
    """An embedding model that keeps what it was given, and whose vectors are three long."""

    given: list[str] = Field(default_factory=list)

    def _get_text_embedding(self, text: str) -> list[float]:
        self.given.append(text)
        return [3.0 * float(x) for x in HashEmbedder(self.embed_dim).embed_query(text)]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(f"? {query}")


def test_an_embedding_model_embeds_for_the_memory(caplog):
    Settings.embed_model = model = Recording(32, model_name="mock-32")
    prefixes = {"query_prefix": "query: ", "document_prefix": "text: "}
    embedder = LlamaIndexEmbedder(dimensions=32, max_tokens=10, **prefixes)
    Settings.embed_model = MockEmbedding(16)  # the one before is kept
    rows = [*embedder.embed_documents(["one", "a" * 100]), embedder.embed_query("one")]
    assert model.given == ["text: one", "text: " + "a" * 100, "? query: one"]
    for row in rows:
        assert (row.shape, row.dtype) == ((32,), np.float32)
        assert np.linalg.norm(row) == pytest.approx(1)
    assert embedder.embed_documents([]).shape == (0, 32)
    assert embedder.truncated == caplog.text.count("reads only the first 10 tokens") == 1
    assert embedder.name.endswith(":mock-32 (query: | text:)")
    embedder = LlamaIndexEmbedder(MockEmbedding(8, model_name="mock-8"))
    assert (embedder.name, embedder.dimensions) == ("MockEmbedding:mock-8", 8)
    assert LlamaIndexEmbedder(model, name="mine").name == "mine"


def test_a_memory_is_opened_with_models_of_the_framework_or_of_its_own(tmp_path):
    mock, own = MockEmbedding(8), HashEmbedder(32)
    with open_memory(tmp_path, model=kit.Chatbot("{}"), embedder=mock, collection="c") as memory:
        assert (memory.embedder.dimensions, memory.info()["model"]) == (8, "chatbot")
    with open_memory(":memory:", model=ScriptedModel(kit.annotated), embedder=own) as memory:
        assert memory.embedder is own
    with open_memory(":memory:", embedder=own) as memory:
        assert memory.info()["model"] == "rules"
