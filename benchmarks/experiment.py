"""Options that the commands on conversations share, and what they do with them."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from amem_integrations.cli.app import progress
from amem_integrations.errors import InvalidInputError
from amem_integrations.opening import embedder_named
from amem_integrations.ports import Embedder

from .answering import ADDRESSES, Models, Served, prompt_text
from .command import EMBEDDER_HELP, parser_of
from .data import Conversation, Result
from .provenance import code_digest, file_digest, versions
from .report import Report, Table, builds, cost_tables, costs, write
from .runner import evaluate
from .scoring import describe as describe_scoring
from .statistics import RESAMPLES, SEED
from .systems import MAIN, Settings


def parser_on(name: str, about: str | None, k: str) -> ArgumentParser:
    """Return a parser with the options that every command on conversations has; `k` is its number of hits."""
    parser = parser_of(name, about)
    add = parser.add_argument
    # fmt: off
    add("dataset", type=Path, metavar="FILE", help="the data set, which is not part of this project")
    add("--k", default=k, help="how many of the first hits count: 5,10,20, or 10..50 in steps of ten, or 10..50:5")
    add("--model", help="a chat model: answers, and writes the notes of conversations that have no annotations; without one notes are made by rules")
    add("--backend", choices=list(ADDRESSES), default="openai", help="the server of the model; decides the default address")
    add("--base-url", help="the address of the model; the key is read from OPENAI_API_KEY")
    add("--temperature", type=float, default=0.0, help="of the model")
    add("--reply", default="auto", help="how JSON is asked for: schema or words; auto takes the first that the endpoint accepts")
    add("--rule-notes", action="store_true", help="the model only answers; notes are made by rules")
    add("--judge", metavar="MODEL", help="a chat model that says which answers are correct")
    add("--judge-base-url", help="the address of the judge; by default that of the model")
    add("--concurrency", type=int, default=4, help="questions asked at once")
    add("--embedder", metavar="NAME", help=EMBEDDER_HELP)
    add("--cache", type=Path, help="folder of memories, replies and vectors, from which a run that was stopped goes on; by default `cache` in --out")
    add("--out", type=Path, default=Path("report"), help="folder for the report: JSON, Markdown, plots")
    # fmt: on
    return parser


def served(given: Namespace) -> dict[str, Served]:
    """Return the `model` and the `judge`, as far as they are named; by default the judge is served like the model."""
    judge_url = given.judge_base_url or given.base_url
    named = {"model": (given.model, given.base_url), "judge": (given.judge, judge_url)}
    shared = {"backend": given.backend, "temperature": given.temperature, "reply": given.reply}
    return {
        role: Served(model=name, base_url=base_url, **shared)
        for role, (name, base_url) in named.items()
        if name is not None
    }


def measure(
    given: Namespace,
    settings: Settings,
    asked: Sequence[Conversation],
    about: Mapping[str, Any],
    **more: Any,  # noqa: ANN401
) -> tuple[list[Result], dict[str, Any], Embedder]:
    """Run an evaluation; return its results, everything that they depend on (with `about`), and the embedder."""
    named = {role: one.connect() for role, one in served(given).items()}
    if settings.answer_k is not None and "model" not in named:
        raise InvalidInputError("questions are answered by a chat model: give --model, its name")
    if given.judge is not None and settings.answer_k is None:
        raise InvalidInputError("--judge needs --answer: there is nothing else to judge")
    models = Models(
        writer=None if given.rule_notes else named.get("model"),
        answerer=None if settings.answer_k is None else named.get("model"),
        judge=named.get("judge"),
    )
    embedder = embedder_named(given.embedder, None)
    given.out.mkdir(parents=True, exist_ok=True)  # before anything is paid for
    found = evaluate(
        asked,
        settings,
        embedder=embedder,
        models=models,
        cache=given.cache or given.out / "cache",
        progress=lambda name, stage, done, total: progress(f"{name} {stage}")(done, total),
        **more,
    )
    results = list(found)
    described = {
        "dataset": file_digest(given.dataset),
        "k": list(settings.ks),
        **about,
        "embedder": {"name": embedder.name, "dimensions": embedder.dimensions},
        **({} if settings.answer_k is None else _answering(given, settings, embedder)),
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


def publish_types(
    given: Namespace,
    name: str,
    caution: str,
    by_type: Mapping[str, Report],
    results: Sequence[Result],
    settings: Mapping[str, Any],
    about: str,
) -> None:
    """Write the report on a data set whose figures stand by the type of question."""
    made = {
        "caution": caution,
        "by_type": by_type,
        "builds": builds(results),
        "costs": costs(results),
        "settings": settings,
    }
    rows = [{"type": kind, **one} for kind, one in by_type.items()]
    shown = [Table(f"{caution} {about}; 95 % bootstrap intervals", rows), *cost_tables(made)]
    write(given.out, name, made, shown, {})
