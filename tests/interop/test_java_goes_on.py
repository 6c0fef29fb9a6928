"""Java goes on where our formats left off: writes, services of its own, and the plans we left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import table_builder_services as services
import table_builder_timeline as timeline
from hudi_rs import read as hudi_rs_read
from java_interop import JavaWrites, read_all
from lakehand.core.instants import Action, State
from lakehand.formats import instant_names
from lakehand.formats.base_file import BaseFileOptions
from lakehand.formats.bloom import BloomBuilder, BloomKind, BloomSettings
from lakehand.formats.lsm_timeline import HistoryEntry
from lakehand.protocol import lsm_timeline as history
from lakehand.protocol.lsm_timeline import HistorySettings
from lakehand.table import Table
from table_builder_rows import Partitioning, Row, Shape, differences
from table_scenarios import start

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lakehand.core.instants import Instant
    from table_builder import TableBuilder

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

BLOOM_INDEX = {
    "hoodie.index.type": "BLOOM",
    "hoodie.bloom.index.use.metadata": "false",
    "hoodie.metadata.enable": "false",
}
Models = dict[str, dict[str, Row]]

_PARTITIONINGS = list(Partitioning)
KINDS = ("cow", "mor-avro", "mor-parquet")
SHAPES = [
    Shape(
        version=version,
        merge_on_read=kind != "cow",
        partitioning=_PARTITIONINGS[(row * 2 + column) % 6],
        blocks="parquet" if kind == "mor-parquet" else "avro",
        event_time=(row + column) % 3 != 2,
    )
    for row, version in enumerate((9, 8, 6))
    for column, kind in enumerate(KINDS)
]


def _name(shape: Shape) -> str:
    kind = f"mor-{shape.blocks}" if shape.merge_on_read else "cow"
    return f"v{shape.version}-{kind}-{shape.partitioning.value}"


def _begin(shapes: Iterable[Shape], where: Path) -> dict[str, TableBuilder]:
    tables = {}
    for shape in shapes:
        table = start(shape, where / _name(shape), log_only_groups=False)
        table.delete([2, 9, 10])
        tables[_name(shape)] = table
    return tables


def _models(tables: dict[str, TableBuilder]) -> Models:
    return {name: table.model for name, table in tables.items()}


def _judge(java: Any, tables: dict[str, TableBuilder], models: Models, scratch: Path) -> None:
    """Java, hudi-rs and we ourselves see what the models say; problems of all tables at once."""
    problems: list[str] = []
    answers = read_all(java, [table.folder for table in tables.values()], scratch)
    for (name, table), answer in zip(tables.items(), answers, strict=True):
        if isinstance(answer, str):
            problems.append(f"{name}: Java: {answer}")
        else:
            found = {
                "Java": answer,
                "hudi-rs": hudi_rs_read(table.folder),
                "Lakehand": Table.open(str(table.folder)).to_arrow(),
            }
            for reader, rows in found.items():
                wrong = differences(table.shape, models[name], rows)
                problems.extend(f"{name}: {reader}: {problem}" for problem in wrong)
    assert not problems, "\n".join(problems)


def _completed(table: TableBuilder, action: Action) -> set[str]:
    return {
        instant.time
        for instant in timeline.instants(table)
        if instant.is_completed and instant.action is action
    }


def _call(java: Any, procedure: str, calls: list[tuple[TableBuilder, dict[str, Any]]]) -> None:
    """Call a procedure of Hudi's on several tables, each with its arguments."""
    statements = []
    for table, arguments in calls:
        options = {
            "hoodie.write.table.version": str(table.shape.version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.compact.inline.max.delta.commits": "1",
        }
        if table.shape.event_time:
            # 1.0.2's procedure does not take it from the table, and then lets late rows win.
            options["hoodie.datasource.write.precombine.field"] = "ts"
        named = arguments | {
            "path": str(table.folder),
            "options": ",".join(f"{key}={value}" for key, value in options.items()),
        }
        text = ", ".join(
            f"{name} => {value if isinstance(value, int) else repr(value)}"
            for name, value in named.items()
        )
        statements.append(f"call {procedure}({text})")
    answers = java.run("jvm_interop:call_many", statements=statements)
    problems = [
        f"{statement}: {answer}"
        for statement, answer in zip(statements, answers, strict=True)
        if answer
    ]
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="module")
def java(javas):
    return javas["1.2.0"]


def test_java_upserts_and_deletes_and_compacts_on_our_tables(java, tmp_path):
    """Once with the metadata table off and then, as is Java's default, on."""
    tables = _begin(SHAPES, tmp_path)
    models = _models(tables)
    writes = JavaWrites(java, tmp_path, {"hoodie.metadata.enable": "false"})
    for name, table in tables.items():
        writes.upsert(table, models[name], [0, 3, 6, 9, 60, 61, 62])
    writes.run()
    _judge(java, tables, models, tmp_path)
    writes = JavaWrites(java, tmp_path)
    for name, table in tables.items():
        writes.upsert(table, models[name], [1, 4, 7, 63])
        writes.delete(table, models[name], [0, 8, 61])
    writes.run()
    _judge(java, tables, models, tmp_path)
    merging = {name: table for name, table in tables.items() if table.shape.merge_on_read}
    before = {name: _completed(table, Action.COMMIT) for name, table in merging.items()}
    _call(java, "run_compaction", [(t, {"op": "scheduleandexecute"}) for t in merging.values()])
    for name, table in merging.items():
        assert _completed(table, Action.COMMIT) > before[name]
    _judge(java, merging, models, tmp_path)


@pytest.mark.parametrize(("bundle", "version"), [("1.0.2", 8), ("0.15.0", 6)])
def test_the_java_of_that_time_goes_on_too(bundle, version, javas, tmp_path):
    """It executes our plans, and writes.

    0.15.0 cannot upsert onto what its own clustering made of a small decimal: so that comes last.
    """
    java = javas[bundle]
    shapes = [shape for shape in SHAPES if shape.version == version]
    tables = _begin(shapes, tmp_path / "written")
    _execute_compaction_plans(java, tables)
    models = _models(tables)
    writes = JavaWrites(java, tmp_path, {"hoodie.metadata.enable": "false"})
    for name, table in tables.items():
        writes.upsert(table, models[name], [0, 3, 6, 60, 61, 62])
        writes.delete(table, models[name], [0, 8, 61])
    writes.run()
    _judge(java, tables, models, tmp_path)
    clustered = _begin(shapes, tmp_path / "clustered")
    _execute_clustering_plans(java, clustered)
    _judge(java, clustered, _models(clustered), tmp_path)


def _execute_compaction_plans(java: Any, tables: dict[str, TableBuilder]) -> None:
    """With delta commits of ours after the plan, which must outlive it."""
    merging = {name: table for name, table in tables.items() if table.shape.merge_on_read}
    plans = {name: services.schedule_compaction(table) for name, table in merging.items()}
    for table in merging.values():
        table.upsert([1, 3, 5])
        table.delete([4])
    calls = [
        (table, {"op": "run", "timestamp": int(plans[name].instant)})
        for name, table in merging.items()
    ]
    _call(java, "run_compaction", calls)
    for name, table in merging.items():
        assert plans[name].instant in _completed(table, Action.COMMIT)


def _execute_clustering_plans(java: Any, tables: dict[str, TableBuilder]) -> None:
    plans = {
        name: services.schedule_clustering(table, {group.partition for group in table.live})
        for name, table in tables.items()
    }
    calls = [
        (table, {"op": "execute", "instants": plans[name].instant})
        for name, table in tables.items()
    ]
    _call(java, "run_clustering", calls)
    for name, table in tables.items():
        assert plans[name].instant in _completed(table, Action.REPLACE_COMMIT)


def test_java_executes_our_compaction_plan(java, tmp_path):
    tables = _begin([shape for shape in SHAPES if shape.merge_on_read], tmp_path)
    _execute_compaction_plans(java, tables)
    _judge(java, tables, _models(tables), tmp_path)


def test_java_executes_our_clustering_plan(java, tmp_path):
    tables = _begin([shape for shape in SHAPES if shape.blocks == "avro"], tmp_path)
    _execute_clustering_plans(java, tables)
    _judge(java, tables, _models(tables), tmp_path)


def test_java_rolls_back_our_pending_write(java, tmp_path):
    tables = _begin(SHAPES, tmp_path)
    models = _models(tables)
    writes = JavaWrites(java, tmp_path, {"hoodie.metadata.enable": "false"})
    pending = {}
    for name, table in tables.items():
        pending[name] = table.begin_upsert(table.make_rows([*range(6), 70, 71]))
        writes.upsert(table, models[name], [5, 72])
    writes.run()
    for name, table in tables.items():
        assert pending[name].instant not in {instant.time for instant in timeline.instants(table)}
        assert _completed(table, Action.ROLLBACK)
        left = [
            change.file
            for change in pending[name].changes
            if table.store.head(change.group.path(change.file)) is not None
            and (table.shape.version != 6 or change.log is None)
        ]
        assert left == [], name
    _judge(java, tables, models, tmp_path)


def test_java_cleans_and_archives_what_we_wrote(java, tmp_path):
    shapes = [Shape(version, merge_on_read=False) for version in (9, 8, 6)]
    tables = {_name(shape): start(shape, tmp_path / _name(shape)) for shape in shapes}
    for table in tables.values():
        for turn in range(31):
            table.upsert([turn % 24])
    models = _models(tables)
    options = {
        # With a metadata table, archival waits for that table's first compaction.
        "hoodie.metadata.enable": "false",
        "hoodie.clean.commits.retained": "2",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
    }
    oldest = {
        name: min(instant.time for instant in timeline.instants(t)) for name, t in tables.items()
    }
    writes = JavaWrites(java, tmp_path, options)
    for name, table in tables.items():
        writes.upsert(table, models[name], [0, 64])
        writes.upsert(table, models[name], [1, 65])
    writes.run()
    for name, table in tables.items():
        left = timeline.instants(table)
        assert _completed(table, Action.CLEAN)
        assert oldest[name] not in {instant.time for instant in left}
        assert len({instant.time for instant in left if instant.state is State.COMPLETED}) < 15
    _judge(java, tables, models, tmp_path)


def test_java_goes_on_with_the_history_that_we_began(java, tmp_path):
    """Our archive in several files, two of them merged; Java archives on top of it."""
    shape = Shape(9, merge_on_read=False)
    table = start(shape, tmp_path / "table")
    for turn in range(20):
        table.upsert([turn])
    area = ".hoodie/.temp/archive/.staging/1"
    history_folder = table.config.history_path
    done = [instant for instant in timeline.instants(table) if instant.is_completed]
    ours = done[:16]
    for first in range(0, len(ours), 4):
        entries = [_history_entry(table, instant) for instant in ours[first : first + 4]]
        history.append(table.store, history_folder, entries, area=area)
    history.compact(table.store, history_folder, area=area, settings=HistorySettings(batch_size=2))
    timeline.forget(table, {instant.time for instant in ours})
    models = {"table": table.model}
    _judge(java, {"table": table}, models, tmp_path)

    options = {
        "hoodie.metadata.enable": "false",
        "hoodie.clean.commits.retained": "2",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
    }
    writes = JavaWrites(java, tmp_path, options)
    writes.upsert(table, models["table"], [0, 64])
    writes.run()
    _judge(java, {"table": table}, models, tmp_path)
    snapshot = history.load(table.store, history_folder)
    archived = [entry.time for entry in history.read(table.store, snapshot)]
    assert archived == sorted(archived)
    assert set(archived) > {instant.time for instant in ours}
    shown = java.sql(
        f"call show_timeline(path => '{table.folder}', showArchived => true, limit => 100)"
    )
    assert {instant.time for instant in ours} < {str(row["instant_time"]) for row in shown}


def _history_entry(table: TableBuilder, instant: Instant) -> HistoryEntry:
    path = f"{timeline.folder(table)}/{instant_names.file_name(instant, timeline.layout(table))}"
    return HistoryEntry(
        time=instant.time,
        completion_time=instant.completion_time,
        action=instant.action,
        metadata=table.store.get(path).content,
        plan=None,
    )


BLOOM_OPTIONS = {
    "default": BaseFileOptions(),
    "simple": BaseFileOptions(bloom=BloomSettings(kind=BloomKind.SIMPLE)),
    "growing": BaseFileOptions(bloom=BloomSettings(entries=3, max_entries=100)),
}


@pytest.mark.parametrize("version", [9, 6])
def test_javas_bloom_index_finds_every_key_in_our_footers(version, java, tmp_path):
    """A key that the filter or the key range hides would come back as a second row."""
    shape = Shape(version, merge_on_read=version == 6, partitioning=Partitioning.HIVE)
    tables = {
        kind: start(shape, tmp_path / kind, log_only_groups=False, base_file_options=options)
        for kind, options in BLOOM_OPTIONS.items()
    }
    models = _models(tables)
    writes = JavaWrites(java, tmp_path, BLOOM_INDEX)
    for kind, table in tables.items():
        writes.upsert(table, models[kind], [*range(24), 66])
    writes.run()
    _judge(java, tables, models, tmp_path)


def test_javas_bloom_index_believes_our_footers(java, tmp_path, monkeypatch):
    """The proof's other half: with filters that hold no key, Java takes all keys for new ones."""
    shape = Shape(9, merge_on_read=False)
    with monkeypatch.context() as broken:
        broken.setattr(BloomBuilder, "add", lambda builder, _keys: builder)
        table = start(shape, tmp_path / "table")
    writes = JavaWrites(java, tmp_path, BLOOM_INDEX)
    models = {"table": table.model}
    writes.upsert(table, models["table"], [0, 1, 2])
    writes.run()
    (found,) = read_all(java, [table.folder], tmp_path)
    assert "twice ['k0000', 'k0001', 'k0002']" in differences(shape, models["table"], found)[0]
