"""What runs `amem …` in this process, with an embedder that needs no download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from amem_integrations.cli import commands
from amem_integrations.cli.app import Session
from amem_integrations.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
DIALOGUE = ROOT / "examples" / "dialogue.jsonl"


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
