"""`LlamaIndexChatModel` asks by schema where the LLM calls functions, and in words where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.llm import ToolSelection
from llamaindex_fakes import (
    ANN,
    REQUEST,
    Chatbot,
    Toolbot,
    annotated_text,
    assistant,
    calling,
    user,
)

from amem_integrations import (
    AgenticMemory,
    AmemError,
    ConfigurationError,
    MemoryConfig,
)
from amem_integrations.testing import HashEmbedder
from llamaindex_amem import LlamaIndexChatModel

Answer = Callable[[str], ChatMessage]


def filled_in(prompt: str) -> ChatMessage:
    """Call the function, as a model does that knows how."""
    return calling("ConstructReply", json.loads(annotated_text([user(prompt)])))


def broken(prompt: str) -> ChatMessage:
    """Call the function with JSON that breaks off before its last brackets."""
    return calling("ConstructReply", annotated_text([user(prompt)])[:-2])


def in_text(prompt: str) -> ChatMessage:
    """Say the arguments instead of calling the function."""
    return assistant(f"Sure!\n```json\n{annotated_text([user(prompt)])}\n```")


def one_call_a_note(prompt: str) -> ChatMessage:
    """Call the function once for each note."""
    notes = json.loads(annotated_text([user(prompt)]))["notes"]
    blocks = [calling("ConstructReply", {"notes": [note]}).blocks[0] for note in notes]
    return ChatMessage(role="assistant", blocks=blocks)


class Caller(Toolbot):
    """A model that is given functions; in words, it answers as well."""

    _given: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _answers: Answer = PrivateAttr()

    def __init__(self, answers: Answer = filled_in) -> None:
        super().__init__()
        self._answers = answers

    @property
    def given(self) -> list[dict[str, Any]]:
        """What came with each call, beside the messages."""
        return self._given

    def _answer(self, prompt: str, **kwargs: Any) -> ChatMessage:
        self._prompts.append(prompt)
        self._given.append(kwargs)
        return self._answers(prompt) if kwargs.get("tools") else in_text(prompt)


class RefusalError(Exception):
    """What a vendor's package raises for an answer that is an error."""

    def __init__(self, status: int, text: str = "no tools, please") -> None:
        super().__init__(text)
        self.status_code = status


class Refusing(Caller):
    """A model whose server takes no functions."""

    _error: Exception = PrivateAttr(default_factory=lambda: RefusalError(400))

    def _answer(self, prompt: str, **kwargs: Any) -> ChatMessage:
        answer = super()._answer(prompt, **kwargs)
        if kwargs.get("tools"):
            raise self._error
        return answer


class Failing(Caller):
    """A model that raises whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    _error: Exception = PrivateAttr()

    def _answer(self, prompt: str, **kwargs: Any) -> ChatMessage:
        super()._answer(prompt, **kwargs)
        raise self._error


def forms(llm: Caller) -> list[str]:
    return ["schema" if given.get("tools") else "words" for given in llm.given]


def opened(llm: Any, **options: Any) -> AgenticMemory:
    model = LlamaIndexChatModel(llm, **options)
    return AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder())


# --- by schema


def test_a_model_that_calls_functions_has_to_call_one_with_the_reply():
    llm = Caller()
    with opened(llm) as memory:
        first = memory.add("My dog is called Rex.", namespace=ANN)
        memory.add("Rex likes the sea.", namespace=ANN)

    assert (first.state, first.tags) == ("done", ("talk",))
    assert forms(llm) == ["schema"] * 3
    (construct,), _, (evolve,) = [given["tools"] for given in llm.given]
    assert [tool.metadata.name for tool in (construct, evolve)] == [
        "ConstructReply",
        "EvolveReply",
    ]
    assert '"k"' in json.dumps(construct.metadata.get_parameters_dict())  # keywords
    assert all(given["tool_required"] for given in llm.given)


def test_the_prompt_reaches_the_model_as_it_is_by_schema_too():
    llm, model = Caller(lambda _: calling("Reply", {"notes": []})), LlamaIndexChatModel
    model(llm).generate(REQUEST)

    assert llm.prompts == [f"system: Be brief.\nuser: {REQUEST.prompt}"]


def test_a_model_that_calls_no_functions_is_asked_in_words():
    for structured in ["auto", "words"]:
        llm = Caller() if structured == "words" else Chatbot(annotated_text([user("n1")]))
        with opened(llm, structured=structured) as memory:
            assert memory.add("My dog is called Rex.", namespace=ANN).state == "done"

        assert not isinstance(llm, Caller) or forms(llm) == ["words"]


def test_what_can_be_read_of_a_reply_is_read():
    for answers in [broken, in_text, one_call_a_note]:
        llm = Caller(answers)
        with opened(llm) as memory:
            assert memory.add("My dog is called Rex.", namespace=ANN).state == "done"
            assert memory.stats()["usage"]["construct"].get("rejected_replies", 0) == 0


def test_the_core_is_given_what_the_model_wrote():
    for calls, text in [
        ([{"a": 1}], '{"a": 1}'),
        (['{"a": 1'], '{"a": 1'),
        ([{}, "", "{}"], "in words"),
        ([{"a": 1}, {}, '{"a": "ø"}'], '[{"a": 1}, {"a": "ø"}]'),
    ]:
        blocks = [TextBlock(text="in words"), *(calling("Reply", c).blocks[0] for c in calls)]
        llm = Caller(lambda _, blocks=blocks: ChatMessage(role="assistant", blocks=blocks))

        assert LlamaIndexChatModel(llm).generate(REQUEST).text == text


def test_calls_are_read_as_an_older_integration_gives_them():
    class Older(Caller):
        def get_tool_calls_from_response(
            self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
        ) -> list[ToolSelection]:
            assert not error_on_no_tool_call
            calls = response.message.additional_kwargs["tool_calls"]
            return [ToolSelection(tool_id="1", tool_name="x", tool_kwargs=c) for c in calls]

    def answers(prompt: str) -> ChatMessage:
        (block,) = filled_in(prompt).blocks
        assert isinstance(block, ToolCallBlock)
        return ChatMessage(role="assistant", additional_kwargs={"tool_calls": [block.tool_kwargs]})

    with opened(Older(answers)) as memory:
        assert memory.add("My dog is called Rex.", namespace=ANN).state == "done"


# --- in words after a refusal


def test_after_a_refusal_the_model_is_asked_in_words_from_then_on():
    for error in [RefusalError(400), RefusalError(501), NotImplementedError("tools")]:
        llm = Refusing()
        llm._error = error
        with opened(llm) as memory:
            assert memory.add("My dog is called Rex.", namespace=ANN).state == "done"
            assert memory.add("Rex likes the sea.", namespace=ANN).state == "done"

        assert forms(llm) == ["schema", "words", "words", "words"]


def test_where_schemas_are_settled_a_refusal_is_an_error():
    with opened(Refusing(), structured="schema") as memory:
        note = memory.add("My dog is called Rex.", namespace=ANN)
    assert note.state == "failed"
    assert "no tools, please" in str(note.failure)
    with pytest.raises(ConfigurationError, match=r"'chatbot' calls no functions.*'auto'"):
        LlamaIndexChatModel(Chatbot(), structured="schema").generate(REQUEST)


def test_a_model_that_refuses_both_forms_is_asked_by_schema_again():
    llm = Failing(RefusalError(400, "too long"))
    model = LlamaIndexChatModel(llm)
    for _ in range(2):
        with pytest.raises(RefusalError, match="too long"):
            model.generate(REQUEST)

    assert forms(llm) == ["schema", "words"] * 2


def test_a_model_that_is_down_is_not_taken_for_one_that_refuses():
    llm = Failing(RefusalError(503, "overloaded"))
    with opened(llm) as memory:
        assert memory.add("My dog is called Rex.", namespace=ANN).state == "pending"
        assert memory.stats()["usage"]["total"]["unavailable"] == 1

    assert forms(llm) == ["schema"]


def test_another_model_in_the_settings_is_asked_by_schema(monkeypatch):
    refusing, calling_one = Refusing(), Caller()
    model = LlamaIndexChatModel()
    for llm in (refusing, calling_one, refusing):
        monkeypatch.setattr(Settings, "_llm", llm)
        model.generate(REQUEST)
        model.generate(REQUEST)

    assert forms(refusing) == ["schema", "words", "words", "words", "words"]
    assert forms(calling_one) == ["schema", "schema"]


# --- errors


def test_errors_are_those_of_the_core():
    for error, says, state in [
        (RefusalError(401, "key sk-secret"), "check the API key", "pending"),
        (RefusalError(404, "no such model"), "check its name", "pending"),
        (RefusalError(413, "much too long"), "much too long", "failed"),
        (RefusalError(429, "slower"), "slower.*try again later", "pending"),
        (ConnectionError("no route"), "no route", "pending"),
        (type("GoogleError", (Exception,), {"code": 400})("odd"), "refused.*odd", "failed"),
        (
            type("HttpxError", (Exception,), {"response": SimpleNamespace(status_code=403)})(),
            "check the API key",
            "pending",
        ),
    ]:
        config = MemoryConfig(on_model_error="raise")
        model = LlamaIndexChatModel(Failing(error))
        memory = AgenticMemory.open(":memory:", model=model, embedder=HashEmbedder(), config=config)

        with (
            pytest.raises(AmemError, match=says) if state == "pending" else nullcontext() as raised
        ):
            memory.add("My dog is called Rex.", namespace=ANN)

        (note,) = memory.get_all(namespace=ANN)
        assert note.state == state
        assert state == "pending" or re.search(says, str(note.failure))
        assert "sk-secret" not in str(raised and raised.value)
        memory.close()


def test_what_cannot_be_used_is_refused_at_once():
    for wrong, says in [
        ({"llm": "gpt-5-mini"}, "'gpt-5-mini' is no LlamaIndex LLM"),
        ({"llm": Chatbot}, "is no LlamaIndex LLM"),
        ({"structured": "yaml"}, "structured='yaml' must be"),
    ]:
        with pytest.raises(ConfigurationError, match=says):
            LlamaIndexChatModel(**wrong)


# --- what it costs, and where it runs


class Telling(Caller):
    """A model whose answers come with what its server says of them."""

    _raw: Any = PrivateAttr(default=None)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return super().chat(messages, **kwargs).model_copy(update={"raw": self._raw})


def test_tokens_are_counted_where_integrations_report_them_and_estimated_otherwise():
    reported = [
        {"usage": {"prompt_tokens": 11, "completion_tokens": 7}},
        {"usage_metadata": {"prompt_token_count": 11, "candidates_token_count": 7}},
    ]
    for raw in [*reported, None, {}, "text", {"usage": None}, {"usage": {"input_tokens": 0}}]:
        llm = Telling()
        llm._raw = raw
        with opened(llm) as memory:
            memory.add("My dog is called Rex.", namespace=ANN)
            counted = memory.stats()["usage"]["construct"]
        tokens = (counted["input_tokens"], counted["output_tokens"])
        assert tokens == (11, 7) if raw in reported else min(tokens) > 2


def test_the_system_message_is_in_the_role_the_model_wants():
    class Assistant(Chatbot):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(is_chat_model=True, system_role=MessageRole.USER)

    llm = Assistant()
    LlamaIndexChatModel(llm).generate(REQUEST)

    assert llm.prompts == [f"user: Be brief.\nuser: {REQUEST.prompt}"]


def test_a_name_of_ones_own_is_recorded():
    with opened(Caller(), name="mine") as memory:
        assert memory.add("My dog is called Rex.", namespace=ANN).attributes_source == "mine"
