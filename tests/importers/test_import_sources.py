"""What is read: large files value by value, damaged files with the place, and nothing stored of them."""

from __future__ import annotations

import json
import re
import tracemalloc
from codecs import BOM_UTF8
from datetime import UTC, datetime
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importing_kit import imported_twice, open_memory, write

from amem_integrations import InvalidInputError
from amem_integrations.cli import notes
from amem_integrations.importers import FORMATS, Source, import_from

ANN = ("ann",)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=json_values, indent=st.sampled_from([None, 1]), start=st.sampled_from([b"", BOM_UTF8]))
def test_a_document_is_read_like_the_json_module_reads_it(tmp_path, value, indent, start):
    path = tmp_path / "x.json"
    path.write_bytes(start + json.dumps(value, indent=indent).encode())
    found = [(one.field, one.number, one.value) for one in Source(path).entries()]
    if isinstance(value, list):
        assert found == [("", n, one) for n, one in enumerate(value, start=1)]
    elif isinstance(value, dict):
        expected = []
        for name, one in value.items():
            several = enumerate(one, start=1) if isinstance(one, list) else [(0, one)]
            expected += [(name, n, item) for n, item in several]
        assert found == expected
    else:
        assert found == [("", 0, value)]


def test_a_damaged_document_is_an_error_with_its_place(tmp_path):
    for text, reason in [
        ("", "premature EOF"),
        ('[{"a": 1}', "premature EOF"),
        ('[{"a": 1},]', 'unallowed token at this point in JSON text [{"a": 1},]'),
        ('[{"a": 1} {"b": 2}]', "after array element, I expect ',' or ']' [{\"a\": 1} {\"b\": 2}]"),
        ('{"a" 1}', "must be separated by a colon"),
        ('{"a": [1}', "after array element, I expect ',' or ']'"),
        ("[1] 2", "trailing garbage"),
        ('["abc', "premature EOF"),
        ('["\xff"]', "invalid bytes in UTF8 string"),
        ('["\xed\xa0\x80"]', "can't decode byte"),  # half of a surrogate pair
        ("[" * 100_000, "recursion"),
        (f'[{{"memory": "a", "n": {"9" * 4301}}}]', "Exceeds the limit (4300 digits)"),
    ]:
        path = tmp_path / "x.json"
        path.write_bytes(text.encode("latin-1"))
        with open_memory() as memory:
            with pytest.raises(InvalidInputError) as caught:
                import_from(memory, path, "mem0", namespace=ANN)
            assert str(caught.value).startswith(f"{path} is not JSON: "), text[:20]
            assert reason in str(caught.value), text[:20]
            assert memory.namespaces() == [], text[:20]


def test_a_large_export_is_read_value_by_value(tmp_path):
    path = tmp_path / "mem0.json"
    with path.open("w") as file:
        file.write('{"count": 2000, "results": [')
        for n in range(2000):
            row = {"id": str(n), "memory": f"Memory {n}. " + "x" * 10_000, "user_id": "ann"}
            file.write((", " if n else "") + json.dumps(row))
        file.write("]}")
    tracemalloc.start()
    count = sum(1 for _ in FORMATS["mem0"].read(Source(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert peak < 2_000_000 < path.stat().st_size / 10
    path.write_bytes(path.read_bytes()[:-40])  # it breaks off at its end
    with open_memory() as memory:
        with pytest.raises(InvalidInputError, match="premature EOF"):
            import_from(memory, path)
        assert memory.namespaces() == []


def test_lines_are_known_by_the_name_of_the_file_or_by_its_first_two(tmp_path):
    for name, text, taken in [
        ("x.jsonl", '"One."', ["One."]),
        ("x.ndjson", '"One."\n', ["One."]),
        ("x.txt", '{"text": "One."}\n\n  {"text": "Two."}\n', ["One.", "Two."]),
        ("x.json", '"One."\r\n"Two."\r\n', ["One.", "Two."]),
        ("x.json", '{"text": "One."}', ["One."]),
        ("x.json", '{"text": "One."}' + "\n" * 900_000, ["One."]),
        ("x.json", '{"results": [\n{"memory": "One."}\n,{"memory": "Two."}]}', ["One.", "Two."]),
    ]:
        _, notes = imported_twice(write(tmp_path, name, text), namespace=ANN, thread="t")
        assert [note.content for note in notes] == taken, text
        assert {note.thread for note in notes} == ({None} if "memory" in text else {"t"}), text


def test_a_line_is_a_message_or_has_the_fields_of_a_note(tmp_path):
    lines = [
        {"role": "user", "content": "Hello.", "at": "2026-05-08T10:00:00Z", "mood": "glad"},
        {"text": "Prune.", "key": "k", "session": "s", "speaker": "Ann", "metadata": {"year": 26}},
    ]
    path = write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, lines)))
    _, (pruned, hello) = imported_twice(path, namespace=ANN, thread="t")
    assert (hello.thread, hello.speaker, hello.metadata) == ("t", "user", {"mood": "glad"})
    assert hello.at == datetime(2026, 5, 8, 10, tzinfo=UTC)
    told = (pruned.thread, pruned.speaker, pruned.key, pruned.metadata)
    assert told == ("s", "Ann", "k", {"year": 26})


def test_files_that_are_something_else_are_named(tmp_path):
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    (tmp_path / "x.zip").write_bytes(b"PK\x05\x06" + b"\0" * 18)
    with ZipFile(tmp_path / "broken.zip", "w") as archive:
        archive.writestr("conversations.json", "[1, 2, 3]")
    damaged = (tmp_path / "broken.zip").read_bytes().replace(b"[1, 2, 3]", b"[1, 2, 4]")
    (tmp_path / "broken.zip").write_bytes(damaged)
    for method in (ZIP_BZIP2, ZIP_LZMA, ZIP_DEFLATED):
        path = tmp_path / f"packed-{method}.zip"
        with ZipFile(path, "w", method) as archive:
            archive.writestr("conversations.json", "[1, 2, 3]" * 99)
        packed = path.read_bytes()
        start = packed.index(b"conversations.json") + len(b"conversations.json")
        start += 9 if method == ZIP_LZMA else 0  # behind the properties of the stream
        path.write_bytes(packed[:start] + b"\xff" * 9 + packed[start + 9 :])
    secret = packed[:6] + b"\1" + packed[7:]
    central = secret.index(b"PK\1\2") + 8
    (tmp_path / "secret.zip").write_bytes(secret[:central] + b"\1" + secret[central + 1 :])
    with open_memory() as memory:
        for name, reason in [
            ("image.png", "image.png is not JSON"),
            ("x.zip", r"holds no conversations\.json"),
            ("broken.zip", "broken.zip cannot be unpacked: Bad CRC"),
            (f"packed-{ZIP_DEFLATED}.zip", "packed-8.zip cannot be unpacked: Error"),
            (f"packed-{ZIP_BZIP2}.zip", "packed-12.zip cannot be unpacked: Invalid"),
            (f"packed-{ZIP_LZMA}.zip", "packed-14.zip cannot be unpacked: Corrupt"),
            ("secret.zip", "secret.zip cannot be unpacked: .* is encrypted"),
        ]:
            with pytest.raises(InvalidInputError, match=reason):
                import_from(memory, tmp_path / name, namespace=ANN)
        for name, error in [("missing.json", FileNotFoundError), (".", IsADirectoryError)]:
            with pytest.raises(error):
                import_from(memory, tmp_path / name, namespace=ANN)
        with pytest.raises(InvalidInputError, match="unknown format 'radio'"):
            import_from(memory, [], "radio")
        with pytest.raises(InvalidInputError, match="rows holds nothing"):
            import_from(memory, [])


def test_progress_and_a_stop_in_the_middle_go_on_without_repeating(tmp_path):
    rows = [{"id": str(n), "memory": f"Memory {n}.", "user_id": "ann"} for n in range(140)]
    path = write(tmp_path, "mem0.json", rows)
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done >= 128:
            raise KeyboardInterrupt

    with open_memory() as memory:
        with pytest.raises(KeyboardInterrupt):
            import_from(memory, path, progress=stop, evolve=False)
        assert seen == [(64, 140), (128, 140)]
        stored = memory.stats(namespace=ANN)["notes"]
        report = import_from(memory, path)
        assert stored + report.added[ANN] == 140
        assert memory.stats(namespace=ANN)["states"] == {"done": 140}


def test_the_command_knows_every_format():
    named = notes.import_.__doc__.partition("format_: What made it: ")[2].partition(".")[0]
    assert set(re.findall(r"\w+", named)) == {"or", "export", *FORMATS}
