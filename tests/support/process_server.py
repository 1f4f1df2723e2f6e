"""Imports what children of tests need, then forks one for each line of JSON on standard input.

It opens nothing itself: the engine does not survive a fork.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import support.stored  # noqa: F401

import amem_integrations.memory
import amem_integrations.stores.folder  # noqa: F401

Job = dict[str, Any]


def forked() -> Job | None:
    """Return a job in a child that is to do it; None in the parent, at the end of the input."""
    for line in iter(sys.stdin.readline, ""):
        job: Job = json.loads(line)
        for module in job["preload"]:
            import_module(module)
        gc.freeze()  # a child that looked through all of it would copy it
        if (pid := os.fork()) == 0:
            return job
        print(pid, flush=True)  # noqa: T201
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201
    return None


def become(job: Job) -> None:
    """Be as if the interpreter had been started with `-c`, these arguments, path, folder and files."""
    for number, (name, flags) in enumerate(
        [
            (os.devnull, os.O_RDONLY),
            (job["out"], os.O_WRONLY | os.O_CREAT),
            (job["err"], os.O_WRONLY | os.O_CREAT),
        ]
    ):
        os.dup2(os.open(name, flags), number)
    os.chdir(job["cwd"])
    sys.path[:0] = job["path"]
    sys.argv = ["-c", *job["arguments"]]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(job["code"], "<string>", "exec"), main.__dict__)


if (given := forked()) is not None:
    become(given)
