"""`make test-dates` starts all processes of a run at another time."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "any_day"
CODE = """
import datetime, subprocess, sys, time
print(datetime.datetime.now(datetime.UTC), flush=True)
time.sleep(0.1)
if len(sys.argv) < 2:
    subprocess.run([sys.executable, *sys.orig_argv[1:], "child"], check=True)
"""


def test_a_process_and_its_children_have_one_clock_that_runs_on_from_the_local_time() -> None:
    chosen = {"AMEM_TEST_DATE": "2040-01-01T03:30", "TZ": "Asia/Kolkata"}
    kept = {name: value for name, value in os.environ.items() if name != "AMEM_TEST_SHIFT"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**kept, **chosen, "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        check=True,
    )
    start = datetime.fromisoformat("2039-12-31 22:00:00+00:00")
    first, second = map(datetime.fromisoformat, done.stdout.splitlines())
    assert start <= first < second
    assert (second - start).total_seconds() < 60
