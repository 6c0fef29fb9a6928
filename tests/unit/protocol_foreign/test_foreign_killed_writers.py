"""Writes of Apache Hudi that died: our clean honours their heartbeats, and rolls them back.

The golden tables hold what killed and failed writers of each version left, in Java's own bytes:
inflight files, marker lists of the timeline server, logs, base files. What a reader sees is
compared with what Java itself read.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from golden import GoldenTable, unpack
from kernel_tables import NoBackground
from lakehand.core.instants import Action, Instant, State
from lakehand.core.table_config import TableConfig
from lakehand.formats.plans import rollback
from lakehand.locks.in_process import InProcessLock
from lakehand.process import SystemClock
from lakehand.protocol import failed_writes, rolling_back, table_properties
from lakehand.protocol.failed_writes import FailedWritesPolicy
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import load_view
from lakehand.protocol.workbench import ProtocolSettings, Workbench
from lakehand.store.local import LocalStore
from lakehand.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehand.protocol.transaction import View

KILLED = ["v6_cow_killed", "v6_mor_killed", "v8_cow_killed", "v8_mor_killed", "v9_cow_killed"]
KILLED += ["v9_mor_killed"]
FAILED = ["v6_cow_failed_left", "v6_mor_failed_left", "v8_mor_failed_left", "v9_mor_failed_left"]
ALL = pytest.mark.parametrize("name", [*KILLED, *FAILED])


def worker(table: GoldenTable, name: str = "w", **settings: object) -> Workbench:
    """A worker at a table of Java's, whose times may lie ahead of this machine's clock."""
    store = LocalStore(str(table.path))
    ids = itertools.count()
    given = {"foreign_writers": False, "max_clock_skew_s": 1e12, "lock_timeout_s": 0.0}
    return Workbench(
        store=store,
        locks=InProcessLock(str(table.path)),
        clock=SystemClock(),
        background=NoBackground(),
        new_id=lambda: f"{name}-{next(ids)}",
        worker=name,
        config=TableConfig.from_properties(table_properties.load(store)),
        settings=ProtocolSettings(**{**given, **settings}),
    )


def failed_instant(bench: Workbench) -> Instant:
    (found,) = load_view(bench).timeline.pending
    return found


def heartbeat(table: GoldenTable, instant: Instant) -> os.PathLike[str]:
    return table.path / ".hoodie" / ".heartbeat" / instant.time


def beat(table: GoldenTable, instant: Instant, *, ago_s: float) -> None:
    """Java's heartbeat: an empty file."""
    file = table.path / ".hoodie" / ".heartbeat" / instant.time
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")
    then = file.stat().st_mtime - ago_s
    os.utime(file, (then, then))


def marked_files(table: GoldenTable, instant: Instant) -> dict[str, str]:
    """What Java's marker lists name, and with which kind of write."""
    folder = table.path / ".hoodie" / ".temp" / instant.time
    lines = itertools.chain.from_iterable(
        file.read_text().splitlines() for file in sorted(folder.glob("MARKERS[0-9]*"))
    )
    pairs = [line.rpartition(".marker.") for line in lines]
    return {path: kind for path, _, kind in pairs}


def assert_reads_as_java_did(table: GoldenTable) -> None:
    expected = next(read.expected for read in table.reads if read.as_of is None and not read.fault)
    found = Table.open(str(table.path)).to_arrow()
    key = "_hoodie_record_key"
    columns = [name for name in expected.column_names if not name.startswith("_hoodie")]

    def rows(read: pa.Table) -> list[object]:
        chosen = read.select([key, *columns]).to_pylist()
        return sorted(map(repr, chosen))

    assert rows(found) == rows(expected)


@ALL
def test_a_dead_write_of_java_is_rolled_back_and_readers_see_no_difference(name, tmp_path):
    table = unpack(name, tmp_path)
    bench = worker(table)
    target = failed_instant(bench)
    beat(table, target, ago_s=1000)
    named = marked_files(table, target)
    assert named
    before = {path: (table.path / path).read_bytes() for path in named if _is(table, path)}
    done = failed_writes.clean_up(bench)
    assert [end.value for end in done.rolled_back.values()] == ["removed"]
    view = load_view(worker(table, "eye"))
    assert view.timeline.find(target.time) is None
    assert view.timeline.pending == ()
    _assert_undone(table, named, before)
    assert not (table.path / ".hoodie" / ".temp" / target.time).exists() or not list(
        (table.path / ".hoodie" / ".temp" / target.time).rglob("MARKERS*")
    )
    assert not (table.path / ".hoodie" / ".heartbeat" / target.time).exists()
    _assert_recorded(table, view, target, next(iter(done.rolled_back)))
    assert_reads_as_java_did(table)
    assert failed_writes.clean_up(worker(table, "again")).rolled_back == {}


def _is(table: GoldenTable, path: str) -> bool:
    return (table.path / path).is_file()


def _assert_undone(table: GoldenTable, named: dict[str, str], before: dict[str, bytes]) -> None:
    """Files are deleted; a log that others share (version 6) stays, and a command block follows."""
    shared = table.name.startswith("v6") and "mor" in table.name
    for path, kind in named.items():
        if shared and kind == "APPEND":
            folder, _, log = path.rpartition("/")
            slice_of = log.partition(".log.")[0]
            assert _is(table, path) == (path in before)
            newest = max(
                (table.path / folder).glob(f"{slice_of}.log.*"),
                key=lambda file: int(file.name.partition(".log.")[2].partition("_")[0]),
            )
            assert newest.name > log
            assert "-1500000001-" in newest.name
        else:
            assert not _is(table, path), path


def _assert_recorded(table: GoldenTable, view: View, target: Instant, time: str) -> None:
    found = view.timeline.find(time, Action.ROLLBACK)
    assert found is not None
    assert found.state is State.COMPLETED
    content = (table.path / instant_path(view.config, found)).read_bytes()
    metadata = rollback.decode_metadata(content, where=time)
    assert metadata.commits_rollback == (target.time,)


@ALL
def test_a_live_write_of_java_is_left_alone(name, tmp_path):
    """Also under its lock; and what it staged is not swept away."""
    table = unpack(name, tmp_path)
    bench = worker(table)
    target = failed_instant(bench)
    beat(table, target, ago_s=60)
    before = sorted(str(file) for file in table.path.rglob("*") if ".lakehand" not in str(file))
    done = failed_writes.clean_up(bench)
    assert (done.rolled_back, done.aborted) == ({}, ())
    after = sorted(str(file) for file in table.path.rglob("*") if ".lakehand" not in str(file))
    assert after == before
    beat(table, target, ago_s=121)
    assert len(failed_writes.clean_up(worker(table, "later")).rolled_back) == 1


def test_the_policies_of_hudi_decide_which_pending_writes_have_failed(tmp_path):
    table = unpack("v9_mor_killed", tmp_path)
    target = failed_instant(worker(table))
    beat(table, target, ago_s=0)
    for policy in (FailedWritesPolicy.NEVER, FailedWritesPolicy.LAZY):
        assert failed_writes.clean_up(worker(table), policy=policy).rolled_back == {}
    beat(table, target, ago_s=1000)
    never = failed_writes.clean_up(worker(table), policy=FailedWritesPolicy.NEVER)
    assert never.rolled_back == {}
    beat(table, target, ago_s=0)
    eager = failed_writes.clean_up(worker(table), policy=FailedWritesPolicy.EAGER)
    assert [end.value for end in eager.rolled_back.values()] == ["removed"]
    assert_reads_as_java_did(table)


@pytest.mark.parametrize("name", ["v6_mor_killed", "v8_mor_killed", "v9_cow_killed"])
@pytest.mark.parametrize("begun", [False, True], ids=["requested", "inflight"])
def test_a_pending_rollback_of_java_is_taken_to_its_end_and_none_is_added(name, begun, tmp_path):
    """Planned, perhaps begun, by a writer that died; the plan's own instant completes."""
    table = unpack(name, tmp_path)
    bench = worker(table)
    target = failed_instant(bench)
    time = str(int(target.time) + 1)
    requests = tuple(
        rollback.RollbackRequest(
            partition_path=path.rpartition("/")[0],
            latest_base_instant=target.time,
            files_to_be_deleted=(f"file:{table.path}/{path}",),
            log_blocks_to_be_deleted={},
        )
        for path, kind in marked_files(table, target).items()
        if kind != "APPEND"
    )
    plan = rollback.RollbackPlan(
        instant_to_rollback=rollback.InstantInfo(
            commit_time=target.time, action=target.action.value
        ),
        rollback_requests=requests,
    )
    config = bench.config
    requested = instant_path(config, Instant(time, Action.ROLLBACK, State.REQUESTED))
    bench.store.put_new(requested, rollback.encode_plan(plan))
    if begun:
        inflight = instant_path(config, Instant(time, Action.ROLLBACK, State.INFLIGHT))
        bench.store.put_new(inflight, b"")
    beat(table, target, ago_s=1000)
    assert rolling_back.schedule_rollback(worker(table, "other"), target.time) == time
    done = failed_writes.clean_up(bench)
    assert {key: end.value for key, end in done.rolled_back.items()} == {time: "removed"}
    view = load_view(worker(table, "eye"))
    rollbacks = view.timeline.of_action(Action.ROLLBACK)
    mine = [one for one in rollbacks if one.time >= time]
    assert [(one.time, one.state) for one in mine] == [(time, State.COMPLETED)]
    assert view.timeline.find(target.time) is None
    assert_reads_as_java_did(table)


@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_clustering_pending",
        "v6_mor_clustering_pending",
        "v8_mor_clustering_pending",
        "v9_mor_clustering_pending",
        "v6_mor_compaction_pending",
        "v9_mor_compaction_pending",
    ],
)
def test_a_pending_plan_of_java_is_left_to_its_next_attempt(name, tmp_path):
    """Whatever its layout calls it; and what readers see of the table stays what it was."""
    table = unpack(name, tmp_path)
    before = load_view(worker(table)).timeline.pending
    assert before != ()
    for policy in FailedWritesPolicy:
        assert failed_writes.clean_up(worker(table), policy=policy).rolled_back == {}
    assert load_view(worker(table)).timeline.pending == before
    assert_reads_as_java_did(table)
