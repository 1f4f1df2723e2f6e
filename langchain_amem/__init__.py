"""Long-term memory that organises itself, for LangChain and LangGraph.

Everything is imported on first use. `AMemRetriever`, the models and `memory_tools` need langchain-core
alone; what needs more (langchain, langchain-classic, LangGraph) names the extra to install.
"""

from __future__ import annotations

import lazy_loader

from amem_integrations import MissingExtraError

try:
    import langchain_core  # noqa: F401 - its root alone, which is light
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
