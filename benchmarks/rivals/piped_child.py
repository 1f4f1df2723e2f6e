"""Runs a memory in a Python of its own, which needs nothing but the standard library and the memory itself.

The class is made without arguments. `add(turns)` gets the turns of a session, dicts with `speaker`, `content`,
`at` (ISO 8601) and `text` (all of it: `[2023-05-08] Ann: Hello`); `recall(question)` returns a text. The environment says where the chat model and the embedder are: `OPENAI_BASE_URL`,
`OPENAI_API_KEY`, `AMEM_MODEL`, `AMEM_DIMENSIONS`. Any name of an embedder will do. The working folder is empty and its own.
"""

import json
import os
import runpy
import sys


def main(file: str, name: str) -> None:
    """Read lines such as `{"recall": "Who?"}`, and answer each with `{"done": …}`."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a memory prints is not an answer
    memory = runpy.run_path(file)[name]()
    for line in sys.stdin:
        ((verb, value),) = json.loads(line).items()
        print(json.dumps({"done": getattr(memory, verb)(value)}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
