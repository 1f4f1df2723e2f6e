"""A command of `amem eval`: its common options, and what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer

from ..errors import InvalidInputError
from ..evaluation import Models, Named
from ..evaluation.answering import Backend, Reply, Served
from ..ports import Embedder
from .command import add_command
from .eval_options import RUN
from .options import Ports
from .terminal import StageProgress as Tell
from .terminal import progress


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """The common options of one call; those a command does not take have their defaults."""

    out: Path
    cache: Path | None
    embedder: str | None
    no_progress: bool
    as_json: bool
    answer: bool = False
    model: str | None = None
    backend: Backend = Backend.OPENAI
    base_url: str | None = None
    temperature: float = 0.0
    reply: Reply = Reply.AUTO
    rule_notes: bool = False
    judge: str | None = None
    judge_base_url: str | None = None
    concurrency: int = 4
    build_concurrency: int = 4
    price_input: float | None = None
    price_output: float | None = None
    ports: Ports = field(default_factory=Ports)

    @property
    def cache_folder(self) -> Path:
        """Where what was paid for is kept."""
        return self.cache or self.out / "cache"

    @property
    def served(self) -> Served | None:
        """The model, if one is named."""
        return self._served(self.model, self.base_url)

    @property
    def judging(self) -> Served | None:
        """The judge, if one is named."""
        return self._served(self.judge, self.judge_base_url or self.base_url)

    @property
    def prices(self) -> dict[str, tuple[float, float]]:
        """Prices of a million tokens, in and out, by stage; those of the judge if it is the same model.

        Raises:
            InvalidInputError: One of the two is missing.
        """
        if self.price_input is None and self.price_output is None:
            return {}
        if self.price_input is None or self.price_output is None:
            raise InvalidInputError("costs need both --price-input and --price-output")
        stages = (
            ("build", "answer", "judge") if self.served == self.judging else ("build", "answer")
        )
        return dict.fromkeys(stages, (self.price_input, self.price_output))

    def models(self) -> Models:
        """Return the chat models.

        Raises:
            InvalidInputError: `--answer` without `--model`, or a judge without `--answer`.
            MissingExtraError: The openai package is not installed.
            ConfigurationError: There is no key, and the endpoint needs one.
        """
        if self.answer and self.model is None:
            raise InvalidInputError("--answer needs --model: the name of a chat model")
        if self.judge is not None and not self.answer:
            raise InvalidInputError("--judge needs --answer: there is nothing else to judge")
        named = _named(self.served)
        return Models(
            writer=None if self.rule_notes else named,
            answerer=named if self.answer else None,
            judge=_named(self.judging),
        )

    def make_embedder(self) -> Embedder:
        """Return the embedder."""
        return self.ports.embedder(self.embedder, None)

    def described(self) -> dict[str, Any]:
        """Return how the models were asked, as JSON values, without their keys."""
        served = {"model": self.served, "judge": self.judging}
        return {
            "notes": "rules" if self.rule_notes or self.model is None else self.model,
            **{
                role: {**asdict(one), "base_url": _shown(one.address)}
                for role, one in served.items()
                if one is not None
            },
        }

    def write(self, name: str, values: Mapping[str, Any], text: str | None = None) -> None:
        """Write values as JSON, and their page in Markdown if they have one, into the folder."""
        self.out.mkdir(parents=True, exist_ok=True)
        file = self.out / f"{name}.json"
        file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        if text is not None:
            file.with_suffix(".md").write_text(text, encoding="utf-8")

    @contextmanager
    def telling(self) -> Iterator[Tell]:
        """Show how far it is, if that is wanted."""
        if self.no_progress:
            yield lambda *_: None
            return
        with progress() as tell:
            yield tell

    def _served(self, model: str | None, base_url: str | None) -> Served | None:
        if model is None:
            return None
        return Served(
            model=model,
            backend=self.backend,
            base_url=base_url,
            temperature=self.temperature,
            reply=self.reply,
        )


def command(
    app: typer.Typer, name: str, *more: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a command of a function that takes `EvalOptions` first."""
    shared = {option: given for group in (*more, RUN) for option, given in group.items()}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def call(caller: typer.Context, common: dict[str, Any], own: dict[str, Any]) -> None:
            ports = caller.obj if isinstance(caller.obj, Ports) else Ports()
            function(EvalOptions(ports=ports, **common), **own)

        return add_command(app, name, function, shared, call)

    return decorate


def _shown(address: str | None) -> str | None:
    """Return an address without a user and password."""
    return None if address is None else re.sub(r"//[^/@]*@", "//", address)


def _named(served: Served | None) -> Named | None:
    return Named(model=served.connect(), identity=served.identity) if served else None
