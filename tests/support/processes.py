"""Python code in a process of its own, forked from one that has imported the packages: a start is free."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a child: those of this process, and folders that it imports from before others."""
    inherited = filter(None, [os.environ.get("PYTHONPATH")])  # of `make test-dates`
    path = os.pathsep.join([*map(str, folders), *inherited])
    return {**os.environ, "PYTHONPATH": path, **variables}


def copy_folder(folder: Path, copy: Path) -> None:
    """Copy the folder of a memory, whose files are mostly holes: 0.7 MB of 400."""
    subprocess.run(["cp", "-r", "--sparse=always", folder, copy], check=True)


def run_alone(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Return how a new interpreter ended, into which nothing was imported before, and what it wrote."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    variables = environment(ROOT, TESTS, TESTS / "langchain")
    return subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )


WITHOUT = """
import sys
blocked = sys.argv[1].split()
class Missing:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in blocked):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run_without(packages: str, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Return how a new interpreter ended in which some packages are missing; the code finds its arguments from the second."""
    return run_alone(WITHOUT + code, packages, *arguments)


@cache
def _server() -> subprocess.Popen[bytes]:
    """Start the process that forks the others; it ends with this one."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("process_server.py"))],
        env=environment(ROOT, TESTS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # a line that was read ahead would not be waited for
    )
    atexit.register(server.communicate)
    return server


def run_python(
    code: str,
    *arguments: object,
    path: tuple[Path, ...] = (ROOT, TESTS),
    folder: Path = ROOT,
    preload: tuple[str, ...] = (),
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Return how `python -c code arguments` ended, and what it wrote; `path` comes before `sys.path`.

    Modules to `preload` are imported once, for this child and all later ones.

    Raises:
        subprocess.TimeoutExpired: It did not end in time, and was killed.
    """
    server = _server()
    with tempfile.TemporaryDirectory() as written:
        out, err = Path(written, "out"), Path(written, "err")
        job = {
            "code": code,
            "arguments": list(map(str, arguments)),
            "path": list(map(str, path)),
            "cwd": str(folder),
            "preload": preload,
            "out": str(out),
            "err": str(err),
        }
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(job).encode() + b"\n")
        pid = int(server.stdout.readline())
        in_time, _, _ = select.select([server.stdout], [], [], timeout)
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        status = int(server.stdout.readline())
        if not in_time:
            raise subprocess.TimeoutExpired(code, timeout, err.read_text(encoding="utf-8"))
        said = [file.read_text(encoding="utf-8") for file in (out, err)]
    return subprocess.CompletedProcess([sys.executable, "-c", code], status, *said)
