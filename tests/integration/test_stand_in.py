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
def fake() -> Iterator[FakeQdrant]:
    with serving(FakeQdrant()) as fake:
        yield fake


def connected(fake: FakeQdrant, **headers: str) -> QdrantClient:
    return QdrantClient(url=fake.url, check_compatibility=False, headers=headers)


def sharded(fake: FakeQdrant) -> QdrantClient:
    client = connected(fake)
    client.create_collection(NAME, {}, LEXICAL, shard_number=2)
    return client


def point(number: int, *words: int) -> models.PointStruct:
    terms = models.SparseVector(indices=list(words), values=[1.0] * len(words))
    return models.PointStruct(id=IDS[number], vector={"bm25": terms}, payload={"n": number})


def words(*terms: int) -> models.SparseVector:
    return models.SparseVector(indices=list(terms), values=[1.0] * len(terms))


def test_word_statistics_are_those_of_a_shard(fake: FakeQdrant) -> None:
    client = sharded(fake)
    # Ids that are even are in one shard, odd ones in the other.
    client.upsert(NAME, [point(0, 1), point(2, 1), point(1, 1), point(3, 2)])
    scores = {p.id: p.score for p in client.query_points(NAME, words(1), using="bm25").points}
    assert scores[IDS[1]] > scores[IDS[0]] == scores[IDS[2]]  # one of two has the word, two of two
    assert client.count(NAME).count == 4
    assert {each.id for each in client.retrieve(NAME, IDS[:2])} == set(IDS[:2])
    pages = [client.scroll(NAME, limit=3), client.scroll(NAME, limit=3, offset=IDS[3])]
    assert [[each.id for each in page] for page, _ in pages] == [IDS[:3], IDS[3:]]


def test_of_a_write_over_two_shards_one_may_fail(fake: FakeQdrant) -> None:
    client = sharded(fake)
    fake.down.add(1)
    with pytest.raises(UnexpectedResponse, match="1 out of 2 shards failed to apply"):
        client.upsert(NAME, [point(0), point(1)])
    assert [each.id for each in client.scroll(NAME)[0]] == IDS[:1]


def test_a_batch_is_done_in_its_order(fake: FakeQdrant) -> None:
    client = sharded(fake)
    client.upsert(NAME, [point(0)])
    only = models.Filter(must=[models.HasIdCondition(has_id=[IDS[0]])])
    change: list[Any] = [
        models.OverwritePayloadOperation(
            overwrite_payload=models.SetPayload(payload={"n": 7}, filter=only)
        ),
        models.UpsertOperation(upsert=models.PointsList(points=[point(1)])),
        models.DeleteOperation(delete=models.PointIdsList(points=[IDS[1]])),
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


def test_who_asks_too_often_is_told_when_to_come_back(fake: FakeQdrant) -> None:
    fake.faults.append(rate_limited(3))
    with pytest.raises(ResourceExhaustedResponse) as caught:
        connected(fake).info()
    assert caught.value.retry_after_s == 3
