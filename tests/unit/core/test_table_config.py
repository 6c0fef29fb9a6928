"""A table's properties are typed whoever wrote them; what would go wrong is refused by name."""

import zipfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import golden
from lakehand.core.key_generators import KeyGenerator
from lakehand.core.merge_rules import Dialect, MergeMode, MergeRule
from lakehand.core.partition_paths import PartitionField, PartitionScheme, PartitionType
from lakehand.core.table_config import TableConfig, TableType, TableVersion, TimelineZone
from lakehand.core.table_keys import HoodieKey
from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats import java_properties

V6 = {
    "hoodie.table.name": "t1",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.archivelog.folder": "archived",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
V9 = {
    "hoodie.table.name": "t1",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "ts,seq",
}


def properties_of(name: str) -> dict[str, str]:
    with zipfile.ZipFile(golden.GOLDEN / f"{name}.zip") as archive:
        content = archive.read("table/.hoodie/hoodie.properties")
    return java_properties.parse(content, where=name)


def plain(config: TableConfig) -> TableConfig:
    """Without what depends on who created the table; new tables are those of one release."""
    rule = replace(config.merge_rule, dialect=Dialect.MODES)
    return replace(config, initial_version=None, database="", merge_rule=rule)


def test_a_table_of_version_6_is_understood():
    config = TableConfig.from_properties(V6)
    assert (config.name, config.version, config.layout) == ("t1", TableVersion.SIX, 1)
    assert config.table_type is TableType.MERGE_ON_READ
    assert config.key_generator is KeyGenerator.NON_PARTITION
    assert config.merge_rule.mode is MergeMode.EVENT_TIME
    assert config.ordering_fields == ("ts",)
    assert config.timezone is TimelineZone.LOCAL
    assert (config.timeline_path, config.history_path) == (".hoodie", ".hoodie/archived")
    config.require_writable()


def test_a_table_of_version_9_is_understood():
    config = TableConfig.from_properties(V9)
    assert (config.version, config.layout) == (TableVersion.NINE, 2)
    assert config.ordering_fields == ("ts", "seq")
    assert config.partition_fields == ("city",)
    assert config.timeline_path == ".hoodie/timeline"
    assert config.history_path == ".hoodie/timeline/history"
    config.require_writable()


def test_new_names_in_an_old_table_and_old_names_in_a_new_one_are_read():
    renamed = {
        **V6,
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.keygenerator.type": "SIMPLE",
    }
    del renamed["hoodie.table.precombine.field"]
    del renamed["hoodie.table.keygenerator.class"]
    config = TableConfig.from_properties(renamed)
    assert (config.ordering_fields, config.key_generator) == (("ts",), KeyGenerator.SIMPLE)
    left = {**V9, "hoodie.table.precombine.field": "ts", "hoodie.table.ordering.fields": ""}
    assert TableConfig.from_properties(left).ordering_fields == ("ts",)


READABLE = [name for name in golden.golden_names() if not golden.read_meta(name).get("refused")]


@pytest.mark.parametrize("name", READABLE)
def test_every_golden_table_is_readable_and_survives_being_written(name):
    properties = properties_of(name)
    config = TableConfig.from_properties(properties, where=name)
    config.require_readable()
    again = TableConfig.from_properties(config.to_properties())
    assert plain(again) == plain(config)


@pytest.mark.parametrize(
    "name",
    [name for name in READABLE if name.split("_")[0] in {"v6", "v8", "v9"}],
)
def test_new_tables_get_the_very_properties_that_hudi_gives_them(name):
    properties = properties_of(name)
    config = TableConfig.from_properties(properties, where=name)
    del properties["hoodie.table.checksum"]
    if set(config.metadata_partitions) <= {"files"}:
        # It stays behind when a rollback or restore drops the partitions that needed it.
        properties.pop("hoodie.table.index.defs.path", None)
    # 0.15 leaves the default zone out when its Spark writer makes the table.
    properties.setdefault("hoodie.table.timeline.timezone", "LOCAL")
    # Releases differ in whether they write a key that has nothing to say.
    ours, theirs = (
        {key: text for key, text in one.items() if text}
        for one in (config.to_properties(), properties)
    )
    assert ours == theirs


def test_unknown_keys_are_kept():
    config = TableConfig.from_properties({**V9, "somebody.elses": "key"})
    assert config.properties["somebody.elses"] == "key"
    assert config.to_properties()["somebody.elses"] == "key"


@pytest.mark.parametrize("version", ["0", "5", "7", "10", ""])
def test_other_table_versions_are_refused(version):
    with pytest.raises(Unsupported, match=r"table version .*supported are 6, 8, 9"):
        TableConfig.from_properties({**V6, "hoodie.table.version": version})


@pytest.mark.parametrize(("properties", "layout"), [(V6, "2"), (V9, "1"), (V9, "3")])
def test_a_version_with_a_foreign_layout_is_refused(properties, layout):
    with pytest.raises(Unsupported, match="layout"):
        TableConfig.from_properties({**properties, "hoodie.timeline.layout.version": layout})


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("hoodie.table.name", "", "no hoodie.table.name"),
        ("hoodie.table.type", "COPY", "not known"),
        ("hoodie.table.version", "six", "no number"),
        ("hoodie.table.version", "٦", "no number"),
        ("hoodie.populate.meta.fields", "yes", "neither true nor false"),
        ("hoodie.archivelog.folder", "../../etc", "no folder name"),
        ("hoodie.table.timeline.timezone", "MARS", "not known"),
    ],
)
def test_properties_that_make_no_sense_name_the_file_and_the_key(key, value, problem):
    with pytest.raises(Corrupt, match=problem) as error:
        TableConfig.from_properties({**V6, key: value}, where="here/hoodie.properties")
    assert error.value.where == "here/hoodie.properties"
    assert key in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("hoodie.table.base.file.format", "ORC", "base file format ORC"),
        ("hoodie.table.ro.file.format", "ORC", "base file format ORC"),
        ("hoodie.datasource.write.drop.partition.columns", "true", "drop.partition.columns"),
        ("hoodie.populate.meta.fields", "false", "populate.meta.fields=false"),
        ("hoodie.bootstrap.base.path", "/elsewhere", "bootstrap.base.path"),
        ("hoodie.table.multiple.base.file.formats.enable", "true", "multiple.base.file.formats"),
        ("hoodie.partition.metafile.use.base.format", "true", "metafile.use.base.format"),
        ("hoodie.table.format", "iceberg", "table format iceberg"),
        ("hoodie.table.log.file.format", "PARQUET", "log file format PARQUET"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(key, value, reason):
    config = TableConfig.from_properties({**V9, key: value})
    with pytest.raises(Unsupported, match=f"cannot read table 't1'.*{reason}"):
        config.require_readable()
    with pytest.raises(Unsupported, match=reason):
        config.require_writable()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("hoodie.table.cdc.enabled", "true", "cdc.enabled"),
        (
            "hoodie.table.metadata.partitions",
            "files",
            r"metadata table \(files\) would fall behind",
        ),
        ("hoodie.table.metadata.partitions.inflight", "record_index", r"\(record_index\)"),
        ("hoodie.table.recordkey.fields", "", "no hoodie.table.recordkey.fields"),
        ("hoodie.table.keygenerator.type", "USER_PROVIDED", "key generator USER_PROVIDED"),
        ("hoodie.record.merge.mode", "CUSTOM", "merge strategy"),
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS", "partial update mode"),
        (
            "hoodie.datasource.write.slash.separated.date.partitioning",
            "true",
            "slash.separated.date",
        ),
    ],
)
def test_what_can_be_read_but_not_written_is_refused_for_writing_only(key, value, reason):
    config = TableConfig.from_properties({**V9, key: value})
    config.require_readable()
    with pytest.raises(Unsupported, match=f"cannot write table 't1'.*{reason}"):
        config.require_writable()


def test_all_reasons_are_given_at_once():
    config = TableConfig.from_properties(
        {**V9, "hoodie.table.base.file.format": "ORC", "hoodie.bootstrap.base.path": "/x"}
    )
    with pytest.raises(Unsupported, match=r"ORC.*; .*bootstrap"):
        config.require_readable()


def test_a_copy_on_write_table_without_meta_columns_is_read_and_not_written():
    config = TableConfig.from_properties(
        {**V9, "hoodie.table.type": "COPY_ON_WRITE", "hoodie.populate.meta.fields": "false"}
    )
    config.require_readable()
    with pytest.raises(Unsupported, match=r"populate.meta.fields=false"):
        config.require_writable()


def test_custom_partition_fields_carry_their_types_from_version_8_on():
    custom = {
        **V9,
        "hoodie.table.keygenerator.type": "CUSTOM",
        "hoodie.table.partition.fields": "grp:SIMPLE,at:TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    }
    config = TableConfig.from_properties(custom)
    assert config.partitioning.path_of({"grp": "a", "at": 1_700_000_000_000}) == "a/2023/11"
    assert config.to_properties()["hoodie.table.partition.fields"] == "grp:SIMPLE,at:TIMESTAMP"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("hoodie.table.partition.fields", "at:WEEKLY", "partition type 'WEEKLY'"),
        ("hoodie.keygen.timebased.output.dateformat", "MMM yyyy", "letter 'MMM'"),
        ("hoodie.keygen.timebased.timezone", "Mars/Olympus", "Mars/Olympus"),
        ("hoodie.keygen.timebased.timestamp.type", "SUNDIAL", "SUNDIAL"),
        ("hoodie.keygen.timebased.timestamp.type", "", "does not say how"),
    ],
)
def test_partition_settings_that_are_not_understood_keep_nobody_from_reading(key, value, problem):
    settings = {
        **V9,
        "hoodie.table.keygenerator.type": "TIMESTAMP",
        "hoodie.table.partition.fields": "at",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    }
    config = TableConfig.from_properties({**settings, key: value})
    config.require_readable()
    assert config.partition_fields == ("at",)
    with pytest.raises(Unsupported, match=problem):
        config.require_writable()
    with pytest.raises(Unsupported, match=problem):
        config.partitioning.path_of({"at": 1})


def test_a_version_6_table_with_a_custom_key_generator_does_not_say_its_types():
    config = TableConfig.from_properties(
        {
            **V6,
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
            "hoodie.table.partition.fields": "grp,at",
        }
    )
    assert config.partitioning.fields[0].kind is None
    with pytest.raises(Unsupported, match="does not say of what type"):
        config.partitioning.path_of({"grp": "a", "at": 1})


def test_a_key_has_one_name_in_one_place():
    names = [name for key in HoodieKey for name in key.names]
    assert len(names) == len(set(names))


FIELDS = st.lists(st.sampled_from(["a", "b", "c.d"]), unique=True, max_size=3).map(tuple)


@st.composite
def configs(draw) -> TableConfig:
    generator = draw(
        st.sampled_from([KeyGenerator.SIMPLE, KeyGenerator.COMPLEX, KeyGenerator.CUSTOM])
    )
    version = draw(st.sampled_from(TableVersion))
    kind = PartitionType.SIMPLE
    if generator is KeyGenerator.CUSTOM and version is TableVersion.SIX:
        kind = None
    ordering = draw(FIELDS)
    kind_of_table = draw(st.sampled_from(TableType))
    says_mode = version is not TableVersion.SIX or kind_of_table is TableType.MERGE_ON_READ
    mode = draw(st.sampled_from([MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME]))
    if not says_mode:
        mode = MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME
    marked = version is TableVersion.NINE and draw(st.booleans())
    return TableConfig(
        name=draw(st.text("abc_é", min_size=1)),
        database=draw(st.text("abc")),
        table_type=kind_of_table,
        version=version,
        initial_version=None if version is TableVersion.SIX else int(version),
        record_key_fields=draw(FIELDS),
        partitioning=PartitionScheme(
            fields=tuple(PartitionField(name, kind) for name in draw(FIELDS)),
            hive_style=draw(st.booleans()),
            url_encode=draw(st.booleans()),
        ),
        key_generator=generator,
        merge_rule=MergeRule(
            mode,
            ordering,
            delete_field="op" if marked else None,
            delete_marker="D" if marked else None,
            dialect=Dialect.PAYLOADS if version is TableVersion.SIX else Dialect.MODES,
        ),
        timezone=draw(st.sampled_from(TimelineZone)),
        cdc_enabled=draw(st.booleans()),
        metadata_partitions=draw(st.sampled_from([(), ("files",), ("column_stats", "files")])),
        create_schema=draw(st.none() | st.just('{"type":"record"}')),
    )


@given(configs())
def test_a_config_survives_being_written_and_read(config):
    assert TableConfig.from_properties(config.to_properties()) == config


ANY_TEXT = st.text(max_size=12) | st.sampled_from(
    ["true", "6", "9", "2", "CUSTOM", "at:TIMESTAMP", "DATE_STRING", "yyyy'", "a/b", "[", "UTC"]
)


@given(
    st.sampled_from([V6, V9]),
    st.dictionaries(st.sampled_from([name for key in HoodieKey for name in key.names]), ANY_TEXT),
)
def test_any_settings_are_understood_or_refused_by_a_typed_error(properties, changes):
    try:
        config = TableConfig.from_properties({**properties, **changes})
        config.require_writable()
        config.to_properties()
    except (Corrupt, Invalid):
        return
    assert config.partitioning.refusal is None
