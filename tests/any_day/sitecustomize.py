"""Start every interpreter that has this folder on PYTHONPATH at the local time `AMEM_TEST_DATE`; it runs on from there.

The processes that a process starts share its clock: the first one says in `AMEM_TEST_SHIFT` how many seconds the clock
is ahead of the machine's.
"""

import os
import sys
import time
from datetime import datetime

if date := os.environ.get("AMEM_TEST_DATE"):
    # Where pytest can be imported time-machine does so, for its plugin, and each child would take that long.
    sys.modules["pytest"] = None  # type: ignore[assignment]
    import time_machine

    del sys.modules["pytest"]
    ahead = datetime.fromisoformat(date).timestamp() - time.time()
    shift = os.environ.setdefault("AMEM_TEST_SHIFT", str(ahead))
    time_machine.travel(time.time() + float(shift)).start()
