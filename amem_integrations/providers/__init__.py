"""Ready chat models and embedders. Each is loaded, with what it needs, when it is first asked for."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
