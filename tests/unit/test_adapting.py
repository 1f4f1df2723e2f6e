"""What adapters share: going on without a memory that does not answer, and work in a thread."""

from __future__ import annotations

import doctest
import json
import logging
import os
import threading
import time
from datetime import UTC, datetime

import numpy as np
import pytest
from support.notes import make_entry, make_link, make_note
from support.processes import run_python

from amem_integrations import ScoredNote, Via, adapting, errors
from amem_integrations.adapting import Failures, check_namespace
from amem_integrations.flows.worker import Background
from amem_integrations.notes import Passage

LOG = logging.getLogger("adapting-test")
OUTAGES = [errors.StoreUnavailableError("down"), errors.ModelUnavailableError("away")]
OUTAGES += [TimeoutError("slow"), errors.ConfigurationError("a refused key")]
MISTAKES = [errors.StoreClosedError("closed"), errors.NamespaceError("nobody"), ValueError("a bug")]
MISTAKES += [errors.EmbedderMismatchError("another"), errors.MissingExtraError("package", "extra")]


# Failures


def test_an_outage_is_skipped_logged_and_counted_or_raised_where_that_was_asked_for(caplog):
    for error in OUTAGES:
        caplog.clear()
        strict = Failures(LOG, "raise")
        with pytest.raises(type(error)), strict.tolerated("recall"):
            raise error
        assert not caplog.records, "nothing is skipped"
        failures = Failures(LOG)
        with failures.tolerated("recall") as reasons:
            raise error
        assert failures.snapshot() == strict.snapshot() == {"recall": 1}
        assert reasons == [f"recall: {error}"]
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("adapting-test", "WARNING")
        assert record.getMessage() == f"recall failed and is skipped: {error}"


def test_a_mistake_is_raised_whatever_was_asked_for():
    for error in MISTAKES:
        for on_error in ("log", "raise"):
            failures = Failures(LOG, on_error)
            with pytest.raises(type(error)), failures.tolerated("recall"):
                raise error
            assert failures.snapshot() == {}
    with pytest.raises(errors.ConfigurationError, match="on_error='ignore'"):
        Failures(LOG, "ignore")


def test_what_a_callback_raises_is_skipped_and_counted():
    failures = Failures(LOG)
    with failures.tolerated("where", callback=True) as reasons:
        raise KeyError("user")
    assert (failures.snapshot(), reasons) == ({"where": 1}, ["where: 'user'"])
    with pytest.raises(KeyError), Failures(LOG, "raise").tolerated("where", callback=True):
        raise KeyError("user")


# The background worker


class Gate:
    """Work that waits at a gate, and remembers what was done."""

    def __init__(self):
        self.open, self.entered = threading.Event(), threading.Event()
        self.done = []

    def __call__(self, task):
        self.entered.set()
        assert self.open.wait(10)
        self.done.append(task)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def background(gate):
    """A worker whose first task, "a", waits at the gate."""
    background = Background(gate)
    background.submit("a")
    assert gate.entered.wait(10)
    return background


def test_tasks_are_done_oldest_first_and_once_while_they_wait(gate, background):
    for task in ("b", "c", "b", "a", None):
        background.submit(task)
    assert gate.done == []
    gate.open.set()
    assert background.flush(timeout=10)
    assert gate.done == ["a", "b", "c", "a", None]


class Panic(BaseException):
    """As Qdrant's engine raises one."""


@pytest.mark.parametrize("kind", [errors.ConfigurationError, Panic])
def test_the_first_error_comes_out_once_and_the_rest_is_done_all_the_same(gate, kind):
    def work(task):
        gate(task)
        if task != "c":
            raise kind(task)

    background = Background(work)
    for task in ("a", "b", "c"):
        background.submit(task)
    gate.open.set()
    with pytest.raises(kind, match="a"):
        background.flush(timeout=10)
    assert gate.done == ["a", "b", "c"]
    assert background.flush(timeout=10)


def test_what_passes_by_itself_is_no_error_of_a_flush():
    def work(error):
        raise error

    background = Background(work)
    for error in OUTAGES[:3]:
        background.submit(error)
    assert background.flush(timeout=10)


def test_closing_leaves_what_waits_and_takes_nothing_more(gate, background):
    background.submit("b")
    assert not background.close(timeout=0.05)
    gate.open.set()
    assert background.close(timeout=10)
    background.submit("c")
    assert background.flush(timeout=10)
    assert gate.done == ["a"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own(gate, background):
    if (child := os.fork()) == 0:
        # The lock of the other event may be held by the thread that is gone.
        gate.open = threading.Event()
        gate.open.set()
        is_idle = background.flush(timeout=10)
        background.submit("b")
        os._exit(0 if is_idle and background.flush(timeout=10) and gate.done == ["b"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ENDING = """
import threading, time
from amem_integrations.flows.worker import Background

def step(task):
    entered.set()
    time.sleep({seconds})
    print("done", task, flush=True)
    return True

entered = threading.Event()
background = Background(step)
background.submit("a")
entered.wait()
"""


def test_a_process_ends_within_a_second_and_without_a_traceback():
    for seconds, said in ((0.2, "done a\n"), (60, "")):
        start = time.monotonic()
        done = run_python(ENDING.format(seconds=seconds), timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
        assert time.monotonic() - start < 30  # on a busy machine


# Namespaces, and a hit as JSON


NOBODIES = (None, "ann", b"ann", (), [], ("",), ("ann", ""), (None,), ("ann", 1), {"ann"}, 7)


def test_what_is_nobodys_is_refused():
    for namespace in NOBODIES:
        with pytest.raises(errors.NamespaceError, match="tuple of non-empty strings") as raised:
            check_namespace(namespace)
        assert f"namespace={namespace!r}" in str(raised.value)


def test_a_hit_is_json_with_all_but_its_content():
    day = datetime(2023, 5, 8, tzinfo=UTC)
    told = {"speaker": "Ann", "thread": "t", "metadata": {"x": 1}}
    made = (
        make_entry("She moved.", "n0", keywords=("Oslo",), tags=("home",)),
        make_entry("To Bo.", "n1"),
    )
    seen = {"contexts": made, "links": {"n0": make_link()}, "at": day, "recorded_at": day}
    note = make_note("I moved to Oslo.", namespace=("ann", "work"), **seen, **told)
    step = Via(note_id="n0", relation="same", reason="both are about Oslo", strength=0.5)
    passages = (Passage(text="to Oslo", start=8, end=15), Passage(text="I", start=0, end=1))
    numbers = {"score": np.float32(0.5), "similarity": np.float32(0)}
    against = {"contradicted_by": ("n7",), "superseded_by": "n8", "passages": passages}
    hit = ScoredNote(note=note, via=(step,), **numbers, **against)
    way = {"note_id": "n0", "relation": "same", "reason": "both are about Oslo", "strength": 0.5}
    found = {"via": [way], "score": 0.5, "similarity": 0.0, "passage": [8, 15]}
    made = {"contexts": ["She moved.", "To Bo."], "keywords": ["Oslo"], "tags": ["home"]}
    others = {"links": ["n0"], "contradicted_by": ["n7"], "superseded_by": "n8"}
    times = dict.fromkeys(("at", "recorded_at"), "2023-05-08T00:00:00+00:00")
    times |= {"last_said": None, "times_said": 1, "is_over": False}
    kinds = {"kind": "statement", "origin": "conversation", "source": "user", "state": "pending"}
    known = {**told, "note_id": note.id, "namespace": ["ann", "work"]}
    whole = known | found | made | others | times | kinds
    assert json.loads(json.dumps(hit.to_dict())) == whole


# The package


def test_the_examples_in_the_docstrings_are_true():
    outcome = doctest.testmod(adapting)
    assert (outcome.failed, outcome.attempted > 0) == (0, True)
