"""Pure: what models and embedders call themselves."""

from __future__ import annotations

NAMES = ("model_name", "model", "model_id", "deployment_name")


def name_of(model: object) -> str:
    """Return the name of the model behind an object, or that of its class."""
    found = (getattr(model, attribute, None) for attribute in NAMES)
    return next((name for name in found if isinstance(name, str) and name), type(model).__name__)


def provider_of(embedder: object) -> str:
    """Return the name of an embedder's class; of wrapped LangChain embeddings, that of theirs."""
    return str(getattr(embedder, "provider", type(embedder).__name__))
