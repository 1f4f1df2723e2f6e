"""Long-term memory that organises itself, for LangChain and LangGraph.

Everything is imported on first use. `AMemRetriever`, the models and `memory_tools` need langchain-core
alone; what needs more (langchain, langchain-classic, LangGraph) names the extra to install.
"""

from __future__ import annotations

import lazy_loader

from amem_integrations.errors import MissingExtraError, needed

needed("langchain_core", "langchain")  # its root alone, which is light

# The extras that bring the packages which some names need.
EXTRAS = {"langchain": "langchain", "langgraph": "langgraph", "langchain_classic": "classic"}

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Return a public name of the package, whose module is imported on first use."""
    try:
        return _loaded(name)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtraError(package, EXTRAS[package]) from error
