"""The two stores of a memory: `FolderStore` (a folder, Qdrant inside the process) and `ServerStore` (a server).

Each is imported when it is first asked for: the client of the server alone takes most of a second.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
