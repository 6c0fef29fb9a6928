"""`Table.workbench`: the front door to the protocol."""

from __future__ import annotations

import os
import re
import socket
from datetime import UTC

import pytest

import kernel_tables
from kernel_tables import compaction_request, execute, ingest
from lakehand.core.conflict_tables import Strategy
from lakehand.core.new_table_properties import render
from lakehand.core.table_config import TableConfig, TimelineZone
from lakehand.core.table_kinds import TableType, TableVersion
from lakehand.errors import Invalid, WrongLockProvider
from lakehand.local_zone import LocalZone
from lakehand.locks.in_process import InProcessLock
from lakehand.protocol import planning, table_properties
from lakehand.protocol.workbench import ProtocolSettings
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore
from lakehand.table import Table

ALONE = ProtocolSettings(foreign_writers=False)


@pytest.fixture(params=["memory", "local"])
def table(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else LocalStore(tmp_path)
    kernel_tables.create(store)
    return Table.over(store)


def test_a_plan_is_made_and_executed_through_the_front_door(table):
    planner, executor = table.workbench(settings=ALONE), table.workbench(settings=ALONE)
    ingest(planner, "f1")
    time = planning.schedule(planner, compaction_request("f1"))
    done = execute(executor, time, ("f1",))
    assert table.timeline().find(time) == done


def test_workers_have_names_of_their_own(table):
    names = {table.workbench(settings=ALONE).worker for _ in range(20)}
    assert len(names) == 20
    pattern = rf"{re.escape(socket.gethostname())}-{os.getpid()}-[0-9a-f]{{6}}"
    assert all(re.fullmatch(pattern, name) for name in names)
    assert table.workbench("compactor-1", settings=ALONE).worker == "compactor-1"


def test_ids_never_repeat(table):
    one, other = table.workbench(settings=ALONE), table.workbench(settings=ALONE)
    assert len({bench.new_id() for bench in (one, other) for _ in range(100)}) == 200


def test_the_lock_is_a_kind_with_options_or_a_provider(table):
    bench = table.workbench(lock_options={"lease_s": "9"}, settings=ALONE)
    held = bench.locks.acquire("me", timeout_s=1)
    assert 8 < held.left_s() <= 9
    held.release()
    provider = InProcessLock("mine")
    assert table.workbench(lock=provider, settings=ALONE).locks is provider
    with pytest.raises(Invalid, match="unknown lock"):
        table.workbench(lock="none", settings=ALONE)


def test_workers_exclude_each_other_by_the_default_lock(table):
    held = table.workbench(settings=ALONE).locks.acquire("first", timeout_s=1)
    holder = table.lock().holder()
    held.release()
    assert holder is not None and holder.owner == "first"


def test_another_lock_than_the_journal_knows_is_refused(table):
    planning.schedule(table.workbench(settings=ALONE), compaction_request("f1"))
    other = table.workbench(lock="in-process", settings=ALONE)
    with pytest.raises(WrongLockProvider):
        planning.schedule(other, compaction_request("f2"))


def test_a_lock_that_does_not_keep_foreign_writers_out_is_refused(table):
    with pytest.raises(Invalid, match="foreign writers"):
        table.workbench(lock="in-process")


def test_settings_and_strategy_are_passed_on(table):
    settings = ProtocolSettings(foreign_writers=False, checkpoint_every=5)
    bench = table.workbench(settings=settings, strategy=Strategy.SIMPLE)
    assert (bench.settings, bench.strategy) == (settings, Strategy.SIMPLE)


@pytest.mark.parametrize(
    ("zone", "expected"), [(TimelineZone.UTC, UTC), (TimelineZone.LOCAL, None)]
)
def test_times_are_written_in_the_tables_zone(zone, expected):
    store = MemoryStore()
    config = TableConfig(
        name="trips", table_type=TableType.MERGE_ON_READ, version=TableVersion.NINE, timezone=zone
    )
    table_properties.create(store, render(config))
    bench = Table.over(store).workbench(settings=ALONE)
    assert bench.zone is expected or (expected is None and isinstance(bench.zone, LocalZone))
