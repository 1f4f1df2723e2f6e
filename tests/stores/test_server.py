"""A server shared by several processes, with faults, options, keys and replicas."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from httpx import Headers
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse
from support.qdrant_server import Fault, rate_limited
from support.stored import (
    ANN,
    BOB,
    DIMENSIONS,
    SEQ,
    call,
    decision,
    item,
    note_id,
    stored,
    tombstone,
    unit,
    upto,
)

from amem_integrations import AgenticMemory, errors
from amem_integrations.filters import FIELDS, VALUES, WITHOUT_VECTOR, parse
from amem_integrations.opening import Location
from amem_integrations.ports import NoteQuery, Query, RecordQuery
from amem_integrations.reindex import reindex
from amem_integrations.stored_note import Purge
from amem_integrations.stores import FolderStore, ServerStore, connection, sidecar
from amem_integrations.stores.payloads import TIMES
from amem_integrations.testing import HashEmbedder

QUICK = {"pauses": (0.001, 0.001, 0.001)}
TENANT_GRAPHS = models.HnswConfigDiff(m=0, payload_m=16)
pytestmark = pytest.mark.enable_socket

TERM = r"[0-9a-f]{8}-[0-9a-f]{4}-|-?[0-9]{12,}"  # an id, or the number of a term
Opener = Callable[..., FolderStore | ServerStore]


def opened(fake, **options):
    return ServerStore(fake.url, **{"dimensions": DIMENSIONS, **QUICK, **options})


def opened_memory(fake, **options):
    return AgenticMemory.open(fake.url, embedder=HashEmbedder(), **{**QUICK, **options})


@pytest.fixture
def store(fake):
    with closing(opened(fake)) as made:
        yield made


@pytest.fixture(params=["folder", "server"])
def opener(request, tmp_path, fake):
    """Open the same place again and again, with given options."""
    if request.param == "server":
        return lambda **options: opened(fake, **options)
    return lambda **options: FolderStore(tmp_path / "m", **{"dimensions": DIMENSIONS, **options})


# a folder or a server


def test_another_embedder_is_refused_and_reindex_is_named(opener, monkeypatch):
    opener(embedder="mine").close()
    others = [
        ({"embedder": "another"}, "'mine', now 'another'"),
        ({"dimensions": 5}, "dimensions 4, now 5"),
    ]
    for options, named in others:
        with pytest.raises(errors.EmbedderMismatchError, match=f"(?s){named}.*reindex"):
            opener(**{"embedder": "mine", **options})
    with pytest.raises(errors.EmbedderMismatchError, match="dimensions 4, now 5"):
        opener(embedder="", dimensions=5)
    # Notes are embedded with other texts, or words weighed otherwise.
    for name, setting, other in (("TEMPLATE", "template", "x"), ("FINGERPRINT", "bm25", {})):
        with monkeypatch.context() as patch:
            patch.setattr(sidecar, name, other)
            with pytest.raises(errors.EmbedderMismatchError, match=f"(?s){setting}.*reindex"):
                opener(embedder="mine")
    opener(embedder="mine").close()
    opener(embedder="").close()


def test_racing_threads_lose_no_update(opener):
    store = opener()
    store.insert_notes(ANN, [stored("counter", metadata={"n": 0})])

    def increment(thread):
        for turn in range(10):
            token = f"{thread}-{turn}"
            (old,) = store.notes(ANN, [note_id("counter")]).values()
            while token not in old.note.metadata:
                known = old.note.metadata
                new = replace(old.note, metadata={**known, "n": known["n"] + 1, token: True})
                store.swap_notes(ANN, [(old.token, replace(old, note=new, token=token))])
                (old,) = store.notes(ANN, [note_id("counter")]).values()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(8)))
    (counter,) = store.scan(ANN)
    assert counter.metadata["n"] == 80 == len(counter.metadata) - 1
    store.close()


def test_thresholds_are_kept_with_the_memory(opener):
    with closing(opener(embedder="mine")) as store:
        store.keep_cosines({"floor": 0.25})
    with closing(opener(embedder="mine")) as store:
        assert store.made_with["cosines"] == {"floor": 0.25}
        assert (store.made_with["format"], store.made_with["schema"]) == (2, 2)


# other processes


def test_what_another_process_swapped_in_between_stays(fake, store):
    other = opened(fake)
    store.insert_notes(ANN, [stored("a"), stored("b")])

    def interfere():
        theirs = stored("a", token="theirs", content="theirs")
        other.swap_notes(ANN, [("token a", theirs)])

    fake.before_write = interfere
    ours = [stored(name, token="ours", content="ours") for name in ("a", "b")]
    store.swap_notes(ANN, [(f"token {name}", one) for name, one in zip("ab", ours, strict=True)])
    found = {found.id: found.content for found in store.scan(ANN)}
    assert found == {note_id("a"): "theirs", note_id("b"): "ours"}
    other.close()


def test_what_another_process_inserted_in_between_stays(fake, store):
    other = opened(fake)
    theirs = decision("1", "a", token="theirs")
    fake.before_write = lambda: other.insert_records(ANN, [theirs])
    store.insert_records(ANN, [decision("1", "b"), call("1")])
    found = store.records(ANN, [theirs.id, call("1").id])
    assert found == {one.id: one for one in (theirs, call("1"))}
    other.close()


# faults


LASTING = [Fault(status=503), Fault(status=500), Fault(status=429), Fault()]
PASSING = [
    *LASTING,
    Fault(status=429, headers={"retry-after": "0"}),
    Fault(status=429, headers={"retry-after": "Sun, 29 Nov 2026 14:00:00 GMT"}),
    Fault(works=True),
    Fault(status=504, works=True),
]


def test_a_passing_fault_is_not_noticed(fake, store):
    for number, fault in enumerate(PASSING):
        name = str(number)
        fake.faults.extend([fault] * 3)
        store.insert_notes(ANN, [stored(name, [1])])
        fake.faults.extend([fault] * 3)
        new = stored(name, [1], token="new", content="new")
        store.swap_notes(ANN, [(f"token {name}", new)])
        fake.faults.extend([fault] * 3)
        assert store.notes(ANN, [new.id]) == {new.id: new}, fault
        assert not fake.faults


def test_a_lasting_fault_is_unavailability(fake, store):
    for fault in LASTING:
        fake.faults.extend([fault] * 4)
        with pytest.raises(errors.StoreUnavailableError, match="after 4 tries"):
            store.notes(ANN, [note_id("a")])
        assert store.notes(ANN, [note_id("a")]) == {}


def test_a_busy_server_is_asked_again_when_it_says(fake, monkeypatch):
    store = opened(fake, pauses=(0.001,))
    requests, slept = [], []
    fake.on_request = requests.append
    never = SimpleNamespace(wait=slept.append)
    monkeypatch.setattr(connection, "GIVEN_UP", SimpleNamespace(get=lambda: never))
    for seconds in (1, 30):
        fake.faults.append(rate_limited(seconds))
        assert store.count(ANN) == 0
    assert slept == [1, 30]
    fake.faults.append(rate_limited(3600))
    with pytest.raises(errors.StoreUnavailableError, match="try again later"):
        store.count(ANN)
    assert len(requests) == 5
    store.close()


def test_a_collection_that_another_process_makes_meanwhile_is_opened(fake):
    fake.faults.append(Fault(works=True, status=409, path="/collections/amem", method="PUT"))
    store = opened(fake)
    assert (store.count(ANN), list(fake.faults)) == (0, [])
    store.close()


def test_a_server_that_is_silent_or_not_there_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.StoreUnavailableError, match=r"one try.*Timeout"):
            ServerStore(url, dimensions=DIMENSIONS, pauses=(), timeout=1)
    with pytest.raises(errors.StoreUnavailableError, match=url.removeprefix("http://")):
        ServerStore(url, dimensions=DIMENSIONS, **QUICK)


def test_a_refusal_is_not_repeated(fake, store):
    asked = len(fake.requests)
    fake.faults.append(Fault(status=400))
    with pytest.raises(errors.StoreError, match="refused: 400"):
        store.count(ANN)
    assert len(fake.requests) == asked + 1


def test_what_answers_and_is_no_qdrant_server_is_a_store_error_at_once(fake):
    for number, answer in enumerate(("<html>Welcome</html>", '{"name": "another program"}'), 1):
        fake.faults.append(Fault(status=200, text=answer, plain=True))
        with pytest.raises(errors.StoreError, match="no Qdrant server"):
            opened(fake)
        assert len(fake.requests) == number


def test_https_for_a_server_that_speaks_http_is_a_store_error_at_once(fake):
    with pytest.raises(errors.StoreError, match="WRONG_VERSION") as caught:
        ServerStore(fake.url.replace("http", "https"), dimensions=DIMENSIONS, **QUICK)
    assert not isinstance(caught.value, errors.StoreUnavailableError)


# keys and options


def test_a_revoked_key_is_named_but_not_shown(fake):
    with closing(opened(fake, api_key="s3cret", headers={"x-team": "a"})) as store:
        sent = {(headers["api-key"], headers["x-team"]) for _, _, headers in fake.requests}
        assert sent == {("s3cret", "a")}
        for status in (401, 403):
            fake.faults.append(Fault(status=status))
            with pytest.raises(errors.StoreError, match="API key") as caught:
                store.count(ANN)
            assert not isinstance(caught.value, errors.StoreUnavailableError)
            assert "s3cret" not in str(caught.value)


def test_a_key_that_may_only_read_opens_all_the_same(fake):
    with closing(opened(fake)) as store:
        store.insert_notes(ANN, [stored("a", purge=Purge(SEQ, deleted=True))])
    fake.api_key, fake.read_only_key = "all", "reader"
    with closing(opened(fake, api_key="reader")) as store:
        assert store.count(ANN) == 1
        with pytest.raises(errors.StoreError, match="may not do this"):
            store.insert_notes(ANN, [stored("b")])


def test_a_key_does_not_travel_unencrypted():
    with pytest.raises(errors.ConfigurationError, match="unencrypted") as caught:
        ServerStore("http://qdrant.example:6333", dimensions=DIMENSIONS, api_key="s3cret")
    assert "s3cret" not in str(caught.value)


def test_no_message_shows_a_key_or_a_password(monkeypatch):
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("qdrant://ann:s3c/ret@host:6333", {}),
        ("http://ann:s3c@ret@host:port", {}),
        ("http://ann:s3c/ret@localhost:1", {"no_such_option": 1}),
    ]
    for location, options in wrong:
        with pytest.raises(errors.ConfigurationError) as caught:
            AgenticMemory.open(location, embedder=HashEmbedder(), **options)
        assert not re.search("s3c|ret", str(caught.value)), location
    with pytest.raises(errors.ConfigurationError) as caught:
        reindex("http://ann:s3cret@host", HashEmbedder())
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(Location.of("http://host", "amem", {"api_key": "s3cret"}))
    answer = UnexpectedResponse(403, "Forbidden", b"Invalid\nkey s3cret", Headers())
    refused = Mock(side_effect=answer)
    monkeypatch.setattr("qdrant_client.QdrantClient.info", refused)
    with pytest.raises(errors.StoreError, match="Invalid key …") as told:
        ServerStore("http://127.0.0.1:1", dimensions=DIMENSIONS, api_key="s3cret")
    assert "s3cret" not in str(told.value)


def test_a_wrong_option_is_named():
    wrong = [
        ("ftp://host", {}),
        ("http://", {}),
        ("http://127.0.0.1:1", {"no_such_option": 1}),
        ("http://127.0.0.1:1", {"prefer_grpc": True}),
        (":memory:", {"dimensions": 0}),
        (":memory:", {"collection": ""}),
    ]
    for location, options in wrong:
        with pytest.raises(errors.ConfigurationError):
            ServerStore(location, **{"dimensions": DIMENSIONS, **options})


def test_an_address_without_a_scheme_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for location in ("localhost:6333", "qdrant.example.com:6333", "10.0.0.1:6333", "[::1]:6333"):
        with pytest.raises(errors.ConfigurationError, match=re.escape(f"'http://{location}'")):
            AgenticMemory.open(location, embedder=HashEmbedder())
        assert not (tmp_path / location).exists()
        with pytest.raises(errors.ConfigurationError, match="scheme") as told:
            AgenticMemory.open(f"u:s3cret@{location}", embedder=HashEmbedder())
        assert "s3cret" not in str(told.value)
        with AgenticMemory.open(f"./{location}", embedder=HashEmbedder()):
            assert (tmp_path / location).is_dir()


def test_an_old_server_is_refused(fake):
    for fake.version in ("1.18.2", "v1.18.0-dev", "dev"):
        with pytest.raises(errors.StoreError, match=rf"{re.escape(fake.version)}.*1\.19"):
            opened(fake)


def test_a_collection_of_something_else_is_left_alone(fake):
    fake._put_("amem", {"vectors": {"size": 3, "distance": "Dot"}})
    with pytest.raises(errors.StoreError, match="no memory"):
        opened(fake)
    assert list(fake.collections) == ["amem"]


def test_a_collection_of_the_first_schema_is_refused_by_name_and_left_as_it_is(fake):
    made = {"format": 1, "embedder": "", "dimensions": 4, "template": "", "bm25": {}}
    metadata = {"amem": {**made, "created_at": "2026-01-01T00:00:00Z"}}
    vectors = {"dense": {"size": 4, "distance": "Cosine"}}
    fake._put_("amem", {"vectors": vectors, "metadata": metadata})
    with pytest.raises(errors.StoreError, match=r"schema 1.*reads schema 2"):
        opened(fake)
    assert list(fake.collections) == ["amem"]
    assert {method for method, _, _ in fake.requests} == {"GET"}


def test_an_unknown_option_of_collections_is_refused(fake):
    for name, value in {"shards": 2, "sharding_method": "custom"}.items():
        with pytest.raises(errors.ConfigurationError, match=f"{name!r}.*known are.*shard_number"):
            opened(fake, collection_options={name: value})


# collections and requests


def exercised(store):
    """Make every kind of request."""
    store.insert_notes(ANN, [stored("a", [1]), tombstone("b")])
    store.swap_notes(ANN, [("token a", stored("a", [1]))])
    store.insert_records(ANN, [call("1"), decision("1", "a", item("b", "a"))])
    store.swap_records(ANN, [("token 1", decision("1", "a", token="new"))])
    ids, now = frozenset([note_id("a")]), datetime.now(UTC)
    for query in (
        RecordQuery(calls=ids, unsettled=True, since=SEQ),
        RecordQuery(made_from=upto("a")),
        RecordQuery(about=ids, newest=3),
        RecordQuery(shown=upto("a")),
    ):
        store.find_records(ANN, query)
    for read in (store.notes, store.records):
        read(ANN, ids)
    store.find_notes(ANN, NoteQuery(owing=True, expired_at=now))
    store.search(ANN, [Query(vector=unit(1), text="x")])
    for ask in (store.last_seq, store.unfinished, partial(store.namespaces, recorded=True)):
        ask()
    for read in (store.scan, store.count):
        read(ANN)
    store.remove_tombstones(ANN, now)
    store.remove_decisions(ANN, ids)


def test_a_collection_has_one_shard_and_its_replicas_a_majority(fake):
    with closing(opened(fake)) as store:
        exercised(store)
    assert fake.collections["amem"].shard_number == 1
    scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    options = {
        "shard_number": 2,
        "replication_factor": 3,
        "quantization_config": models.ScalarQuantization(scalar=scalar),
        "on_disk": True,
        "on_disk_payload": True,
    }
    with closing(opened(fake, collection="other", collection_options=options)) as store:
        exercised(store)
    wanted = fake.collections["other"]
    assert (wanted.shard_number, wanted.replication_factor) == (2, 3)
    assert wanted.write_consistency_factor == 2
    assert wanted.quantization_config == models.ScalarQuantization(scalar=scalar)
    assert (wanted.vectors["dense"].on_disk, wanted.on_disk_payload) == (True, True)
    third = {"replication_factor": 2, "write_consistency_factor": 1}
    with closing(opened(fake, collection="third", collection_options=third)):
        assert fake.collections["third"].write_consistency_factor == 1


def test_on_replicas_reads_ask_the_majority_and_writes_are_waited_for_in_one_order(fake):
    with closing(opened(fake, collection_options={"replication_factor": 3})) as store:
        start = len(fake.requests)
        exercised(store)
    urls = [(method, url) for method, url, _ in fake.requests[start:]]
    changing = re.compile("PUT|.*/points/delete|.*/payload")
    writes = [url for method, url in urls if changing.match(f"{method} {url}")]
    assert len(writes) == 6
    assert all("wait=true" in url and "ordering=medium" in url for url in writes)
    reads = [url for _, url in urls if url not in writes]
    assert len(reads) > 10
    assert all("consistency=majority" in url for url in reads)


def test_a_server_gets_an_index_for_every_field_that_can_be_named(fake, store):
    assert len(fake.indexes["amem"]) + len(fake.indexes["amem-journal"]) == 19
    exercised(store)
    special = {**{key: [datetime.now(UTC)] for key in (*TIMES, "when")}, "seq": [1]}
    for field in FIELDS:
        for value in special.get(field, [VALUES.get(field, ("x",))[0], None, 1]):
            store.count(ANN, parse({field: value}))
            store.count(ANN, parse({field: {"$ne": value}}))
    store.count(ANN, (WITHOUT_VECTOR,))
    assert fake.refused == []


def test_a_range_of_metadata_needs_a_declared_index_on_a_server(fake):
    store = opened(fake, metadata_indexes={"year": "integer", "odd key": "datetime"})
    metadata = {"year": 2026, "odd key": "2026-01-01T00:00:00Z"}
    store.insert_notes(ANN, [stored("a", metadata=metadata)])
    assert store.count(ANN, parse({"metadata.year": {"$gte": 2026}})) == 1
    assert store.count(ANN, parse({"metadata.odd key": {"$lt": datetime.now(UTC)}})) == 1
    assert store.count(ANN, parse({"metadata.year": 2026, "metadata.other": None})) == 1
    for field, value, said in (
        ("size", 1, r"metadata_indexes=\{'size': 'integer' or 'float'\}"),
        ("year", datetime.now(UTC), "'datetime'"),
    ):
        with pytest.raises(errors.InvalidInputError, match=said):
            store.count(ANN, parse({f"metadata.{field}": {"$gt": value}}))
    store.close()


def test_the_stand_in_refuses_what_has_no_index_as_a_server_in_strict_mode_does(fake, store):
    del fake.indexes["amem"]["terms"]
    said = r'Index required but not found for \\"terms\\" of one of the following'
    with pytest.raises(errors.StoreError, match=said):
        store.count(ANN, parse({"speaker": "Ann"}))


def test_each_call_of_the_store_is_one_request(fake, store):
    with fake.counting() as counted:
        store.insert_notes(ANN, [stored(str(n), [1]) for n in range(20)])
        store.notes(ANN, [note_id("1")])
        store.swap_notes(ANN, [(f"token {n}", stored(str(n), token="new")) for n in range(20)])
        store.insert_records(ANN, [call("1"), decision("1", "a")])
        about = frozenset(note_id(str(n)) for n in range(9))
        store.find_records(ANN, RecordQuery(about=about, newest=64))
        store.find_records(ANN, RecordQuery(made_from=upto("a")))
        store.search(ANN, [Query(vector=unit(1), text="pottery")] * 3)
    posts = {"POST points": 1, "POST points/query/batch": 2, "POST points/scroll": 1}
    assert counted == {"PUT points": 3, **posts}
    with fake.counting() as counted:
        store.last_seq()
        store.unfinished()
    assert counted.total() == 4


def test_no_filter_is_too_long_for_a_server(fake, store):
    store.insert_notes(ANN, [stored(str(n)) for n in range(120)])
    store.swap_notes(ANN, [(f"token {n}", stored(str(n), token="new")) for n in range(120)])
    swaps = [body["update_filter"] for body in fake.bodies if body and "update_filter" in body]
    assert [len(one["should"]) for one in swaps if one] == [50, 50, 20]
    ids = frozenset(note_id(str(n)) for n in range(1500))
    assert len(store.notes(ANN, ids)) == 120
    for query in (RecordQuery(about=ids), RecordQuery(calls=ids), RecordQuery(about=ids, newest=1)):
        start = len(fake.bodies)
        store.find_records(ANN, query)
        asked = [len(re.findall(TERM, json.dumps(body))) for body in fake.bodies[start:]]
        assert sum(asked) >= 1500
        assert max(asked) <= 1024


def test_no_search_goes_without_a_namespace(fake):
    """With a graph for each tenant only, such a search would be wrong without a word."""
    with opened_memory(fake, collection_options={"hnsw_config": TENANT_GRAPHS}) as memory:
        for n in range(3):
            memory.add(f"The kiln {n} is old", namespace=ANN, thread="t")
        assert memory.search("kiln", namespace=ANN, where={"thread": "t"})
    assert fake.collections["amem"].hnsw_config == TENANT_GRAPHS
    bodies = [b for r, b in zip(fake.requests, fake.bodies, strict=True) if "/query" in r[1]]
    queries = [one for body in bodies for one in body["searches"] if "order_by" not in one["query"]]
    assert queries
    for query in queries:
        parts = query.get("prefetch") or query
        for part in parts if isinstance(parts, list) else [parts]:
            assert '"key": "namespace"' in json.dumps(part["filter"])


# threads and loops


def test_threads_share_a_bounded_pool(fake):
    with opened_memory(fake, connections=8) as memory:
        memory.add("A thing is here", namespace=ANN)
        before, fake.most_at_once = fake.connections, 0
        with ThreadPoolExecutor(32) as pool:
            found = list(pool.map(lambda _: memory.search("thing", namespace=ANN), range(64)))
        assert all(found)
        assert fake.connections - before <= 8
        assert fake.most_at_once <= 8


def test_loops_one_after_the_other_share_the_connections(fake):
    memory = opened_memory(fake, connections=4)

    async def use():
        await memory.aadd("A thing is here", namespace=ANN)
        found = (memory.asearch("thing", namespace=ANN) for _ in range(20))
        assert all(await asyncio.gather(*found))
        assert memory.search("thing", namespace=ANN)

    for _ in range(3):
        asyncio.run(use())  # a warning of an unclosed connection would be an error
    assert fake.connections <= 4
    asyncio.run(memory.aclose())
    with pytest.raises(errors.StoreError, match="closed"):
        memory.search("thing", namespace=ANN)


async def test_an_asynchronous_call_waits_without_standing_still(fake):
    async with opened_memory(fake, pauses=(0.05,)) as memory:
        await memory.aadd("A thing is here", namespace=ANN)
        fake.faults.append(Fault(status=503))
        search, turns = asyncio.create_task(memory.asearch("thing", namespace=ANN)), 0
        while not search.done():
            turns += 1
            await asyncio.sleep(0.001)
        assert search.result()
        assert turns > 5


def test_a_call_that_was_given_up_is_tried_no_more_and_holds_no_thread(fake):
    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(memory.asearch("thing", namespace=ANN), 0.1)

    with opened_memory(fake, pauses=(0.2, 30)) as memory:
        memory.add("A thing is here", namespace=ANN)
        fake.faults.extend([Fault(status=503)] * 3)
        asyncio.run(give_up())  # which waits for all threads of the loop
        assert len(fake.faults) == 2
        fake.faults.clear()


def test_a_closed_store_says_so(store):
    store.close()
    with pytest.raises(errors.StoreError, match="is closed; open it again"):
        store.count(BOB)
