"""What Java wrote, read by us: row by row what Java itself reads, now and at earlier instants.

Where the bundle that made a table and 1.2.0 disagree about it, one of the two must agree with us;
which one is pinned below where it is a choice of ours. In two points about partition columns Java
shows what it parsed from the folder's name, and we show what the row holds:

* the column of a timestamp key generator comes as text from Java, and from 0.15, in copy-on-write
  tables, as the folder's name;
* an empty value lies in the folder of nulls, and comes as null from Java.
"""

import math

import pyarrow as pa
import pytest

from golden import golden_names, read_meta, unpack
from lakehand.core.partition_paths import DEFAULT_PARTITION
from lakehand.core.table_kinds import TableType
from lakehand.errors import Unsupported
from lakehand.table import Table

NAMES = golden_names()
STOPS_AT_A_ROLLBACK = {"v6_mor_rollback_failed"}
"""0.15 hides the newest commit when a rollback command that began later lies before it in the log;
it shows it again after the next commit, and 1.2.0 reads as we do."""

MERGED_AS_THE_WRITER_DOES = [
    name for name in NAMES if name in {"v6_mor_commit_time", "v6_mor_deletes"}
]


def comparable(value):
    """Return a value that compares by bits: NaN equals NaN, and maps have no order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return sorted(([comparable(k), comparable(v)] for k, v in value), key=repr)
        return [comparable(one) for one in value]
    return value


def as_java_shows(row, expected, partition_fields, *, from_path):
    """Return our row with its partition columns as Java parses them from the folder's name."""
    for name in partition_fields:
        if from_path and isinstance(row[name], int) and len(partition_fields) == 1:
            row[name] = row["_hoodie_partition_path"]
        elif row.get("_hoodie_partition_path") == DEFAULT_PARTITION and row[name] == "":
            row[name] = None
        elif pa.types.is_string(expected.schema.field(name).type) and row[name] is not None:
            row[name] = str(row[name])
    return row


def rows_of(rows):
    return sorted(({name: comparable(row[name]) for name in sorted(row)} for row in rows), key=repr)


def difference(ours, theirs, partition_fields, *, from_path=False):
    """Return what differs first, or None; ``from_path`` as 0.15 reads copy-on-write tables."""
    if sorted(ours.column_names) != sorted(theirs.column_names):
        return f"columns {ours.column_names} and {theirs.column_names}"
    is_text = all(pa.types.is_string(theirs.schema.field(name).type) for name in partition_fields)
    shown = [
        as_java_shows(row, theirs, partition_fields, from_path=from_path and is_text)
        for row in ours.to_pylist()
    ]
    found, expected = rows_of(shown), rows_of(theirs.to_pylist())
    for one, other in zip(found, expected, strict=False):
        if one != other:
            names = [name for name in one if one[name] != other[name]]
            return [{name: row[name] for name in names} for row in (one, other)]
    return None if len(found) == len(expected) else f"{len(found)} rows and {len(expected)}"


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_table_reads_as_java_reads_it_now_and_at_earlier_instants(name, tmp_path):
    golden = unpack(name, tmp_path)
    refusal = golden.meta.get("refused")
    if refusal:
        with pytest.raises(Unsupported, match=refusal):
            Table.open(str(golden.path)).to_arrow()
        return
    table = Table.open(str(golden.path))
    for as_of in dict.fromkeys(read.as_of for read in golden.reads):
        answers = [
            read
            for read in golden.reads
            if read.as_of == as_of and (read.fault is None or "see the other read" in read.fault)
        ]
        ours = table.to_arrow(as_of=as_of)
        fields = table.config.partition_fields
        found = {
            read.source: difference(
                ours,
                read.expected,
                fields,
                from_path=read.source == "java"
                and golden.meta["bundle"] == "0.15.0"
                and table.config.table_type is TableType.COPY_ON_WRITE,
            )
            for read in answers
        }
        if name in STOPS_AT_A_ROLLBACK and as_of is not None and list(found) == ["java"]:
            continue
        assert not found or None in found.values(), (as_of, found)


@pytest.mark.parametrize("name", MERGED_AS_THE_WRITER_DOES)
def test_version_6_is_merged_as_the_release_that_writes_it_merges(name, tmp_path):
    golden = unpack(name, tmp_path)
    table = Table.open(str(golden.path))
    for read in golden.reads:
        if read.source == "java":
            ours = table.to_arrow(as_of=read.as_of)
            assert difference(ours, read.expected, table.config.partition_fields) is None


def test_there_are_golden_tables_of_every_version():
    assert {read_meta(name)["table_version"] for name in NAMES} >= {6, 8, 9}
