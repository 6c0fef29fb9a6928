"""A new table says what Hudi says of one of its version; what could not be kept true is refused."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.key_generators import KeyGenerator
from lakehand.core.merge_rules import MergeMode
from lakehand.core.partition_paths import TimestampType
from lakehand.core.table_config import TableConfig, TableType, TableVersion
from lakehand.errors import Invalid, LakehandError, Unavailable, Unsupported
from lakehand.formats import avro_schema
from lakehand.protocol import table_properties
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write.creation import NewTable, create_table

if TYPE_CHECKING:
    from pathlib import Path

    from lakehand.ports import PutOutcome

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int32()),
        pa.field("city", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("ok", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([pa.field("country", pa.string())])),
        pa.field("ts", pa.int64()),
    ]
)
HIVE = "hoodie.datasource.write.hive_style_partitioning"


def store() -> MemoryStore:
    return MemoryStore("memory://lake/orders")


def create(at=None, schema: pa.Schema = SCHEMA, *, exist_ok: bool = False, **said) -> TableConfig:
    return create_table(
        store() if at is None else at, schema, NewTable(**({"key": ("id",)} | said)),
        exist_ok=exist_ok,
    )  # fmt: skip


# -- what is written ------------------------------------------------------------------------------


def test_the_properties_of_a_new_table_are_those_that_hudi_writes():
    """The keys that Java 1.2.0 writes for ``create table`` (v9), with values of ours."""
    at = store()
    create(at, partition_by=("city",), ordering=("ts",), table_type="mor")
    found = table_properties.load(at)
    schema = json.loads(found.pop("hoodie.table.create.schema"))
    assert (schema["name"], schema["namespace"]) == ("orders_record", "hoodie.orders")
    assert [one["name"] for one in schema["fields"]] == SCHEMA.names
    assert found == {
        "hoodie.table.name": "orders",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.table.format": "native",
        "hoodie.table.checksum": found["hoodie.table.checksum"],
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "city",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "SIMPLE",
        HIVE: "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.cdc.enabled": "false",
    }


@given(
    version=st.sampled_from([6, 8, 9]),
    table_type=st.sampled_from(["cow", "mor"]),
    key=st.sampled_from([("id",), ("id", "n"), ("place.country",), ("price",)]),
    partition_by=st.sampled_from([(), ("city",), ("city", "day"), ("ok",)]),
    ordering=st.sampled_from([(), ("ts",), ("at",)]),
    hive=st.booleans(),
)
def test_what_was_said_is_what_a_reader_of_the_properties_finds(
    version, table_type, key, partition_by, ordering, hive
):
    at = store()
    created = create(
        at, version=version, table_type=table_type, key=key, partition_by=partition_by,
        ordering=ordering, properties={HIVE: hive},
    )  # fmt: skip
    config = TableConfig.from_properties(table_properties.load(at))
    assert config == created
    config.require_writable()
    assert config.version is TableVersion(version)
    assert config.table_type is TableType(
        {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type]
    )
    assert config.record_key_fields == key
    assert config.partition_fields == partition_by
    assert config.ordering_fields == ordering
    mode = MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME
    assert config.merge_rule.mode is mode
    assert config.hive_style is hive
    assert config.metadata_partitions == ()


@pytest.mark.parametrize(
    ("key", "partition_by", "generator"),
    [
        (("id",), (), KeyGenerator.NON_PARTITION),
        (("id", "n"), (), KeyGenerator.NON_PARTITION),
        (("id",), ("city",), KeyGenerator.SIMPLE),
        (("id", "n"), ("city",), KeyGenerator.COMPLEX),
        (("id",), ("city", "day"), KeyGenerator.COMPLEX),
    ],
)
def test_the_key_generator_follows_the_number_of_fields(key, partition_by, generator):
    assert create(key=key, partition_by=partition_by).key_generator is generator


def test_a_timestamp_key_generator_is_named_by_properties():
    config = create(
        partition_by=("at",),
        properties={
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMICROSECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        },
    )
    assert config.key_generator is KeyGenerator.TIMESTAMP
    assert config.partitioning.timestamp is not None
    assert config.partitioning.timestamp.type is TimestampType.EPOCH_MICROS


def test_partition_fields_with_a_type_make_a_custom_key_generator():
    config = create(
        partition_by=("city:SIMPLE", "at:TIMESTAMP"),
        properties={
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMICROSECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy",
        },
    )
    assert config.key_generator is KeyGenerator.CUSTOM
    assert config.partition_fields == ("city", "at")


def test_meta_columns_of_another_table_are_not_columns_of_the_new_one():
    config = create(schema=avro_schema.with_meta_columns(SCHEMA))
    assert config.create_schema is not None
    assert avro_schema.to_arrow(config.create_schema, where="it").names == SCHEMA.names


@pytest.mark.parametrize(
    ("uri", "name"),
    [("memory://lake/sales/orders", "orders"), ("memory://lake", "lake")],
)
def test_a_table_is_named_after_its_place(uri, name):
    assert create(MemoryStore(uri)).name == name
    assert create(MemoryStore(uri), name="named").name == "named"


def test_a_new_table_on_a_disk_is_open_for_reading_at_once(tmp_path: Path):
    create(LocalStore(str(tmp_path / "my orders")), partition_by=("city",))
    table = Table.open(str(tmp_path / "my orders"))
    assert table.config.name == "my orders"
    found = table.to_arrow()
    assert found.num_rows == 0
    assert found.schema.names[5:] == SCHEMA.names
    assert table.data_schema() == SCHEMA.remove_metadata()


# -- what is there already ------------------------------------------------------------------------


def test_creating_over_a_table_names_it_and_changes_nothing():
    at = store()
    create(at, ordering=("ts",))
    before = at.get(table_properties.PATH)
    with pytest.raises(Invalid, match=r"holds a table already: 'orders' .*ordering ts"):
        create(at, ordering=("ts",))
    assert at.get(table_properties.PATH) == before


def test_exist_ok_returns_the_table_that_is_there():
    at = store()
    first = create(at, partition_by=("city",), ordering=("ts",), name="first")
    again = create(
        at, schema=pa.schema([*SCHEMA, pa.field("more", pa.string())]), partition_by=("city",),
        ordering=("ts",), properties={HIVE: "false"}, exist_ok=True,
    )  # fmt: skip
    assert again == first


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"key": ("n",)}, "key is id, not n"),
        ({"partition_by": ("city", "day")}, "partition_by is city, not city, day"),
        ({"partition_by": ()}, "partition_by is city, not none"),
        ({"ordering": ()}, "ordering is ts, not none"),
        ({"table_type": "mor"}, "table_type is COPY_ON_WRITE, not MERGE_ON_READ"),
        ({"version": 8}, "version is 9, not 8"),
        ({"name": "others"}, "name is orders, not others"),
        ({"properties": {HIVE: "true"}}, f"{HIVE} is false, not true"),
    ],
)
def test_exist_ok_refuses_another_table_by_what_differs(said, problem):
    at = store()
    same = {"partition_by": ("city",), "ordering": ("ts",)}
    create(at, **same)
    before = at.get(table_properties.PATH)
    with pytest.raises(Invalid, match=problem):
        create(at, exist_ok=True, **(same | said))
    assert at.get(table_properties.PATH) == before


def test_what_is_left_of_a_table_is_no_place_for_a_new_one():
    at = store()
    at.put(".hoodie/timeline/20240101000000000.commit.requested", b"")
    with pytest.raises(Invalid, match=r"what is left of a table \(.hoodie/timeline/2024"):
        create(at)
    assert at.head(table_properties.PATH) is None


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_timelines_folder_is_there_from_the_first_day_on(version, tmp_path: Path):
    """Java fails on a table without it, also where folders are nothing but prefixes."""
    config = create(LocalStore(str(tmp_path)), version=version)
    assert (tmp_path / config.timeline_path).is_dir()


def test_a_creation_that_died_half_way_is_done_again():
    class Dying(MemoryStore):
        dies = True

        def put_new(self, path: str, content: bytes) -> PutOutcome:
            if self.dies and path == table_properties.PATH:
                raise Unavailable("gone")
            return super().put_new(path, content)

    at = Dying("memory://lake/orders")
    with pytest.raises(Unavailable):
        create(at)
    assert [one.path for one in at.walk("")] == [".hoodie/timeline/history/.keep"]
    at.dies = False
    assert create(at).name == "orders"


def test_of_two_creators_at_once_one_creates_and_both_know_the_same_table():
    at = store()
    barrier = threading.Barrier(2)
    found: list[TableConfig | str] = []

    def run(key: str) -> None:
        barrier.wait()
        try:
            found.append(create(at, key=(key,)))
        except Invalid as error:
            found.append(str(error))

    workers = [threading.Thread(target=run, args=(key,)) for key in ("id", "n")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    (winner,) = [one for one in found if isinstance(one, TableConfig)]
    assert TableConfig.from_properties(table_properties.load(at)) == winner


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"key": ("idd",)}, r"key field 'idd': there is no column 'idd' \(did you mean 'id'\?\)"),
        ({"key": ("ID",)}, r"did you mean 'id'"),
        ({"key": ("place.county",)}, r"no column 'county' in 'place' \(did you mean 'country'"),
        ({"key": ()}, "needs a key"),
        ({"key": "id"}, r"write key=\('id',\)"),
        ({"key": ("id", "id")}, "key names id twice"),
        ({"key": ("tags",)}, r"key field 'tags' is of type list<.*: a key is made of text"),
        ({"key": ("place",)}, "key field 'place' is of type struct"),
        ({"key": ("raw",)}, "key field 'raw' is of type binary"),
        ({"partition_by": ("cty",)}, r"partition field 'cty'.*did you mean 'city'"),
        ({"partition_by": ("tags",)}, "partition field 'tags' is of type list.*makes no folder"),
        ({"ordering": ("tss",)}, r"ordering field 'tss'.*did you mean 'ts'"),
        ({"ordering": ("tags",)}, "ordering field 'tags' is of type list.*no order"),
        ({"table_type": "more"}, r"table type 'more' \(did you mean 'mor'"),
        ({"name": " "}, "no name for a table"),
        ({"name": "a\nb"}, "no name for a table"),
        ({"properties": {"hoodie.table.kegenerator.type": "SIMPLE"}}, "keygenerator.type'"),
        ({"properties": {"hoodie.table.name": "t"}}, "is said by the argument name"),
        ({"properties": {"hoodie.table.checksum": "1"}}, "not for a new table's creator"),
        ({"properties": {HIVE: 1}}, "properties are text"),
        ({"properties": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}}, "ordering fields"),
        ({"partition_by": ("city", "day"), "properties": {"hoodie.table.keygenerator.type":
            "SIMPLE"}}, "SIMPLE takes one key and one partition field; this table has 1 key and 2"),
        ({"partition_by": ("city",), "properties": {"hoodie.table.keygenerator.type":
            "NON_PARTITION"}}, "NON_PARTITION takes no partition fields"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_by_name_and_nothing_is_written(said, problem):
    at = store()
    with pytest.raises(Invalid, match=problem):
        create(at, **said)
    assert list(at.walk("")) == []


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"version": 7}, "table version 7 is not supported: choose one of 6, 8, 9"),
        ({"version": 8, "ordering": ("ts", "n")}, "version 8 has one ordering field"),
        ({"properties": {"hoodie.table.cdc.enabled": "true"}}, "cdc.enabled"),
        ({"properties": {"hoodie.populate.meta.fields": "false"}}, "populate.meta.fields"),
        ({"properties": {"hoodie.table.base.file.format": "ORC"}}, "ORC"),
        ({"properties": {"hoodie.table.keygenerator.type": "OWN"}}, "key generator OWN"),
        ({"partition_by": ("at",), "properties": {"hoodie.table.keygenerator.type": "TIMESTAMP"}},
            "how partition field 'at' is formatted"),
        ({"version": 6, "ordering": ("ts",), "properties": {"hoodie.record.merge.mode":
            "COMMIT_TIME_ORDERING"}}, "cannot say that it merges by COMMIT_TIME_ORDERING"),
        ({"version": 6, "partition_by": ("city:SIMPLE",)}, "of what type partition field 'city'"),
    ],
)  # fmt: skip
def test_a_table_that_could_not_be_kept_true_is_refused_and_nothing_is_written(said, problem):
    at = store()
    with pytest.raises(Unsupported, match=problem):
        create(at, **said)
    assert list(at.walk("")) == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (pa.schema([]), "needs columns"),
        (avro_schema.with_meta_columns(pa.schema([])), "needs columns"),
        (pa.schema([("id", pa.string()), ("Id", pa.string())]), "'id' and 'Id' are the same"),
        (pa.schema([("id", pa.string()), ("id", pa.string())]), "'id' and 'id' are the same"),
        (pa.schema([("id", pa.string()), ("a-b", pa.string())]), "column 'a-b'"),
        (pa.schema([("id", pa.string()), ("x", pa.timestamp("ns"))]), r"column x.*timestamp\[ns\]"),
        (pa.schema([("id", pa.string()), ("x", pa.null())]), "column x.*null"),
    ],
)
def test_a_schema_that_hudi_cannot_hold_is_refused_by_column(schema, problem):
    at = store()
    with pytest.raises(LakehandError, match=problem):
        create(at, schema=schema)
    assert list(at.walk("")) == []
