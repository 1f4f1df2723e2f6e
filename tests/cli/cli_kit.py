"""What runs `amem …` in this process, with an embedder that needs no download."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.processes import environment
from typer.testing import CliRunner, Result

from amem_integrations.cli import commands
from amem_integrations.cli.app import Session
from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
DIALOGUE = ROOT / "examples" / "dialogue.jsonl"
# A program with its own ports, that runs the command. It says when a model is asked, which then takes so many seconds, and
# when so many texts were embedded. A process that a shell runs in the background ignores Ctrl-C, unless it says otherwise.
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from support import models
from amem_integrations.cli import commands
from amem_integrations.cli.app import Session
from amem_integrations.testing import HashEmbedder

class Model:
    name = "slow"
    inner = models.model(models.link_to_first)
    def generate(self, request):
        print("now", flush=True)
        time.sleep(float(sys.argv[1]))
        return self.inner.generate(request)

class Embedder(HashEmbedder):
    def embed_query(self, text):
        time.sleep(0.005)
        if self.encoded == int(sys.argv[2]):
            print("now", flush=True)
        return super().embed_query(text)

class Own(Session):
    def make_embedder(self, name):
        return Embedder(256, name="hash")
    def make_model(self):
        return Model() if float(sys.argv[1]) else None

commands()(sys.argv[3:], obj=Own)
"""


def start(*arguments: object, seconds: float = 0, texts: int = 0) -> subprocess.Popen[str]:
    """Start `amem …` as a process, and return it when it says that a model is asked, or that `texts` were embedded."""
    command = [sys.executable, "-c", PROGRAM, *map(str, (seconds, texts, *arguments))]
    env = environment(ROOT, ROOT / "tests", AMEM_NAMESPACE="ann")
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=env, **piped)
    assert process.stdout
    assert process.stdout.readline() == "now\n"
    return process


class Amem:
    """Runs `amem …` on one folder and in one namespace; `names` are the embedders asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str | None] = []
        self.model: Any = None

    def __call__(self, *arguments: object, namespace: str | None = "ann", **extra: Any) -> Result:
        env = {"AMEM_MEMORY": str(self.folder), "AMEM_NAMESPACE": namespace}
        return CliRunner().invoke(
            commands(), [*map(str, arguments)], env=env, obj=self._session(), **extra
        )

    def json(self, *arguments: object, **extra: Any) -> Any:
        done = self(*arguments, "--json", **extra)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def fails(self, *arguments: object, status: int = 1, **extra: Any) -> str:
        """Run a command that must fail in one line, and return that line."""
        done = self(*arguments, **extra)
        assert done.exit_code == status, done.output
        assert done.stderr.startswith("amem: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    def _session(self) -> type[Session]:
        amem = self

        class WithoutDownload(Session):
            def make_embedder(self, name: str | None) -> HashEmbedder:
                amem.names.append(name)
                return HashEmbedder(256, name=name or "hash")

            def make_model(self) -> Any:
                return amem.model or super().make_model()

        return WithoutDownload


def add_wedding(amem: Amem, *options: str) -> None:
    """Add two notes, of which the second is linked to the first and evolves it."""
    for key, thread, day in (("first", "March", 14), ("second", "May", 21)):
        said = f"My sister Lena's wedding in Porto is on {day} June."
        amem("add", said, "--key", key, "--thread", thread, "--speaker", "Mira", *options)
