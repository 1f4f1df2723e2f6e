"""`python -m amem_integrations.cli …` is `amem …`."""

from __future__ import annotations

from . import main

if __name__ == "__main__":
    main()
