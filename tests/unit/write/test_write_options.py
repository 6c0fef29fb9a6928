"""Options of a write are understood by both spellings, or refused by name."""

import contextlib
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.conflict_tables import Strategy
from lakehand.core.file_sizing import SizeLimits
from lakehand.core.journal_entries import RunKey
from lakehand.core.table_config import TableConfig
from lakehand.core.table_keys import HoodieKey
from lakehand.errors import Invalid, LakehandError, Unsupported
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.locks.open import LockKind
from lakehand.protocol.failed_writes import FailedWritesPolicy
from lakehand.protocol.workbench import ProtocolSettings
from lakehand.write.option_table import (
    ELSEWHERE,
    HARMLESS,
    OPTIONS,
    TABLE_KEYS,
    IndexType,
    SortMode,
    as_markdown,
)
from lakehand.write.options import WriteOptions
from lakehand.write.shapes import FileSettings, LogFormat

PAGE = Path(__file__).resolve().parents[3] / "docs" / "write-options.md"
TABLE = {
    "hoodie.table.name": "t1",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.recordkey.fields": "id,day",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.keygenerator.type": "COMPLEX",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
CONFIG = TableConfig.from_properties(TABLE)


def parse(**options):
    return WriteOptions.parse(options)


def test_the_page_is_printed_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == as_markdown(), (
        "docs/write-options.md is stale: print lakehand.write.option_table.as_markdown() into it"
    )


def test_without_options_the_parts_have_their_own_defaults():
    options = parse()
    assert options.files == FileSettings()
    assert options.protocol == ProtocolSettings()
    assert options.sizes == SizeLimits()
    assert (options.index, options.sort) == (IndexType.BLOOM, SortMode.NONE)
    assert (options.retries, options.run, options.parallelism) == (0, None, {})
    assert options.failed_writes is FailedWritesPolicy.LAZY
    assert options.strategy is Strategy.PREFER_INGESTION
    assert [one for one in WriteOperation if options.combines(one)] == [
        WriteOperation.UPSERT,
        WriteOperation.DELETE,
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"dictionary_columns": "a,b"}, ("a", "b")),
        ({"hoodie.parquet.dictionary.enabled": "false"}, ()),
        ({"dictionary": False, "dictionary_columns": ["a"]}, ("a",)),
    ],
)
def test_a_dictionary_is_for_all_columns_or_for_those_named(given, expected):
    assert WriteOptions.parse(given).files.base.dictionary_columns == expected


def test_every_key_has_one_meaning():
    spelled = [*OPTIONS, *(key.name for one in OPTIONS.values() for key in one.keys)]
    spelled += [*TABLE_KEYS, *HARMLESS, *ELSEWHERE]
    assert len(spelled) == len(set(spelled))
    own = {key.name for one in OPTIONS.values() for key in one.keys}
    assert own.isdisjoint(name for key in HoodieKey for name in key.names)


def test_hudis_keys_count_in_their_own_units():
    by_key = WriteOptions.parse(
        {
            "hoodie.parquet.max.file.size": "268435456",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.parquet.page.size": 2 << 20,
            "hoodie.client.heartbeat.interval_in_ms": "1500",
            "hoodie.write.lock.wait_time_ms": "90000",
            "hoodie.parquet.compression.codec": "UNCOMPRESSED",
            "hoodie.logfile.data.block.format": "AVRO",
            "hoodie.cleaner.policy.failed.writes": "eager",
            "hoodie.upsert.shuffle.parallelism": "7",
            "hoodie.parquet.bloom.filter.enabled": "false",
        }
    )
    assert by_key == parse(
        max_file_mb=256,
        small_file_mb=0,
        page_kb=2048,
        heartbeat_s=1.5,
        lock_timeout_s=90,
        codec="none",
        log_format=LogFormat.AVRO,
        failed_writes="EAGER",
        upsert_parallelism=7,
        bloom=False,
    )
    assert by_key.files.max_file_bytes == by_key.sizes.max_file_bytes == 256 << 20
    assert by_key.files.base.bloom is None
    assert by_key.protocol.heartbeat_interval_s == 1.5


def test_javas_classes_stand_for_our_words():
    options = WriteOptions.parse(
        {
            "hoodie.write.lock.provider": (
                "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
            ),
            "hoodie.write.lock.conflict.resolution.strategy": (
                "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
            ),
        }
    )
    assert (options.lock, options.strategy) == ("filesystem", Strategy.PREFER_WRITER)
    assert list(OPTIONS["lock"].kind.values) == [kind.value for kind in LockKind]


@pytest.mark.parametrize(
    ("given_name", "nearest"),
    [
        ("max_file_size_mb", "max_file_mb"),
        ("retry", "retries"),
        ("hoodie.parquet.max.file.sise", "hoodie.parquet.max.file.size"),
        ("hoodie.datasource.write.recordkey.fields", "hoodie.datasource.write.recordkey.field"),
    ],
)
def test_an_unknown_option_names_the_nearest_one(given_name, nearest):
    with pytest.raises(Invalid, match=f"unknown option '{given_name}': did you mean '{nearest}'"):
        WriteOptions.parse({given_name: 1})


def test_an_option_like_no_other_points_to_the_page():
    with pytest.raises(Invalid, match=r"unknown option 'zzz': docs/write-options\.md"):
        parse(zzz=1)


@pytest.mark.parametrize(
    ("given_name", "value", "what_is_allowed"),
    [
        ("max_file_mb", 0, "a number from 0.0001 to 1048576"),
        ("hoodie.client.heartbeat.interval_in_ms", "10", "a number from 1000 to 86400000"),
        ("retries", 1.5, "a whole number from 0 to 1000"),
        ("retries", True, "a whole number"),
        ("row_bytes", "nan", "a whole number"),
        ("bloom", "yes", "true or false"),
        ("codec", "lzo", "zstd, gzip, snappy, none"),
        ("hoodie.index.type", "TREE", "BLOOM, SIMPLE, GLOBAL_BLOOM, GLOBAL_SIMPLE"),
        ("dictionary_columns", 3, "column names"),
        ("spill_folder", "", "text"),
        ("lock_options", "a=b", "a mapping"),
    ],
)
def test_a_bad_value_says_the_key_the_value_and_what_is_allowed(given_name, value, what_is_allowed):
    with pytest.raises(Invalid) as error:
        WriteOptions.parse({given_name: value})
    assert f"{given_name}={value!r} is not allowed: " in str(error.value)
    assert what_is_allowed in str(error.value)


def test_two_spellings_may_agree_and_may_not_differ():
    both = {"max_file_mb": 1, "hoodie.parquet.max.file.size": "1048576"}
    assert WriteOptions.parse(both).files.max_file_bytes == 1 << 20
    with pytest.raises(Invalid, match=r"max_file_mb and hoodie\.parquet\.max\.file\.size"):
        WriteOptions.parse({**both, "max_file_mb": 2})
    with pytest.raises(Invalid, match="one option"):
        WriteOptions.parse(
            {
                "hoodie.bloom.index.update.partition.path": "true",
                "hoodie.simple.index.update.partition.path": "false",
            }
        )


@pytest.mark.parametrize("name", ["BUCKET", "RECORD_INDEX", "record_index", "HBASE"])
def test_indexes_that_are_not_kept_are_refused_by_name(name):
    with pytest.raises(Unsupported, match=f"index={name} is not supported"):
        parse(index=name)


def test_operation_and_lock_settings_say_where_they_belong():
    with pytest.raises(Invalid, match="call the writer's upsert"):
        WriteOptions.parse({"hoodie.datasource.write.operation": "upsert"})
    with pytest.raises(Invalid, match="lock_options="):
        WriteOptions.parse({"hoodie.write.lock.zookeeper.url": "z"})


@pytest.mark.parametrize("name", [name for name, one in HARMLESS.items() if one.values])
def test_settings_that_would_do_nothing_are_taken_only_if_nothing_is_wanted(name):
    assert WriteOptions.parse({name: HARMLESS[name].values[0].upper()}) == parse()
    with pytest.raises(Unsupported, match=f"{name}='true' is not supported"):
        WriteOptions.parse({name: True})


@given(codec=st.sampled_from(["zstd", "gzip", "snappy", "none"]), level=st.integers(1, 22))
def test_levels_are_taken_exactly_where_the_file_writer_takes_them(codec, level):
    def accepts(make):
        try:
            make()
        except Invalid:
            return False
        return True

    def write():
        options = BaseFileOptions(codec=codec, level=level)
        BaseFileWriter(io.BytesIO(), pa.schema([("a", pa.int32())]), options=options).close()

    assert accepts(write) == accepts(lambda: parse(codec=codec, level=level))


def test_parallelism_stands_for_all_operations_but_those_with_their_own():
    options = parse(parallelism=4, insert_parallelism="9")
    assert options.parallelism[WriteOperation.UPSERT] == 4
    assert options.parallelism[WriteOperation.INSERT_OVERWRITE] == 9
    assert options.parallelism[WriteOperation.BULK_INSERT] == 4


def test_a_batch_of_an_application_needs_both_its_names():
    assert parse(app_id="orders", batch=17).run == RunKey("orders", "17")
    for half in ({"app_id": "orders"}, {"batch": 17}):
        with pytest.raises(Invalid, match="app_id and batch go together"):
            WriteOptions.parse(half)


def test_commit_metadata_comes_from_a_mapping_and_from_options_with_a_prefix():
    options = WriteOptions.parse(
        {
            "hoodie.datasource.write.commitmeta.key.prefix": "mine.",
            "mine.source": "kafka",
            "extra_metadata": {"run": 5},
        }
    )
    assert options.extra_metadata == {"mine.source": "kafka", "run": "5"}
    with pytest.raises(Invalid, match=r"unknown option 'mine\.source'"):
        WriteOptions.parse({"mine.source": "kafka"})


def test_an_option_that_is_none_is_not_given():
    assert parse(level=None, app_id=None, metadata_prefix=None) == parse()


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("hoodie.datasource.write.recordkey.field", "id, day", "id"),
        ("hoodie.datasource.write.precombine.field", "ts", "seq"),
        ("hoodie.datasource.write.partitionpath.field", "city", "country"),
        ("hoodie.datasource.write.partitionpath.field", "city:SIMPLE", "city:TIMESTAMP"),
        ("hoodie.table.name", "t1", "T1"),
        ("hoodie.datasource.write.table.type", "merge_on_read", "COPY_ON_WRITE"),
        (
            "hoodie.datasource.write.keygenerator.class",
            "org.apache.hudi.keygen.ComplexKeyGenerator",
            "org.apache.hudi.keygen.SimpleKeyGenerator",
        ),
        ("hoodie.write.record.merge.mode", "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"),
        ("hoodie.datasource.write.hive_style_partitioning", True, False),
        ("hoodie.write.table.version", 9, 8),
    ],
)
def test_keys_of_the_table_may_repeat_what_it_is_and_not_change_it(key, right, wrong):
    WriteOptions.parse({key: right}).check_against(CONFIG)
    with pytest.raises(Invalid, match=rf"{key}=.*but the table 't1' has"):
        WriteOptions.parse({key: wrong}).check_against(CONFIG)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(),
    st.lists(st.text(max_size=3)), st.dictionaries(st.text(max_size=3), st.integers()),
)  # fmt: skip
SPELLINGS = st.sampled_from(
    [*OPTIONS, *(key.name for one in OPTIONS.values() for key in one.keys), *HARMLESS, *TABLE_KEYS]
)


@given(st.dictionaries(SPELLINGS | st.text(max_size=5), ANYTHING, max_size=4))
def test_any_options_are_understood_or_refused_by_a_typed_error(options):
    with contextlib.suppress(LakehandError):
        WriteOptions.parse(options).check_against(CONFIG)
