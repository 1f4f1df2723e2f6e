"""A memory of another program, by the standard library alone: it keeps what a model and an embedder made of each turn."""

import json
import os
from urllib.request import Request, urlopen


def post(path: str, **body: object) -> dict:
    url = f"{os.environ['OPENAI_BASE_URL']}/{path}"
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as reply:
        return json.loads(reply.read())


class Shouting:
    """Shouts what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, turns: list[dict]) -> None:
        print("this is not an answer")
        for turn in turns:
            (row,) = post("embeddings", model="any", input=turn["content"])["data"]
            assert len(row["embedding"]) == int(os.environ["AMEM_DIMENSIONS"])
            self.lines.append(f"{turn['at'][:10]} {turn['speaker']}: {turn['content'].upper()}")
        said = [{"role": "user", "content": f"Note down {self.lines[-1]}"}]
        post("chat/completions", model="any", messages=said)

    def recall(self, question: str) -> str:
        if question == "die":
            raise SystemExit(3)
        return "\n".join(self.lines)
