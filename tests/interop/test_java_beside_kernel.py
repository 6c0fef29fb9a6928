"""Apache Hudi beside the kernel: it reads what the recipes left, writes, and cleans up after us.

Every table carries what the kernel adds to one: a journal with checkpoints, an aborted instant, a
cancelled one with its ``.cancel`` file, a rollback, dead attempts with promoted files.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from java_hudi import JavaHudi
from java_interop import JavaWrites, read_all, write_options
from kernel_rows import (
    age_heartbeats,
    begin_compaction,
    begin_upsert,
    schedule_compaction,
    worker,
)
from lakehand.core.instants import Action, State
from lakehand.errors import PlanCancelled
from lakehand.protocol import cancelling, failed_writes, publishing
from lakehand.protocol.transaction import load_view
from lakehand.table import Table
from table_builder_rows import Shape, differences, key_of, to_table
from table_scenarios import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakehand.core.timeline import Timeline
    from table_builder import Group, TableBuilder
    from table_builder_rows import Row

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

LAZY = {
    "hoodie.metadata.enable": "false",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.wait_time_ms": "600000",
    "hoodie.write.lock.num_retries": "1000",
    # The data source compacts inline by default, and would execute our plans (protocol, section 6).
    "hoodie.compact.inline": "false",
    "hoodie.datasource.compaction.async.enable": "true",
}


def make(folder: Path, shape: Shape) -> TableBuilder:
    """A table of the builder's, gone on with by the kernel."""
    table = start(shape, folder, log_only_groups=False)
    begin_upsert(worker(folder), table, range(12)).commit()
    begin_upsert(worker(folder), table, range(5, 20)).commit()
    begin_upsert(worker(folder), table, range(3, 9))  # dies before its commit
    age_heartbeats(folder)
    done = failed_writes.clean_up(worker(folder))
    assert [end.value for end in done.rolled_back.values()] == ["removed"]
    for group in table.live:  # version 6 counted the dead write's logs when they were made
        group.latest.logs = [one for one in group.latest.logs if _is_there(table, group, one)]
    if shape.merge_on_read:
        _abort_one_and_cancel_one(folder, table)
    begin_upsert(worker(folder), table, range(1, 4)).commit()
    view = load_view(worker(folder))
    assert view.timeline.of_action(Action.ROLLBACK)
    assert view.fold.checkpoint > 0
    return table


def _is_there(table: TableBuilder, group: Group, log: str) -> bool:
    return table.store.head(group.path(log)) is not None


def _abort_one_and_cancel_one(folder: Path, table: TableBuilder) -> None:
    for aborts in (True, False):
        plan = schedule_compaction(worker(folder), table)
        begin_compaction(worker(folder), table, plan)
        cancelling.request_cancel(worker(folder), plan.instant, reason="to be seen by Java")
        if aborts:
            age_heartbeats(folder)
            cancelling.execute_cancel(worker(folder), plan.instant)
        assert (folder / publishing.cancel_path(plan.instant)).exists() is not aborts
    assert len(timeline_of(folder).aborted) == 1


def timeline_of(folder: Path) -> Timeline:
    return load_view(worker(folder)).timeline


def judge(java: JavaHudi, table: TableBuilder, model: dict[str, Row], scratch: Path) -> None:
    """Java and we both read the model."""
    (theirs,) = read_all(java, [table.folder], scratch)
    assert not isinstance(theirs, str), theirs
    ours = Table.open(str(table.folder)).to_arrow()
    for reader, rows in (("Java", theirs), ("Lakehand", ours)):
        assert differences(table.shape, model, rows) == [], reader


@pytest.mark.parametrize(
    ("bundle", "version", "kind"),
    [
        ("1.2.0", 9, "cow"),
        ("1.2.0", 9, "mor"),
        ("1.2.0", 6, "mor"),
        ("1.0.2", 8, "mor"),
        ("0.15.0", 6, "cow"),
        ("0.15.0", 6, "mor"),
    ],
)
def test_java_reads_and_goes_on_with_a_table_of_the_kernel(bundle, version, kind, javas, tmp_path):
    """Its lazy clean rolls back our dead write, which our next transaction records."""
    shape = Shape(version, merge_on_read=kind == "mor")
    folder = tmp_path / "table"
    table = make(folder, shape)
    model = dict(table.model)
    dead = begin_upsert(worker(folder), table, [0, 1, 2]).attempt
    age_heartbeats(folder)
    cancelled = {one.name for one in (folder / publishing.CANCEL_FOLDER).glob("2*")}
    assert len(cancelled) == (1 if kind == "mor" else 0)
    judge(javas[bundle], table, model, tmp_path)
    writes = JavaWrites(javas[bundle], tmp_path, LAZY)
    writes.upsert(table, model, [0, 4, 60])
    writes.run()
    judge(javas[bundle], table, model, tmp_path)
    assert all((folder / publishing.cancel_path(time)).exists() for time in cancelled)
    assert timeline_of(folder).find(dead.time) is None, "Java left our dead write"
    failed_writes.clean_up(worker(folder))
    assert dead.time not in {one.time for one in load_view(worker(folder)).fold.open}
    left = [file.name for file in folder.rglob("*") if dead.time in file.name]
    assert not [name for name in left if name.endswith(".parquet")]
    judge(javas[bundle], table, model, tmp_path)
    view = load_view(worker(folder))
    assert view.timeline.pending == ()
    assert cancelled <= {one.time for one in view.timeline.aborted}


def test_an_upsert_of_java_beside_our_pending_plan_goes_first(javas, tmp_path):
    """It completes; our plan, at work meanwhile, cancels itself and leaves no file."""
    folder = tmp_path / "table"
    table = start(Shape(9, merge_on_read=True), folder, log_only_groups=False)
    begin_upsert(worker(folder), table, range(12)).commit()
    model = dict(table.model)
    plan = schedule_compaction(worker(folder), table)
    work = begin_compaction(worker(folder), table, plan)
    writes = JavaWrites(javas["1.2.0"], tmp_path, LAZY)
    writes.upsert(table, model, [0, 4, 11])
    writes.run()
    with pytest.raises(PlanCancelled, match="ingestion goes first"):
        work.commit()
    judge(javas["1.2.0"], table, model, tmp_path)
    cancelling.execute_cancel(work.bench, plan.instant, own=work.attempt.heartbeat)
    found = timeline_of(folder).find(plan.instant)
    assert found is not None
    assert found.state is State.ABORTED
    assert not [one for one in folder.rglob("*.parquet") if plan.instant in one.name]
    judge(javas["1.2.0"], table, model, tmp_path)
    writes.upsert(table, model, [1, 4, 61])
    writes.run()
    judge(javas["1.2.0"], table, model, tmp_path)


def test_javas_inline_compaction_leaves_our_live_attempt_alone(javas, tmp_path):
    """Hudi 1.2.0 looks at the heartbeat of a plan before it executes it: ours counts there too."""
    folder = tmp_path / "table"
    table = start(Shape(9, merge_on_read=True), folder, log_only_groups=False)
    begin_upsert(worker(folder), table, range(12)).commit()
    model = dict(table.model)
    plan = schedule_compaction(worker(folder), table)
    work = begin_compaction(worker(folder), table, plan)
    inline = {"hoodie.compact.inline": "true", "hoodie.datasource.compaction.async.enable": "false"}
    writes = JavaWrites(javas["1.2.0"], tmp_path, LAZY | inline)
    writes.upsert(table, model, [0, 4, 11])
    with pytest.raises(AssertionError, match="due to heartbeat by concurrent writer"):
        writes.run()
    found = timeline_of(folder).find(plan.instant)
    assert found is not None
    assert found.state is State.INFLIGHT
    with pytest.raises(PlanCancelled):
        work.commit()
    cancelling.execute_cancel(work.bench, plan.instant, own=work.attempt.heartbeat)
    judge(javas["1.2.0"], table, model, tmp_path)


def test_java_reads_a_compaction_that_the_kernel_committed(javas, tmp_path):
    folder = tmp_path / "table"
    table = start(Shape(9, merge_on_read=True), folder, log_only_groups=False)
    begin_upsert(worker(folder), table, range(12)).commit()
    plan = schedule_compaction(worker(folder), table)
    begin_compaction(worker(folder), table, plan).commit()
    found = timeline_of(folder).find(plan.instant)
    assert found is not None
    assert (found.action, found.state) == (Action.COMMIT, State.COMPLETED)
    model = dict(table.model)
    judge(javas["1.2.0"], table, model, tmp_path)
    writes = JavaWrites(javas["1.2.0"], tmp_path, LAZY)
    writes.upsert(table, model, [0, 4, 60])
    writes.run()
    judge(javas["1.2.0"], table, model, tmp_path)


# -- a writer of Java's that is killed ------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 6])
def test_our_clean_rolls_back_what_a_killed_writer_of_java_left(version, javas, tmp_path):
    """``kill -9`` while it waits for the table lock with its data written; Java reads after us."""
    shape = Shape(version, merge_on_read=True)
    folder = tmp_path / "table"
    table = make(folder, shape)
    model = dict(table.model)
    before = {one.time for one in timeline_of(folder).instants}
    _kill_writer(folder, shape, table, tmp_path)
    (victim,) = {one.time for one in timeline_of(folder).instants} - before
    assert failed_writes.clean_up(worker(folder)).rolled_back == {}  # its heartbeat is fresh
    age_heartbeats(folder)
    done = failed_writes.clean_up(worker(folder))
    assert [end.value for end in done.rolled_back.values()] == ["removed"]
    assert timeline_of(folder).find(victim) is None
    left = [one for one in folder.rglob("*") if victim in one.name and ".hoodie" not in one.parts]
    assert left == []
    judge(javas["1.2.0"], table, model, tmp_path)
    writes = JavaWrites(javas["1.2.0"], tmp_path, LAZY)
    writes.upsert(table, model, [0, 4, 60])
    writes.run()
    judge(javas["1.2.0"], table, model, tmp_path)


def _kill_writer(folder: Path, shape: Shape, table: TableBuilder, scratch: Path) -> None:
    """A child of its own, so that the others' JVM lives on."""
    rows = table.make_rows(range(18))
    source = scratch / "never.parquet"
    pq.write_table(to_table(shape, rows), source)
    assert key_of(shape, rows[0])
    known = {one.time for one in timeline_of(folder).instants}

    def new() -> set[str]:
        found = timeline_of(folder).pending
        return {one.time for one in found if one.state is State.INFLIGHT} - known

    def written() -> bool:
        """The markers are there, and every file that one names."""
        folders = [folder / ".hoodie" / ".temp" / time for time in new()]
        named = [
            str(one.relative_to(at)).partition(".marker.")[0]
            for at in folders
            for one in at.rglob("*.marker.*")
            if one.suffix != ".crc"
        ]
        return bool(named) and all((folder / one).is_file() for one in named)

    victim = JavaHudi("1.2.0")
    victim.start()
    try:
        victim.send(
            "write",
            path=str(folder),
            rows_parquet=str(source),
            options=write_options(shape) | LAZY | {"hoodie.write.markers.type": "DIRECT"},
            operation="upsert",
            mode="append",
        )
        _wait(lambda: bool(new()), "an inflight file")
        _wait(lambda: _take(folder / ".hoodie" / "lock"), "the lock")
        _wait(written, "its data files")
    finally:
        victim.kill()
    (folder / ".hoodie" / "lock").unlink()


def _take(lock: Path) -> bool:
    """Whoever makes the lock file holds the lock: Java waits from here on."""
    try:
        lock.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _wait(done: Callable[[], bool], what: str) -> None:
    """Another process is waited for: there is nothing to synchronise on but its files."""
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, f"no sign of {what}"
        time.sleep(0.02)
