import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid
from lakehand.formats import table_properties

NAME, DATABASE, SUM = "hoodie.table.name", "hoodie.database.name", "hoodie.table.checksum"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_the_checksum_covers_the_names_and_nothing_else():
    with_database = {NAME: "t1", DATABASE: "db", "hoodie.table.version": "9"}
    assert table_properties.checksum(with_database) == str(zlib.crc32(b"db.t1"))
    assert table_properties.checksum({NAME: "t1"}) == str(zlib.crc32(b".t1"))
    assert table_properties.checksum({NAME: "t1", DATABASE: ""}) == str(zlib.crc32(b".t1"))
    assert table_properties.checksum({NAME: "täble"}) == str(zlib.crc32(".täble".encode()))


@given(st.dictionaries(TEXT, TEXT), TEXT)
def test_what_is_written_reads_back_with_the_right_checksum(others, name):
    properties = others | {NAME: name, SUM: "0"}
    again = table_properties.decode(table_properties.encode(properties), where="p")
    assert again == properties | {SUM: table_properties.checksum(properties)}


def test_a_wrong_checksum_is_corrupt():
    with pytest.raises(Corrupt, match=SUM):
        table_properties.decode(f"{NAME}=t1\n{SUM}=1\n".encode(), where="p")


def test_a_missing_checksum_is_accepted_as_java_does():
    assert table_properties.decode(f"{NAME}=t1\n".encode(), where="p") == {NAME: "t1"}


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", f"{NAME}=\n".encode(), b"\x00"])
def test_a_file_without_a_table_name_is_corrupt(content):
    with pytest.raises(Corrupt, match=NAME):
        table_properties.decode(content, where="p")


def test_a_table_without_a_name_is_not_written():
    with pytest.raises(Invalid, match=NAME):
        table_properties.encode({"hoodie.table.version": "9"})


def test_comments_are_javas():
    assert table_properties.creation_comments(1_763_474_400_123) == (
        "Properties saved on 2025-11-18T14:00:00.123Z",
        "Tue Nov 18 14:00:00 UTC 2025",
    )
    assert table_properties.update_comments(0)[0] == "Updated at 1970-01-01T00:00:00.000Z"
