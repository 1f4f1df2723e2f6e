"""What an earlier version wrote is read, what a later one wrote is refused by name."""

from __future__ import annotations

import json

import pytest
from support.notes import make_note

from amem_integrations.errors import StoreError
from amem_integrations.stores import EdgeStore, payloads, sidecar
from amem_integrations.stores.payloads import decode_note, encode_note

ANN = ("ann",)


@pytest.fixture
def next_schema(monkeypatch):
    """A later version of the package, which spells speakers in capitals."""

    def forward(payload):
        return {**payload, "speaker": (payload.get("speaker") or "nobody").upper()}

    monkeypatch.setattr(payloads, "SCHEMA", 3)
    monkeypatch.setattr(payloads, "MIGRATIONS", {1: forward, 2: lambda payload: payload})
    monkeypatch.setattr(sidecar, "FORMAT", 2)
    monkeypatch.setattr(sidecar, "MIGRATIONS", {1: lambda told: {**told, "template": "later"}})


def test_a_payload_is_brought_forward_through_every_schema_between(next_schema):
    note = make_note(speaker="ann")
    old = {**encode_note(note, ANN), "schema": 1}
    found = decode_note(note.id, old)
    assert found == note.revised(speaker="ANN")
    assert old["speaker"] == "ann"
    assert encode_note(found, ANN)["schema"] == 3


def test_a_payload_of_a_later_version_is_refused_and_named():
    later = {**encode_note(make_note(), ANN), "schema": 7}
    with pytest.raises(StoreError, match=r"format 7.*up to format 1.*newer version"):
        decode_note("id", later)


def test_a_payload_of_an_unknown_schema_is_refused():
    with pytest.raises(StoreError, match="format 0"):
        decode_note("id", {**encode_note(make_note(), ANN), "schema": 0})


def test_a_folder_of_an_earlier_format_is_described_in_the_present_one(tmp_path, next_schema):
    path = tmp_path / "amem.json"
    told = {
        "format": 1, "embedder": "e", "dimensions": 4, "template": "enriched-1", "bm25": {},
        "created_at": "2026-01-01T00:00:00+00:00", "closed": {},
    }  # fmt: skip
    path.write_text(json.dumps(told))
    found = sidecar.Sidecar.read(path)
    assert (found.format, found.template) == (2, "later")


def test_a_folder_of_a_later_format_is_refused_and_left_alone(tmp_path):
    EdgeStore(tmp_path, dimensions=4).close()
    path = tmp_path / "amem" / "amem.json"
    later = json.dumps({**json.loads(path.read_text()), "format": 2, "novelty": True})
    path.write_text(later)
    with pytest.raises(StoreError, match=r"format 2.*up to format 1.*newer version"):
        EdgeStore(tmp_path, dimensions=4)
    assert path.read_text() == later
