"""Names of data files say what they are, and nothing else passes for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.file_names import (
    BaseFileName,
    LogFileName,
    bucket_of,
    parse_base_file,
    parse_log_file,
)

FILE_IDS = st.tuples(st.uuids(), st.integers(0, 999)).map(lambda parts: f"{parts[0]}-{parts[1]}")
TOKENS = st.tuples(st.integers(0, 9999), st.integers(0, 2**31), st.integers(0, 99)).map(
    lambda parts: "-".join(map(str, parts))
)
INSTANTS = st.integers(0, 10**17 - 1).map("{:017d}".format)


@given(st.builds(BaseFileName, FILE_IDS, TOKENS, INSTANTS, st.just(".parquet")))
def test_a_base_file_name_survives_being_written_and_read(name):
    assert parse_base_file(str(name)) == name
    assert parse_log_file(str(name)) is None


LOG_NAMES = st.builds(
    LogFileName,
    FILE_IDS,
    INSTANTS,
    st.integers(1, 10**8),
    st.none() | TOKENS,
    is_cdc=st.booleans(),
)


@given(LOG_NAMES)
def test_a_log_file_name_survives_being_written_and_read(name):
    assert parse_log_file(str(name)) == name
    assert parse_base_file(str(name)) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        ".hoodie_partition_metadata",
        "..hoodie_partition_metadata.crc",
        "_SUCCESS",
        "part-00000.parquet",
        ".f-0_0-0-0_20240101000000000.parquet.crc",
        "f-0_0-0-0_20240101000000000",
        "f-0_0-0-0_.parquet",
        "f-0_0-0-0_2024x.parquet",
        "a_b_c_d.parquet",
        ".f-0_20240101000000000.log.1_1-0-1.crc",
        ".f-0_20240101000000000.log.",
        ".f-0_20240101000000000.log.x_1-0-1",
        ".commits_.archive.1_1-0-1",
    ],
)
def test_other_names_are_not_data_files(name):
    assert parse_base_file(name) is None
    assert parse_log_file(name) is None


def test_logs_of_a_slice_are_read_by_instant_then_version_then_token():
    names = [
        LogFileName("f", "20240101000000002", 1, "0-1-0"),
        LogFileName("f", "20240101000000001", 10, "0-1-0"),
        LogFileName("f", "20240101000000001", 2, "0-2-0"),
        LogFileName("f", "20240101000000001", 2, "0-1-0"),
        LogFileName("f", "20240101000000001", 2, None),
    ]
    assert [str(name) for name in sorted(names, key=lambda name: name.order)] == [
        ".f_20240101000000001.log.2",
        ".f_20240101000000001.log.2_0-1-0",
        ".f_20240101000000001.log.2_0-2-0",
        ".f_20240101000000001.log.10_0-1-0",
        ".f_20240101000000002.log.1_0-1-0",
    ]


@pytest.mark.parametrize(
    ("file_id", "bucket"),
    [
        ("00000007-1c1b-4d3f-9c1c-9f2b8a7c6d5e-0", 7),
        ("1a2b3c4d-1c1b-4d3f-9c1c-9f2b8a7c6d5e-0", None),
        ("00000007", None),
        ("", None),
    ],
)
def test_a_file_id_of_the_bucket_index_begins_with_its_bucket(file_id, bucket):
    assert bucket_of(file_id) == bucket


@given(st.text(alphabet="af0123._-loglcdcprquet٣", max_size=40))
def test_any_name_is_taken_apart_or_left_alone(name):
    for parts in (parse_base_file(name), parse_log_file(name)):
        if parts is not None and not getattr(parts, "version", 0):
            assert str(parts) == name
