"""Files into records: both formats, plain and gzipped, and every way in which a file can be wrong."""

import gzip
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.cli import lines as lines_module
from rxwow.cli.bad_input import BadInputError
from rxwow.cli.csv_records import CsvRecords
from rxwow.cli.lines import numbered_lines
from rxwow.cli.ndjson_records import ndjson_records
from rxwow.cli.records import Format, open_records
from rxwow.cli.source import Source

Write = Callable[[str, str | bytes], Path]

CSV = b"tailnum,dest\nN1,LAX\nN2,SFO\n"
NDJSON = b'{"tailnum": "N1", "dest": "LAX"}\n{"tailnum": "N2", "dest": "SFO"}\n'
RECORDS = [{"tailnum": "N1", "dest": "LAX"}, {"tailnum": "N2", "dest": "SFO"}]


def read(path: Path, key: str = "tailnum", file_format: Format | None = None) -> list[tuple[int, dict[str, Any]]]:
    with Source(str(path)) as source:
        return list(open_records(source, str(path), key, file_format))


def refusal(path: Path, key: str = "tailnum", file_format: Format | None = None) -> str:
    with pytest.raises(BadInputError) as caught:
        read(path, key, file_format)
    prefix = f"{path}: "
    message = str(caught.value)
    assert message.startswith(prefix)
    assert "\n" not in message
    return message.removeprefix(prefix)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.CSV", CSV),
        ("a.csv.gz", CSV),
        ("a.ndjson", NDJSON),
        ("a.jsonl", NDJSON),
        ("a.ndjson.gz", NDJSON),
        ("a.json", NDJSON),
        ("no_suffix", CSV),
        ("no_suffix", NDJSON),
        ("blank_lines_first.txt", b"\n \n" + NDJSON),
        ("blank_lines_first.txt", b"\n\r\n" + CSV),
    ],
)
def test_the_format_is_told_by_suffix_or_content_and_gzip_by_content(
    write: Write, name: str, content: bytes, pack: Callable[[bytes], bytes]
) -> None:
    assert [record for _, record in read(write(name, pack(content)))] == RECORDS


def test_a_forced_format_overrules_the_suffix(write: Write) -> None:
    assert [record for _, record in read(write("a.csv", NDJSON), file_format="ndjson")] == RECORDS
    assert [record for _, record in read(write("a.ndjson", CSV), file_format="csv")] == RECORDS


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0), b"\n\n", b"tailnum,dest\n"])
@pytest.mark.parametrize("name", ["empty.csv", "empty"])
def test_an_empty_file_has_no_records(write: Write, name: str, content: bytes) -> None:
    assert read(write(name, content)) == []


def test_an_empty_ndjson_file_has_no_records(write: Write) -> None:
    assert read(write("empty.ndjson", b"")) == []


def test_gzip_files_that_were_put_together_are_read_whole(write: Write) -> None:
    halves = gzip.compress(CSV[:20]) + gzip.compress(CSV[20:])
    assert [record for _, record in read(write("a.csv.gz", halves))] == RECORDS


def test_lines_are_numbered_by_where_a_record_begins(write: Write) -> None:
    content = b'tailnum,note\n\nN1,"two\nlines"\n\nN2,one\n'
    assert read(write("a.csv", content)) == [
        (3, {"tailnum": "N1", "note": "two\nlines"}),
        (6, {"tailnum": "N2", "note": "one"}),
    ]
    assert [line for line, _ in read(write("a.ndjson", b"\n" + NDJSON.replace(b"\n", b"\r\n\r\n")))] == [2, 4]


@pytest.mark.parametrize("content", [CSV, NDJSON])
def test_a_byte_order_mark_and_a_missing_last_line_end_are_nothing(write: Write, content: bytes) -> None:
    path = write("a", b"\xef\xbb\xbf" + content.rstrip(b"\n"))
    assert [record for _, record in read(path)] == RECORDS


def test_text_is_utf_8(write: Write) -> None:
    assert read(write("a.csv", "tailnum,city\nN1,Zürich 東京\n")) == [(2, {"tailnum": "N1", "city": "Zürich 東京"})]


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8")), min_size=3, max_size=3)))
def test_what_the_csv_module_writes_is_read_back(rows: list[list[str]]) -> None:
    import csv

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b", "c"], *rows])
    lines = numbered_lines(io.BytesIO(buffer.getvalue().encode()), "name")
    assert [list(record.values()) for _, record in CsvRecords(lines, "name")] == rows


@given(st.lists(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text())))
def test_what_the_json_module_writes_is_read_back(objects: list[dict[str, Any]]) -> None:
    content = "".join(f"{json.dumps(value)}\n" for value in objects).encode()
    lines = numbered_lines(io.BytesIO(content), "name")
    assert list(ndjson_records(lines, "name")) == list(enumerate(objects, start=1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"tailnum,dest\nN1,LAX\nN2\n", "line 3: 1 column, but the header has 2"),
        (b"tailnum,dest\nN1,LAX,extra\n", "line 2: 3 columns, but the header has 2"),
        (b'tailnum,dest\nN1,"LAX\nN2,SFO\n', "line 2: a quoted field is never closed"),
        (b'tailnum,dest\nN1,LAX\nN2,"S"FO\n', "line 3: ',' expected after '\"'"),
        (b"tailnum,dest,tailnum\n", "line 1: the header names 'tailnum' twice"),
        (b"tailnum,dest\nN1,LAX\nN2,S\xffO\n", "line 3: not UTF-8 (byte 0xff at position 5)"),
        ("tailnum,dest\n".encode("utf-16"), "line 1: not UTF-8 (byte 0xff at position 1)"),
    ],
)
def test_malformed_csv_is_refused_by_its_line(write: Write, content: bytes, message: str) -> None:
    assert refusal(write("a.csv", content)) == message
    assert refusal(write("a.csv.gz", gzip.compress(content))) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"tailnum": "N1"}\n{"tailnum": \n', "line 2: not a JSON object: Expecting value at column 12"),
        (b'{"tailnum": "N1"} {"tailnum": "N2"}\n', "line 1: not a JSON object: Extra data at column 19"),
        (b'{"tailnum": NaN}\n', "line 1: not a JSON object: NaN is no JSON number"),
        (b'{"tailnum": ' + b"1" * 5000 + b"}\n", "line 1: not a JSON object: Exceeds the limit"),
        (b'{"tailnum": ' + b"[" * 100_000 + b"\n", "line 1: nested too deeply"),
        (b'[{"tailnum": "N1"}]\n', "line 1: not a JSON object: an array"),
        (b'[\n{"tailnum": "N1"}\n]\n', "line 1: not a JSON object: an array"),
        (b'\n"N1"\n', "line 2: not a JSON object: a string"),
        (b"1.5\n", "line 1: not a JSON object: a number"),
        (b"null\n", "line 1: not a JSON object: null"),
        (b"true\n", "line 1: not a JSON object: true"),
        (b'{"tailnum": "N\xff"}\n', "line 1: not UTF-8 (byte 0xff at position 15)"),
        (b'{"tailnum": [1]}\n', "line 1: the field 'tailnum' is an array, which can't be a key"),
        (b'{"tailnum": {}}\n', "line 1: the field 'tailnum' is an object, which can't be a key"),
    ],
)
def test_malformed_ndjson_is_refused_by_its_line(write: Write, content: bytes, message: str) -> None:
    assert refusal(write("a.ndjson", content)).startswith(message)


def test_an_unknown_field_is_refused_with_the_known_ones(write: Write) -> None:
    expected = "no field 'tailnumber'; the fields are: tailnum, dest; did you mean 'tailnum'?"
    assert refusal(write("a.csv", CSV), "tailnumber") == expected
    assert refusal(write("a.ndjson", NDJSON), "tailnumber") == f"line 1: {expected}"
    assert refusal(write("b.ndjson", NDJSON + b"{}\n")) == "line 3: no field 'tailnum'; the fields are: none"


def test_a_hundred_fields_are_not_all_listed(write: Write) -> None:
    header = ",".join(f"field{number}" for number in range(100))
    assert refusal(write("a.csv", header), "x").endswith("field19 and 80 more")


@pytest.mark.parametrize("key", [None, True, 1, 1.5, "N1"])
def test_any_plain_json_value_is_a_key(write: Write, key: object) -> None:
    assert read(write("a.ndjson", json.dumps({"tailnum": key}))) == [(1, {"tailnum": key})]


def test_gzip_data_that_is_cut_short_is_refused_after_the_lines_before_it(write: Write) -> None:
    content = b"tailnum,dest\n" + b"".join(b"N%d,LAX\n" % number for number in range(100_000))
    path = write("a.csv.gz", gzip.compress(content)[:-3000])
    seen: list[int] = []
    with Source(str(path)) as source, pytest.raises(BadInputError) as caught:
        seen.extend(line for line, _ in open_records(source, str(path), "tailnum"))
    assert len(seen) > 50_000
    assert str(caught.value) == f"{path}: line {seen[-1] + 1}: the gzip data ends here, cut short"


def test_gzip_data_that_is_damaged_is_refused(write: Write) -> None:
    data = bytearray(gzip.compress(CSV))
    data[-6] ^= 1
    assert "the gzip data is damaged" in refusal(write("a.csv.gz", bytes(data)))


@pytest.mark.parametrize(
    ("magic", "kind"),
    [(b"PK\x03\x04", "zip"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")],
)
def test_another_compression_is_refused_by_its_name(write: Write, magic: bytes, kind: str) -> None:
    assert refusal(write("a.csv", magic + b"...")) == f"compressed with {kind}; only gzip can be read"


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1 << 20)
    assert refusal(write("a.csv", b"x" * (1 << 21))) == "line 1: longer than 1 MiB"


def test_a_field_may_be_longer_than_the_csv_module_likes(write: Write) -> None:
    assert read(write("a.csv", b"tailnum\n" + b"x" * 200_000)) == [(2, {"tailnum": "x" * 200_000})]


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing.csv") == "no such file or directory"
    assert refusal(tmp_path) == "is a directory"


def test_an_unreadable_file_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by its mode, which doesn't keep root out.
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("a.csv", CSV)
    monkeypatch.setattr(io, "FileIO", refuse)
    assert refusal(path) == "permission denied"


def test_an_error_while_reading_is_told_with_its_line() -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            if line := super().readline(size):
                return line
            raise OSError(5, "Input/output error")

    with pytest.raises(BadInputError, match=r"^name: line 4: input/output error$"):
        list(numbered_lines(Failing(CSV), "name"))


def test_a_pipe_that_gives_a_byte_at_a_time_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def feed() -> None:
        with path.open("wb", buffering=0) as pipe:
            for byte in gzip.compress(CSV):
                pipe.write(bytes([byte]))

    feeder = threading.Thread(target=feed)
    feeder.start()
    with Source(str(path)) as source:
        assert source.waits
        assert source.size is None
        assert [record for _, record in open_records(source, str(path), "tailnum")] == RECORDS
    feeder.join()


def test_a_file_knows_its_size_and_how_far_it_was_read(write: Write) -> None:
    path = write("a.csv", CSV)
    with Source(str(path)) as source:
        assert not source.waits
        assert source.size == len(CSV)
        assert len(list(open_records(source, str(path), "tailnum"))) == 2
        assert source.position == len(CSV)


def test_a_file_is_the_same_by_any_name(write: Write, tmp_path: Path) -> None:
    path = write("a.csv", CSV)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    with Source(str(path)) as source:
        assert [source.is_file(str(tmp_path / name)) for name in ("a.csv", "link", "hard")] == [True] * 3
        assert not source.is_file(str(tmp_path / "missing"))
        assert not source.is_file(str(write("other.csv", CSV)))
    with Source(os.devnull) as source:
        assert not source.is_file(os.devnull)
