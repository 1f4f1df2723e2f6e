"""Replies of a language model in a file, by their prompt, to be served over loopback."""

import json
from pathlib import Path
from typing import Any

from amem_integrations.ports import ChatModel, Completion, ModelRequest
from amem_integrations.testing import RecordedModel
from benchmarks.evaluation import Conversation


class Scribe:
    """A chat model that answers from annotations and gold answers, and records its replies."""

    name = "scripted"

    def __init__(
        self, annotations: list[dict[str, Any]], conversations: list[Conversation]
    ) -> None:
        self.replies: dict[str, str] = {}
        self._notes: ChatModel = RecordedModel(annotations)
        self._golds = {
            question.text: question.answer or "No information available"
            for conversation in conversations
            for question in conversation.questions
        }

    def generate(self, request: ModelRequest) -> Completion:
        if request.task == "answer":
            text = json.dumps({"answer": self._golds[request.inputs["question"]]})
        elif request.task == "judge":
            text = json.dumps({"correct": request.inputs["gold"] == request.inputs["answer"]})
        else:
            text = self._notes.generate(request).text
        self.replies[request.prompt] = text
        return Completion(text=text)

    def write(self, file: Path) -> None:
        lines = (json.dumps({"prompt": key, "reply": text}) for key, text in self.replies.items())
        file.write_text("\n".join(lines), encoding="utf-8")


class Replies:
    """Answers the payload of a chat completion from a file; `missing` are the prompts not in it."""

    def __init__(self, file: Path) -> None:
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        self._replies = {line["prompt"]: line["reply"] for line in lines}
        self.missing: list[str] = []

    def __call__(self, payload: dict[str, Any]) -> str:
        # In the loosest format a prompt ends with the schema.
        prompt = payload["messages"][-1]["content"].partition("\n\nAnswer with JSON only")[0]
        if prompt not in self._replies:
            self.missing.append(prompt)
        return self._replies.get(prompt, "")
