"""Whole tables, written by the shipped formats with a model beside them, read back in all ways."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid, NotFound, Unsupported
from lakehand.formats.log_file import BlockType, HeaderKey, encode_block
from lakehand.read.log_reader import scan_log
from lakehand.read.merge_stream import MergeMemory
from lakehand.read.slice_reader import ReadOptions
from lakehand.store.local import LocalStore
from lakehand.table import Table
from table_builder_rows import Partitioning, Shape, differences
from table_scenarios import start

MOR = Shape(version=9, merge_on_read=True, partitioning=Partitioning.HIVE)
COW = Shape(version=8, merge_on_read=False, partitioning=Partitioning.HIVE)
OLD = Shape(version=6, merge_on_read=True, partitioning=Partitioning.NONE, blocks="parquet")
TINY = ReadOptions(batch_rows=3, memory=MergeMemory(limit_bytes=100))


@pytest.fixture(scope="module", params=[MOR, COW, OLD], ids=["mor9", "cow8", "mor6"])
def built(request, tmp_path_factory):
    table = start(request.param, tmp_path_factory.mktemp("built") / "table")
    table.delete([3, 4])
    return table


@pytest.fixture(scope="module")
def table(built):
    return Table.open(str(built.folder))


@pytest.fixture(scope="module")
def snapshot(table):
    return table.snapshot()


@pytest.fixture(scope="module")
def everything(table):
    return table.to_arrow()


def ordered(rows):
    return rows.sort_by("_hoodie_record_key").to_pylist()


def test_a_table_reads_as_its_model(built, everything):
    assert differences(built.shape, built.model, everything) == []


def test_little_memory_gives_the_same_rows(everything, table):
    assert ordered(table.to_arrow(options=TINY)) == ordered(everything)


def test_slices_can_be_read_side_by_side(everything, table):
    with ThreadPoolExecutor(2) as executor:
        assert ordered(table.to_arrow(executor=executor)) == ordered(everything)


NUMBERS = st.sampled_from(["count", "total", "ts", "score"])
NUMBER_OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
NUMBER_TRIPLES = st.tuples(NUMBERS, NUMBER_OPERATORS, st.integers(-3, 40))
KEY_TRIPLES = st.tuples(
    st.just("_hoodie_record_key"), NUMBER_OPERATORS, st.sampled_from(["", "k", "k005", "k02", "z"])
)
REGIONS = st.tuples(
    st.sampled_from(["region", "country", "name"]),
    st.sampled_from(["IN", "NOT IN"]),
    st.lists(st.sampled_from(["north", "south", "eu", "de", "no", "x"]), max_size=3),
)
FILTERS = st.lists(st.one_of(NUMBER_TRIPLES, KEY_TRIPLES, REGIONS), max_size=3)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pushed_down_filters_and_columns_change_nothing_but_the_work(data, everything, snapshot):
    triples = data.draw(FILTERS)
    columns = data.draw(st.lists(st.sampled_from(everything.column_names[5:]), unique=True))
    kept = everything
    for name, operator, value in triples:
        kept = kept.filter(_expression(kept.schema, name, operator, value))
    scan = snapshot.scan(columns=["_hoodie_record_key", *columns], where=triples)
    found = pa.Table.from_batches(scan.stream(), schema=scan.schema)
    assert found.column_names == ["_hoodie_record_key", *columns]
    expected = kept.sort_by("_hoodie_record_key").select(found.column_names)
    assert ordered(found) == expected.to_pylist()


def _expression(schema, name, operator, value):
    column = pc.field(name)
    if operator == "IN":
        return column.isin(pa.array(value, pa.string()))
    if operator == "NOT IN":
        return column.is_valid() & ~column.isin(pa.array(value, pa.string()))
    scalar = pa.scalar(value).cast(schema.field(name).type)
    comparisons = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal"}
    comparisons |= {">": "greater", ">=": "greater_equal"}
    return getattr(pc, comparisons[operator])(column, scalar)


def test_a_base_row_outside_of_the_filter_still_beats_a_late_row_inside_of_it(everything, table):
    """Late rows have negative times, and no base row group does: it must be read all the same."""
    assert min(everything.column("ts").to_pylist()) > 0
    assert table.to_arrow(filter=[("ts", "<", 0)]).num_rows == 0


def test_an_expression_filters_merged_rows(everything, table):
    expression = (pc.field("ts") > 1) & (pc.field("place", "lat") > 1.0)
    found = table.to_arrow(filter=expression)
    assert ordered(found) == ordered(everything.filter(expression))
    assert 0 < found.num_rows < everything.num_rows


def test_no_columns_at_all_still_counts_rows(everything, table):
    batches = list(table.scan(columns=[]))
    assert sum(batch.num_rows for batch in batches) == everything.num_rows


class CountingStore(LocalStore):
    """Remembers which data files were opened."""

    def open(self, path):
        self.opened.append(path)
        return super().open(path)


def test_partitions_that_cannot_match_are_not_opened(tmp_path):
    built = start(MOR, tmp_path / "table")
    store = CountingStore(str(built.folder))
    store.opened = []
    partition = next(iter(built.model.values()))["region"]
    found = Table.over(store).to_arrow(columns=["id"], filter=[("region", "=", partition)])
    assert found.num_rows
    # The folder of null and empty values cannot be judged by its name.
    folders = {path.split("/")[0] for path in store.opened}
    assert folders == {f"region={partition}", "region=__HIVE_DEFAULT_PARTITION__"}


def test_time_travel_takes_instants_and_dates(built, table):
    first = table.timeline().completed_writes[0].time
    assert table.to_arrow(as_of="2023-12-31").num_rows == 0
    assert 0 < table.to_arrow(as_of=first).num_rows < len(built.model)
    assert table.to_arrow(as_of="2024-01-02 00:00:00.000").num_rows == len(built.model)
    for nonsense in ("yesterday", "2024-13-01", "20240101"):
        with pytest.raises(Invalid):
            table.to_arrow(as_of=nonsense)


def test_what_the_user_gets_wrong_is_said(table, tmp_path):
    with pytest.raises(Invalid, match="did you mean 'country'"):
        table.to_arrow(columns=["countri"])
    with pytest.raises(NotFound):
        Table.open(str(tmp_path / "nowhere"))


def fresh(tmp_path):
    built = start(MOR, tmp_path / "table")
    return built, Table.open(str(built.folder))


def test_files_outside_of_partitions_are_not_the_tables(tmp_path):
    built, table = fresh(tmp_path)
    part = next(one for one in table.slices() if one.base_file is not None)
    source = built.folder / part.partition / part.base_file.name
    stray = built.folder / "not-a-partition" / source.name.replace(part.file_id, "stray-0")
    stray.parent.mkdir()
    stray.write_bytes(source.read_bytes())
    assert table.to_arrow().num_rows == len(built.model)


def log_of(built, table):
    part = next(one for one in table.slices() if one.log_files)
    return part, built.folder / part.partition / part.log_files[-1].name


def append(path: Path, kind, header=None, content=b""):
    instant = path.name.split("_")[1].split(".")[0]
    entries = {HeaderKey.INSTANT_TIME: instant} | (header or {})
    with path.open("ab") as log:
        log.write(encode_block(kind, entries, content))


@pytest.mark.parametrize(
    ("kind", "header", "message"),
    [
        (BlockType.HFILE_DATA, {}, "HFILE data blocks"),
        (BlockType.AVRO_DATA, {HeaderKey.IS_PARTIAL: "true"}, "partial updates"),
    ],
)
def test_blocks_that_cannot_be_merged_are_refused_by_name(tmp_path, kind, header, message):
    built, table = fresh(tmp_path)
    append(log_of(built, table)[1], kind, header)
    with pytest.raises(Unsupported, match=message):
        table.to_arrow()


def test_change_logs_and_corrupt_stretches_are_passed_over_and_counted(tmp_path):
    built, table = fresh(tmp_path)
    part, path = log_of(built, table)
    append(path, BlockType.CDC_DATA)
    with path.open("ab") as log:
        log.write(b"#HUDI#\x00\x00")
    assert table.to_arrow().num_rows == len(built.model)
    with scan_log(table.store, table.timeline(), 9, part) as scan:
        assert len(scan.selection.cdc) == 1
        assert len(scan.selection.corrupt) == 1


def test_a_broken_base_file_is_corrupt_with_its_name(tmp_path):
    built, table = fresh(tmp_path)
    part = next(one for one in table.slices() if one.base_file is not None)
    path = built.folder / part.partition / part.base_file.name
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=part.base_file.name.split("_")[0]):
        table.to_arrow()


def test_a_base_file_that_vanishes_is_not_found(tmp_path):
    built, table = fresh(tmp_path)
    part = next(one for one in table.slices() if one.base_file is not None)
    snapshot = table.snapshot()
    (built.folder / part.partition / part.base_file.name).unlink()
    with pytest.raises(NotFound, match=part.base_file.name):
        list(snapshot.scan().stream())


def test_the_schema_has_the_meta_columns_in_front(table, everything):
    assert table.schema().names == everything.column_names
    assert table.schema().names[:5] == [*everything.column_names[:5]]
    assert table.data_schema().names == everything.column_names[5:]
