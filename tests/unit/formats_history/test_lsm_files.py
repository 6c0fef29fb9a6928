"""The bytes of layout 2's history: data files, manifests, the version file."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.core.instants import Action
from lakehand.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from lakehand.formats import lsm_timeline
from lakehand.formats.lsm_timeline import (
    HistoryEntry,
    HistoryFile,
    HistoryFileName,
    Manifest,
    decode_manifest,
    decode_version,
    encode_manifest,
    encode_version,
    parse_history_file,
    parse_manifest_name,
    read_entries,
    write_entries,
)

ENTRIES = st.lists(
    st.builds(
        HistoryEntry,
        time=st.integers(0, 60).map(lambda n: f"{20240101000000000 + n}"),
        completion_time=st.none() | st.just("20240102000000000"),
        action=st.sampled_from(Action),
        metadata=st.none() | st.binary(max_size=200),
        plan=st.none() | st.binary(max_size=200),
    ),
    max_size=50,
).map(lambda entries: sorted(entries, key=lambda entry: entry.key))


def written(entries):
    sink = io.BytesIO()
    assert write_entries(sink, entries) == len(sink.getvalue())
    return sink.getvalue()


def read(content, **options):
    return list(read_entries(pa.BufferReader(content), where="f", **options))


@settings(max_examples=60, deadline=None)
@given(entries=ENTRIES)
def test_entries_come_back_as_they_were_written(entries):
    assert read(written(entries)) == entries


@settings(max_examples=40, deadline=None)
@given(entries=ENTRIES, ends=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_a_range_is_closed_and_contents_can_be_left_out(entries, ends):
    first, last = (f"{20240101000000000 + n}" for n in ends)
    found = read(written(entries), first=first, last=last, contents=False)
    assert [e.key for e in found] == [e.key for e in entries if first <= e.time <= last]
    assert all(entry.metadata is entry.plan is None for entry in found)


def test_the_footer_is_that_of_javas_avro_writer():
    metadata = pq.read_metadata(io.BytesIO(written([])))
    schema = json.loads(metadata.metadata[b"parquet.avro.schema"])
    assert [field["name"] for field in schema["fields"]] == metadata.schema.names
    assert metadata.metadata[b"writer.model.name"] == b"avro"
    assert b"hoodie_min_record_key" not in metadata.metadata
    version = metadata.schema.column(5)
    assert (version.physical_type, version.max_definition_level) == ("INT32", 0)


@pytest.mark.parametrize("times", [["2", "1"], ["x"]])
def test_entries_out_of_order_are_refused(times):
    with pytest.raises(Invalid, match="out of order"):
        written([HistoryEntry(time, None, Action.COMMIT, None, None) for time in times])


def table(**changes):
    columns = {
        "instantTime": pa.array(["20240101000000000"]),
        "completionTime": pa.array([None], pa.string()),
        "action": pa.array(["commit"]),
        "metadata": pa.array([b"m"]),
        "plan": pa.array([None], pa.binary()),
        "version": pa.array([1], pa.int32()),
    }
    return pa.table({**columns, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, None),
        ({"instantTime": pa.array(["yesterday"])}, Corrupt),
        ({"instantTime": pa.array([None], pa.string())}, Corrupt),
        ({"instantTime": pa.array([1])}, Corrupt),
        ({"metadata": pa.array(["text"])}, Corrupt),
        ({"action": pa.array(["explode"])}, Unsupported),
        ({"version": pa.array([2], pa.int32())}, Unsupported),
    ],
)
def test_rows_that_break_the_rules_are_typed_errors(changes, error):
    sink = io.BytesIO()
    pq.write_table(table(**changes), sink)
    if error is None:
        assert len(read(sink.getvalue())) == 1
        return
    with pytest.raises(error):
        read(sink.getvalue())


def test_more_rows_than_a_history_ever_has_are_refused(monkeypatch):
    monkeypatch.setattr(lsm_timeline, "_MOST_ENTRIES", 1)
    entry = HistoryEntry("1", None, Action.COMMIT, None, None)
    assert len(read(written([entry]))) == 1
    with pytest.raises(LimitExceeded, match="rows"):
        read(written([entry, entry]))


MANIFESTS = st.lists(
    st.builds(
        HistoryFile,
        st.builds(
            HistoryFileName,
            st.from_regex(r"\A[0-9]{17}\Z"),
            st.from_regex(r"\A[0-9]{17}\Z"),
            st.integers(0, 9),
        ),
        st.integers(0, 1 << 60),
    ),
    max_size=6,
    unique_by=lambda file: file.name,
).map(lambda files: Manifest(tuple(files)))


@given(manifest=MANIFESTS)
def test_a_manifest_survives_writing_and_reading(manifest):
    content = encode_manifest(manifest)
    assert decode_manifest(content, where="m") == manifest
    assert set(json.loads(content)) == {"files"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"files":[{"fileName":"../1_2_0.parquet","fileLen":1}]}',
        b'{"files":[{"fileName":"1_2_0.parquet","fileLen":-1}]}',
        b'{"files":[{"fileName":"1_2_0.parquet","fileLen":true}]}',
        b'{"files":[{"fileName":["x"],"fileLen":1}]}',
        b'{"files":[{"fileName":"1_2_0.parquet","fileLen":1},{"fileName":"1_2_0.parquet","fileLen":1}]}',
    ],
)
def test_a_manifest_that_breaks_the_rules_is_corrupt(content):
    with pytest.raises(Corrupt, match="manifest_7"):
        decode_manifest(content, where="manifest_7")


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1" * 50, "٣".encode()])
def test_a_version_file_that_breaks_the_rules_is_corrupt(content):
    with pytest.raises(Corrupt):
        decode_version(content, where="_version_")
    assert decode_version(encode_version(12), where="_version_") == 12


def test_names_of_the_folder_are_told_apart():
    name = HistoryFileName("20240101000000000", "20240102000000000", 1)
    assert parse_history_file(str(name)) == name
    for other in (
        "_version_",
        "manifest_1",
        "a_b_0.parquet",
        "1_2_10.parquet",
        "1_2_0.parquet.tmp",
    ):
        assert parse_history_file(other) is None
    assert parse_manifest_name("manifest_12") == 12
    assert parse_manifest_name("manifest_12.tmp") is None
