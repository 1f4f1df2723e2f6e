"""The server that tests run on answers as a Qdrant server does, and as a cluster of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import UnexpectedResponse
from support.qdrant_server import FakeQdrant, Fault, rate_limited, serving

NAME = "notes"
IDS = [f"00000000-0000-4000-8000-{n:012}" for n in range(4)]
LEXICAL = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def cluster() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant(cluster=True)) as fake:
        yield fake


def connected(fake: FakeQdrant, **headers: str) -> QdrantClient:
    return QdrantClient(url=fake.url, check_compatibility=False, headers=headers)


def sharded(fake: FakeQdrant) -> QdrantClient:
    client = connected(fake)
    client.create_collection(
        NAME, {}, LEXICAL, sharding_method=models.ShardingMethod.CUSTOM, shard_number=1
    )
    for key in ("one", "two"):
        client.create_shard_key(NAME, key)
    return client


def point(number: int, *words: int) -> models.PointStruct:
    terms = models.SparseVector(indices=list(words), values=[1.0] * len(words))
    return models.PointStruct(id=IDS[number], vector={"bm25": terms}, payload={"n": number})


def words(*terms: int) -> models.SparseVector:
    return models.SparseVector(indices=list(terms), values=[1.0] * len(terms))


def test_points_and_word_statistics_are_those_of_a_shard(cluster: FakeQdrant) -> None:
    client = sharded(cluster)
    client.upsert(NAME, [point(0, 1, 2)], shard_key_selector="one")
    client.upsert(NAME, [point(1, 1), point(2, 3), point(3, 4)], shard_key_selector="two")

    def score(shard: str) -> float:
        found = client.query_points(NAME, words(1), using="bm25", shard_key_selector=shard)
        return found.points[0].score

    assert score("two") > score("one")  # of one document, and of three
    assert client.count(NAME).count == 4
    assert [each.id for each in client.retrieve(NAME, IDS, shard_key_selector="one")] == IDS[:1]
    pages = [client.scroll(NAME, limit=3), client.scroll(NAME, limit=3, offset=IDS[3])]
    assert [[each.id for each in page] for page, _ in pages] == [IDS[:3], IDS[3:]]
    with pytest.raises(UnexpectedResponse, match="Shard key not specified"):
        client.upsert(NAME, [point(0)])
    with pytest.raises(UnexpectedResponse, match="Shard key three not found"):
        client.count(NAME, shard_key_selector="three")


def test_a_single_node_without_cluster_mode_has_no_shard_keys() -> None:
    with serving(FakeQdrant()) as fake:
        assert connected(fake).cluster_status().status == "disabled"
        with pytest.raises(UnexpectedResponse, match="Distributed mode disabled"):
            sharded(fake)


def test_of_a_write_over_two_shards_one_may_fail(cluster: FakeQdrant) -> None:
    client = connected(cluster)
    client.create_collection(NAME, {}, LEXICAL, shard_number=2)
    cluster.down.add(1)
    with pytest.raises(UnexpectedResponse, match="1 out of 2 shards failed to apply"):
        client.upsert(NAME, [point(0), point(1)])
    assert [each.id for each in client.scroll(NAME)[0]] == IDS[:1]


def test_a_batch_is_done_in_its_order(cluster: FakeQdrant) -> None:
    client = sharded(cluster)
    client.upsert(NAME, [point(0)], shard_key_selector="one")
    only = models.Filter(must=[models.HasIdCondition(has_id=[IDS[0]])])
    change: list[Any] = [
        models.OverwritePayloadOperation(
            overwrite_payload=models.SetPayload(payload={"n": 7}, filter=only, shard_key="one")
        ),
        models.UpsertOperation(upsert=models.PointsList(points=[point(1)], shard_key="two")),
        models.DeleteOperation(delete=models.PointIdsList(points=[IDS[1]], shard_key="two")),
    ]
    client.batch_update_points(NAME, change)
    assert [each.payload for each in client.scroll(NAME)[0]] == [{"n": 7}]


def test_a_key_is_refused_as_a_server_does() -> None:
    with serving(FakeQdrant(api_key="all", read_only_key="some", hidden={"theirs"})) as fake:
        for headers, status, text in (
            ({}, 401, "Must provide an API key or an Authorization bearer token"),
            ({"api-key": "none"}, 401, "Invalid API key or JWT"),
            ({"api-key": "some"}, 403, "Forbidden: Global manage access is required"),
        ):
            with pytest.raises(UnexpectedResponse, match=text) as caught:
                connected(fake, **headers).create_collection(NAME, {})
            assert caught.value.status_code == status
        with pytest.raises(UnexpectedResponse, match="Access to collection theirs is required"):
            connected(fake, **{"api-key": "all"}).create_collection("theirs", {})
        fake.faults.append(Fault(status=403, text="ExpiredSignature", plain=True))
        with pytest.raises(UnexpectedResponse, match="ExpiredSignature"):
            connected(fake, **{"api-key": "all"}).count(NAME)


def test_who_asks_too_often_is_told_when_to_come_back(cluster: FakeQdrant) -> None:
    cluster.faults.append(rate_limited(3))
    with pytest.raises(ResourceExhaustedResponse) as caught:
        connected(cluster).info()
    assert caught.value.retry_after_s == 3
