"""What is read: large files value by value, damaged files with the place, and nothing stored of them."""

from __future__ import annotations

import json
import tracemalloc
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importing_kit import open_memory, write
from support.qdrant_server import FakeQdrant, serving

from amem_integrations import InvalidInputError
from amem_integrations.cli import import_command
from amem_integrations.importers import FORMATS, Skipped, Source, import_from, json_stream
from amem_integrations.importers.json_stream import JsonStream

ANN = ("ann",)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.integers(1, 9), st.sampled_from([None, 1]))
@settings(max_examples=200, deadline=None)
def test_a_document_is_read_like_the_json_module_reads_it(value, chunk, indent):
    given_chunk, json_stream.CHUNK = json_stream.CHUNK, chunk
    try:
        found = list(JsonStream(StringIO(json.dumps(value, indent=indent)), "x").entries())
    finally:
        json_stream.CHUNK = given_chunk
    if isinstance(value, list):
        assert [(None, n, one) for n, one in enumerate(value, start=1)] == found
    elif isinstance(value, dict):
        expected = []
        for name, one in value.items():
            numbered = isinstance(one, list)
            expected += (
                [(name, n, item) for n, item in enumerate(one, start=1)]
                if numbered
                else [(name, 0, one)]
            )
        assert expected == found
    else:
        assert [(None, 0, value)] == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value (character 1)"),
        ('[{"a": 1}', "expected ',' or ']' (character 10)"),
        ('[{"a": 1},]', "expected a value after ',' (character 11)"),
        ('[{"a": 1} {"b": 2}]', "expected ',' or ']' (character 11)"),
        ('{"a" 1}', "expected a field and ':'"),
        ('{"a": [1}', "expected ',' or ']'"),
        ("[1] 2", "there is more after the end of the document (character 5)"),
        ('["abc', "Unterminated string"),
        ("[" * 100_000, "recursion"),
        (f"[{'1' * 5000}]", "digits"),
    ],
)
def test_a_damaged_document_is_an_error_with_its_place(tmp_path, text, reason):
    path = write(tmp_path, "x.json", text)
    with open_memory() as memory:
        with pytest.raises(InvalidInputError) as caught:
            import_from(memory, path, "mem0", namespace=ANN)
        assert str(caught.value).startswith(f"{path} is not JSON: ")
        assert reason in str(caught.value)
        assert memory.namespaces() == []


def test_a_file_that_breaks_off_at_its_end_stores_nothing(tmp_path):
    rows = [{"id": str(n), "memory": f"Memory {n}.", "user_id": "ann"} for n in range(200)]
    path = write(tmp_path, "mem0.json", json.dumps({"results": rows})[:-40])
    with open_memory() as memory:
        with pytest.raises(InvalidInputError, match="Unterminated string"):
            import_from(memory, path)
        assert memory.namespaces() == []


def test_a_long_damaged_file_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('[{"memory": oops}, ' + "1, " * 5_000_000 + "1]")
    tracemalloc.start()
    with open_memory() as memory, pytest.raises(InvalidInputError, match=r"character 13\)"):
        import_from(memory, path, "mem0", namespace=ANN)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_a_large_export_is_read_value_by_value(tmp_path):
    path = tmp_path / "mem0.json"
    with path.open("w") as file:
        file.write('{"count": 3000, "results": [')
        for n in range(3000):
            row = {"id": str(n), "memory": f"Memory {n}. " + "x" * 10_000, "user_id": "ann"}
            file.write((", " if n else "") + json.dumps(row))
        file.write("]}")
    tracemalloc.start()
    count = sum(1 for _ in FORMATS["mem0"].read(Source(path), Skipped()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 3000
    assert peak < 3_000_000 < path.stat().st_size / 10


def test_files_that_are_something_else_are_named(tmp_path):
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    (tmp_path / "x.zip").write_bytes(b"PK\x05\x06" + b"\0" * 18)
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    with open_memory() as memory:
        for name, reason in [
            ("image.png", "is not a text file in UTF-8"),
            ("x.zip", r"holds no conversations\.json"),
            ("x.db", "cannot be read as a database"),
            (".", "is a folder; give a file"),
        ]:
            with pytest.raises(InvalidInputError, match=reason):
                import_from(memory, tmp_path / name, namespace=ANN)
        with pytest.raises(FileNotFoundError):
            import_from(memory, tmp_path / "missing.json", namespace=ANN)
        with pytest.raises(InvalidInputError, match="unknown format 'radio'"):
            import_from(memory, [], "radio")


def test_progress_and_a_stop_in_the_middle_go_on_without_repeating(tmp_path):
    rows = [{"id": str(n), "memory": f"Memory {n}.", "user_id": "ann"} for n in range(200)]
    path = write(tmp_path, "mem0.json", rows)
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done >= 128:
            raise KeyboardInterrupt

    with open_memory() as memory:
        with pytest.raises(KeyboardInterrupt):
            import_from(memory, path, progress=stop, evolve=False)
        assert seen == [(64, 200), (128, 200)]
        stored = memory.stats(namespace=ANN)["notes"]
        report = import_from(memory, path)
        assert stored + report.added[ANN] == 200
        assert memory.stats(namespace=ANN)["states"] == {"done": 200}


@pytest.mark.enable_socket
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_collection_on_a_server_is_read_page_by_page_with_the_key_of_the_caller():
    with serving(FakeQdrant()) as server:
        put = server.answer
        url = "/collections/mem0"
        assert put("PUT", url, {"vectors": {"size": 2, "distance": "Cosine"}})[0] == 200
        points = [
            {
                "id": n,
                "vector": [1.0, 0.0],
                "payload": {"data": f"{n}", "hash": "", "user_id": "ann"},
            }
            for n in range(600)
        ]
        assert put("PUT", f"{url}/points", {"points": points})[0] == 200
        with open_memory() as memory:
            report = import_from(memory, server.url + url, evolve=False, api_key="secret")
        assert report.added == {ANN: 600}
        scrolls = [one for one in server.requests if one[1].split("?")[0].endswith("scroll")]
        assert len(scrolls) >= 6  # read once to check, once to store
        assert {headers["api-key"] for _, _, headers in scrolls} == {"secret"}


def test_the_command_knows_every_format():
    known = import_command.Name.__args__
    assert set(known) == {"auto", "export", *FORMATS}
