"""The settings of a memory, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from string import Template
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from .errors import ConfigurationError
from .prompts import PARTED, TEMPLATES

# The types and bounds of settings, which pydantic checks.
Count = Annotated[int, Field(ge=1)]
Cosine = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Positive = Annotated[timedelta, Field(gt=timedelta(0))]
Ttl = Annotated[Positive, Field(le=timedelta(days=365_000))]  # a later time is outside the calendar
Label = Annotated[str, Field(min_length=1)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosines:
    """The least cosines that count, by one embedder; `thresholds` finds them on pairs of texts.

    Attributes:
        relevance: Of a question and a note that has to do with the question.
        gate: Of a note and a sentence that another note adds to it.
    """

    relevance: float
    gate: float


MINILM = Cosines(relevance=0.21, gate=0.50)
MEASURED: Mapping[str, Cosines] = {"sentence-transformers/all-MiniLM-L6-v2": MINILM}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """How notes are made, linked and evolved.

    Attributes:
        calls: `"joint"` asks for the links and updates of a batch in one call (as the authors' code does
            for a note); `"paper"` makes the three kinds of call of the paper, Eq. 2, 6 and 7.
        link: Whether notes are linked. Off, nothing evolves either.
        evolve: Whether the notes that a new one touches are updated.
        batch_size: Most new notes of one thread per model call. A conversation that comes at once costs about .14
            calls a note with 20, .29 with 8.
        candidates: Most earlier notes shown for each new one; those that are much less near than the nearest are
            left out. Of the links a language model drew over a whole conversation, 84 % led to one of them.
        recent: How many of the candidates are simply the last notes of the same thread.
        max_links: Most links that a note shows: the strongest. The others stay, and come back when a stronger one goes. Search
            follows all links alike, since weights by strength did not find more.
        min_gate_similarity: Least cosine between a new context entry and the note it is for. None takes what was
            measured for the embedder (all-MiniLM-L6-v2: .50, at which 99 % of honest updates pass and 91 % of updates of
            a random note do not), or finds it for another one, by one call of it, on pairs of texts that ship; `info()`
            tells it.
        min_relevance: Least cosine of a question and a note that `context` and `recall` may show for it. None takes
            what was measured for the embedder (all-MiniLM-L6-v2: .21), or finds it likewise.
        assistant_supersedes: Whether what an assistant or a tool said may take the place of what a user said. Off,
            it becomes a proposal.
        profile: Whether every evolve that finishes a note also brings the `Profile` of the namespace up to date, by a
            call of the model for twenty new statements at most, and `context` shows it above the notes.
        review: Whether everything that a model proposes for earlier notes waits in `proposals()` for a person:
            context entries, links and supersessions. The new notes are finished all the same, without them.
        max_concurrency: Batches asked about at once. They do not see what each other evolved, so another
            number may give slightly other links; the same number gives the same ones every time.
        max_attempts: How often a note is tried whose replies cannot be used, with up to two calls each time.
            Then it stays `failed`, found as ever, until `evolve(retry=True)`.
        lease_seconds: How long a thread on which a worker works is left to the worker after its last sign of life, which
            it gives three times as often; then another may go on with the thread.
        on_model_error: `"log"` keeps the raw note as pending and goes on; `"raise"` raises, the raw
            note being stored all the same.
        max_content_chars: Longest content that is taken as one note. Longer texts are for the splitters of LangChain and
            LlamaIndex.
        ttl: How long a new note is kept that is added without `expires_at`: a `timedelta` for all namespaces, or
            one by prefix of the namespace, of which the longest counts. None keeps notes for good.
        daily_calls: Most calls of a chat model for one namespace in a day (UTC). The call that would go over it is
            not made: notes stay pending until the next day. None sets no limit. Rules are never limited.
        daily_tokens: Likewise the most tokens, of prompts and replies. Before a call the tokens of its prompt are
            estimated, as a quarter of the bytes; its reply may go over the limit.

        instructions: What matters here, what to leave alone, in which language to write: a text that every prompt
            has at the end of its system message, marked as the user's.
        prompts: By task (`"construct"`, `"evolve"`, `"link"`, `"revise"`, `"fill"`), prompts that take the place
            of the built-in ones: the system message, a line `---`, and the rest with all `$placeholders` of
            the built-in one (in `amem_integrations/prompts`). A `$` of its own is written `$$`.
        context_tokens: How many tokens of a prompt and its reply the model can take. What is longer is asked in
            parts. None takes the model's own attribute `context_tokens`, if it has one.

    Raises:
        ConfigurationError: A value is out of range, or a prompt lacks a placeholder.
    """

    calls: Literal["joint", "paper"] = "joint"
    link: bool = True
    evolve: bool = True
    batch_size: Count = 20
    candidates: Count = 10
    recent: Annotated[int, Field(ge=0)] = 3
    max_links: Count = 32
    min_gate_similarity: Cosine | None = None
    min_relevance: Cosine | None = None
    assistant_supersedes: bool = False
    profile: bool = False
    review: bool = False
    max_concurrency: Count = 4
    max_attempts: Count = 5
    lease_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    on_model_error: Literal["log", "raise"] = "log"
    max_content_chars: Count = 100_000
    ttl: Ttl | Mapping[tuple[Label, ...], Ttl | None] | None = None
    daily_calls: Count | None = None
    daily_tokens: Count | None = None
    instructions: Text | None = None
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    context_tokens: Count | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        for name, checker in _checkers().items():
            value = getattr(self, name)
            try:
                checker.validate_python(value, strict=True)
            except ValidationError as error:
                wrong = "; ".join(dict.fromkeys(each["msg"] for each in error.errors()))
                raise ConfigurationError(f"{name}={value!r} cannot be used: {wrong}") from error
        if self.recent > self.candidates:
            raise ConfigurationError(
                f"recent={self.recent} cannot be used: it counts among the {self.candidates} `candidates`"
            )
        _check_prompts(self.prompts)
        for name in ("prompts", "ttl"):  # what was checked stays as it is
            if isinstance(given := getattr(self, name), Mapping):
                object.__setattr__(self, name, dict(given))

    def ttl_of(self, namespace: tuple[str, ...]) -> timedelta | None:
        """Return how long a new note of a namespace is kept; None: for good."""
        if not isinstance(self.ttl, Mapping):
            return self.ttl
        prefixes = (namespace[:length] for length in range(len(namespace), -1, -1))
        return next((self.ttl[prefix] for prefix in prefixes if prefix in self.ttl), None)

    @classmethod
    def paper(cls) -> MemoryConfig:
        """Return the settings of the paper: one note at a time, a call each for Eq. 2, 6 and 7."""
        return cls(calls="paper", batch_size=1, recent=0)


@cache
def _checkers() -> Mapping[str, TypeAdapter[Any]]:
    """Return the validators of the settings by name, but for the prompts."""
    hints = get_type_hints(MemoryConfig, include_extras=True)
    names = [each.name for each in fields(MemoryConfig) if each.name != "prompts"]
    return {name: TypeAdapter(hints[name]) for name in names}


def _check_prompts(prompts: object) -> None:
    """Check that every prompt is for a known task, and has the placeholders of the built-in one and no others."""
    if not isinstance(prompts, Mapping):
        raise ConfigurationError(f"prompts={prompts!r} cannot be used; give a text by task")
    for task, text in prompts.items():
        if task not in TEMPLATES:
            known = ", ".join(sorted(TEMPLATES))
            raise ConfigurationError(f"prompts has the unknown task {task!r}; give {known}")
        if problem := _problem_with(text, set(Template(TEMPLATES[task]).get_identifiers())):
            raise ConfigurationError(f"the prompt {task!r} {problem}")


def _problem_with(text: object, wanted: set[str]) -> str | None:
    """Return why a prompt cannot take the place of the built-in one; None: it can."""
    if not isinstance(text, str) or PARTED not in text:
        return "must be a text: the system message, a line '---', and the rest"
    system, rest = (Template(part) for part in text.split(PARTED, 1))
    if not (system.is_valid() and rest.is_valid()):
        return "has a lone '$'; write '$$' for the sign"
    if early := system.get_identifiers():
        return f"has {_named(early)} before the line '---', where nothing may change"
    if (found := {*rest.get_identifiers()}) != wanted:
        return f"has {_named(found) or 'no placeholder'}; it needs {_named(wanted)} and no other"
    return None


def _named(placeholders: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(placeholders))
