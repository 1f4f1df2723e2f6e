"""Scripts for `ScriptedModel`: what a sensible model would say, and a few that are not sensible."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

from amem_integrations import AgenticMemory, MemoryConfig, ModelRequest, Plan
from amem_integrations.testing import HashEmbedder, ScriptedModel

SETTINGS = {field.name for field in fields(MemoryConfig)}


def opened(location=":memory:", model=None, embedder=None, **more) -> AgenticMemory:
    """Open a memory whose gate lets HashEmbedder's rough cosines pass; `more` are settings, and options of the store.

    The memory has its model, to be looked at, as `memory.model`.
    """
    given = {name: more.pop(name) for name in list(more) if name in SETTINGS}
    config = MemoryConfig(**{"min_gate_similarity": -1.0, **given})
    embedder = embedder or HashEmbedder()
    memory = AgenticMemory.open(location, model=model, embedder=embedder, config=config, **more)
    memory.model = model
    return memory


def each(made):
    """Return an answer that says `made`, or `made(note)`, of each note of a request; nothing of a note where that is None."""

    def answer(request: ModelRequest) -> dict:
        notes = request.inputs["notes"]
        replies = [(note["alias"], made(note) if callable(made) else made) for note in notes]
        return {"notes": [{"id": to, **said} for to, said in replies if said is not None]}

    return answer


def attributes(note) -> dict:
    """Attributes for a note: its first words as keywords, one tag, a context that names it."""
    words, context = note["content"].split(), f"About {note['content']}"
    return {"id": note["alias"], "context": context, "keywords": words[:2], "tags": ["topic"]}


construct = each(attributes)


def item_of(plan: Plan, kind: str) -> str:
    """Return the id of the only item of a kind that a plan has."""
    (found,) = [key for key, item in plan.items.items() if item.kind == kind]
    return found


def exclaiming(request):
    """Call every note filler that ends with an exclamation mark, and one a question that ends with "what?"."""
    notes = request.inputs["notes"]
    return {
        "notes": [attributes(n) for n in notes if not n["content"].endswith("!")],
        "filler": [n["alias"] for n in notes if n["content"].endswith("!")],
        "questions": [n["alias"] for n in notes if n["content"].endswith("what?")],
    }


def nothing(_request: ModelRequest) -> dict:
    return {"notes": []}


def said_in(request: ModelRequest) -> list[str]:
    """Return the contents of the notes that a request is about."""
    return [note["content"] for note in request.inputs["notes"]]


TOO_HOT = ValueError("too hot")


def refusing(refuses, answer=TOO_HOT):
    """Return a `construct` that answers so where `refuses` holds for the contents of the notes."""
    return lambda request: answer if refuses(said_in(request)) else construct(request)


def linking_first(**more):
    """Return an answer that links every note to its best candidate, if it has one, and says `more` of that, by field."""
    link = {"relation": "continues", "reason": "goes on with it", "strength": 0.8}

    def said(note):
        if not note["candidates"]:
            return None
        told = {"to": note["candidates"][0]["alias"]}
        return {field: [told | what] for field, what in {"links": link, **more}.items()}

    return each(said)


link_to_first = linking_first()


def update_first(text: str, *, tags: tuple[str, ...] = ()):
    """Return an answer that links every note to its best candidate and adds `text` to that one."""
    return linking_first(updates={"context": text, "tags": list(tags)})


# Links every note to its best candidate, which it updates and takes the place of.
supersede_first = linking_first(
    updates={"context": "It was moved to May."},
    supersedes={"relation": "updates", "reason": "a new date"},
)


def to_the_insurance(request: ModelRequest) -> dict:
    """Link each new note to the one about an insurance, if it is shown."""
    shown = [c["alias"] for c in request.inputs["candidates"] if "insurance" in c["content"]]
    link = {"relation": "paid for", "reason": "same dog", "strength": 0.9}
    return each({"links": [{"to": alias, **link} for alias in shown]})(request)


def repeat_keys(request: ModelRequest) -> dict:
    """Say of each note about a key that it repeats all earlier ones about a key."""
    shown = [*request.inputs["candidates"], *request.inputs["notes"]]
    keys = {note["alias"] for note in shown if "key" in note["content"]}

    def repeats(note):
        earlier = [
            one["alias"] for one in note["candidates"] if {one["alias"], note["alias"]} <= keys
        ]
        why = {"rel": "repeats", "why": "the same", "s": "strong"}
        return {"links": [{"to": one, **why} for one in earlier]}

    return each(repeats)(request)


def open_repeating(construct, evolve=repeat_keys) -> AgenticMemory:
    """A memory whose model knows what repeats what."""
    config = MemoryConfig(recent=0, min_relevance=-1)
    return AgenticMemory.open(
        ":memory:", model=model(evolve, construct), embedder=HashEmbedder(), config=config
    )


def say_thrice(memory: AgenticMemory, namespace) -> None:
    """Say in three sessions where a key is, and something else."""
    texts = ("My key is under the pot.", "My key is under the third flower pot by the door.")
    for day, text in enumerate((*texts, "The key? Under the third pot.", "The tram is late.")):
        at = datetime(2024, 5, 10 + day, tzinfo=UTC)
        memory.add(text, namespace=namespace, thread=f"session {day}", speaker="Ann", at=at)


def model(evolve=nothing, construct=construct) -> ScriptedModel:
    """A model that always has an answer."""
    return ScriptedModel({"construct": construct, "evolve": evolve})
