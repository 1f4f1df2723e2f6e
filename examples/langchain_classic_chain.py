"""Long-term memory for a classic LangChain chain: one more line than without.

Runs offline. To use real models:

    from langchain.chat_models import init_chat_model
    from langchain_amem import open_memory

    chat = init_chat_model("openai:gpt-5-mini")
    memory = open_memory("./memory", model=chat)
"""

from __future__ import annotations

import warnings

from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import PromptTemplate

from amem_integrations import AgenticMemory
from amem_integrations.testing import HashEmbedder
from langchain_amem import AMemMemory

with warnings.catch_warnings():
    # The classic chains are deprecated, and say so; they go on working until LangChain 2.
    warnings.simplefilter("ignore")
    from langchain_classic.chains import LLMChain

PROMPT = PromptTemplate.from_template(
    "Answer briefly, with what you know of the user.\n{history}\n\nHuman: {input}"
)


def chain(memory: AgenticMemory, replies: list[str]) -> LLMChain:
    """Return a chain with a model that says these things; a new one for each conversation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LLMChain(
            llm=FakeListChatModel(responses=replies),
            prompt=PROMPT,
            memory=AMemMemory(memory=memory, namespace=("melanie",), k=3),
        )


def main() -> None:
    """Say something in one conversation, and ask for it in another."""
    memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
    first = chain(memory, ["Pottery is a fine hobby!", "A bowl, well done."])
    for text in ("I signed up for a pottery class.", "I made a bowl at the pottery class."):
        print(f"Melanie: {text}\nChain:   {first.invoke({'input': text})['text']}\n")

    second = chain(memory, ["You made a bowl."])
    result = second.invoke({"input": "What did I make at the pottery class?"})
    print(f"In another conversation the prompt holds\n\n{result['history']}\n")
    print(f"Melanie: {result['input']}\nChain:   {result['text']}")
    memory.close()


if __name__ == "__main__":
    main()
