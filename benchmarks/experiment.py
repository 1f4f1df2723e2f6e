"""Options that the commands on conversations share, and what they do with them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from amem_integrations.cli.app import progress
from amem_integrations.errors import InvalidInputError
from amem_integrations.opening import embedder_named
from amem_integrations.ports import Embedder

from .answering import Models, Served, prompt_text
from .cache import Cache
from .command import EMBEDDER_HELP, Option, count, option
from .data import Conversation, Result
from .provenance import code_digest, file_digest, versions
from .report import Table, builds, by_type, cells, cost_tables, costs, write
from .runner import evaluate
from .scoring import describe as describe_scoring
from .statistics import RESAMPLES, SEED
from .systems import MAIN, Settings


# fmt: off
def shared_options(k: str) -> tuple[Option, ...]:
    """Return the options that every command on conversations has; `k` is its number of hits."""
    return (
        option("dataset", type=Path, metavar="FILE", help="the data set, which is not part of this project"),
        option("--k", default=k, help="how many of the first hits count: 5,10,20, or 10..50 in steps of ten, or 10..50:5"),
        option("--model", help="a chat model: answers, and writes the notes of conversations that have no annotations; without one notes are made by rules"),
        option("--base-url", help="the address of the model, such as http://localhost:11434/v1; by default OpenAI's. The key is read from OPENAI_API_KEY"),
        option("--temperature", type=float, default=0.0, help="of the model"),
        option("--reply", default="auto", help="how JSON is asked for: schema or words; auto takes the first that the endpoint accepts"),
        option("--rule-notes", action="store_true", help="the model only answers; notes are made by rules"),
        option("--judge", metavar="MODEL", help="a chat model that says which answers are correct"),
        option("--judge-base-url", help="the address of the judge; by default that of the model"),
        option("--concurrency", type=count, default=4, help="questions asked at once"),
        option("--embedder", metavar="NAME", help=EMBEDDER_HELP),
        option("--cache", type=Path, help="folder of memories, replies and vectors, from which a run that was stopped goes on; by default `cache` in --out"),
        option("--out", type=Path, default=Path("report"), help="folder for the report: JSON, Markdown, plots"),
    )
# fmt: on


def served(given: Namespace) -> dict[str, Served]:
    """Return the `model` and the `judge`, as far as they are named; by default the judge is served like the model."""
    urls = {"model": given.base_url, "judge": given.judge_base_url or given.base_url}
    shared = {"temperature": given.temperature, "reply": given.reply}
    return {
        role: Served(model=getattr(given, role), base_url=url, **shared)
        for role, url in urls.items()
        if getattr(given, role) is not None
    }


def measure(
    given: Namespace,
    settings: Settings,
    asked: Sequence[Conversation],
    about: Mapping[str, Any],
    **more: Any,  # noqa: ANN401
) -> tuple[list[Result], dict[str, Any], Embedder]:
    """Run an evaluation; return its results, everything that they depend on (with `about`), and the embedder."""
    answers = settings.answer_k is not None
    if answers and given.model is None:
        raise InvalidInputError("questions are answered by a chat model: give --model, its name")
    if given.judge is not None and not answers:
        raise InvalidInputError("--judge needs --answer: there is nothing else to judge")
    embedder = embedder_named(given.embedder, None)
    given.out.mkdir(parents=True, exist_ok=True)  # before anything is paid for
    with closing(Cache(given.cache or given.out / "cache")) as kept:
        named = {role: one.connect(kept) for role, one in served(given).items()}
        models = Models(
            writer=None if given.rule_notes else named.get("model"),
            answerer=named.get("model") if answers else None,
            judge=named.get("judge"),
        )
        found = evaluate(
            asked,
            settings,
            embedder=embedder,
            models=models,
            kept=kept,
            progress=lambda name, stage, done, total: progress(f"{name} {stage}")(done, total),
            **more,
        )
        results = list(found)
    described = {
        "dataset": file_digest(given.dataset),
        "k": list(settings.ks),
        **about,
        "embedder": {"name": embedder.name, "dimensions": embedder.dimensions},
        **(_answering(given, settings, embedder) if answers else {}),
        "config": asdict(settings.variants[MAIN]),
        "code": code_digest(),
        "bootstrap": {"seed": SEED, "resamples": RESAMPLES},
        "versions": versions(),
    }
    return results, described, embedder


def _answering(given: Namespace, settings: Settings, embedder: Embedder) -> dict[str, Any]:
    """Return what answers depend on, without keys and passwords."""
    models: dict[str, Any] = {"notes": (None if given.rule_notes else given.model) or "rules"}
    for role, one in served(given).items():
        address = re.sub(r"//[^/@]*@", "//", one.address or "") or None
        models[role] = {**asdict(one), "base_url": address}
    return {
        "answered_from": settings.answer_k,
        "models": models,
        "prompts": {task: prompt_text(task) for task in (settings.prompt, "judge")},
        "scoring": describe_scoring(embedder),
    }


def measure_types(
    given: Namespace,
    name: str,
    caption: str,
    settings: Settings,
    asked: Sequence[Conversation],
    about: Mapping[str, Any],
) -> None:
    """Run an evaluation, and write the report on a data set whose figures stand by the type of question."""
    results, described, embedder = measure(given, settings, asked, about)
    types = by_type(results, settings.ks, embedder)
    made = {
        "about": caption,
        "by_type": types,
        "builds": builds(results),
        "costs": costs(results),
        "settings": described,
    }
    rows = [{"type": kind, **cells(one)} for kind, one in types.items()]
    shown = [Table(f"{caption}; 95 % bootstrap intervals", rows), *cost_tables(made)]
    write(given.out, name, made, shown, {})
