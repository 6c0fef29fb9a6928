"""`lakehand cancel`: decided at once, carried out unless somebody is at work."""

from __future__ import annotations

import json

import pytest

from cli_runs import run, tree
from kernel_tables import execute, ingest
from lakehand.core.journal_moves import Standing
from lakehand.errors import PlanAborted, PlanCancelled
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.protocol import claiming

DAY = LeaseTerms(lease_s=86400.0, renew_every_s=3600.0)


def _cancel(table, time, *options):
    return run("cancel", table.uri, time, "--no-foreign-writers", "-o", "json", *options)


def _standing(table, time):
    return table.worker("looker").journal.refresh().standing(time)


def _names(table):
    return {path.name for path in (table.folder / ".hoodie/timeline").iterdir() if path.is_file()}


def test_a_plan_that_nobody_executes_is_aborted_at_once(disk_table):
    time = disk_table.plan()
    ran = _cancel(disk_table, time, "--reason", "too large", "--worker", "ops")
    assert ran.code == 0
    assert (ran.record["outcome"], ran.record["at_work"]) == ("aborted", None)
    assert ran.said == [{"note": f"{time} is cancelled: it will never commit"}]
    assert _names(disk_table) == {f"{time}.compaction.aborted"}
    said = json.loads(
        (disk_table.folder / f".hoodie/timeline/{time}.compaction.aborted").read_bytes()
    )
    assert (said["by"], said["reason"]) == ("ops", "too large")
    with pytest.raises(PlanAborted):
        claiming.claim(disk_table.worker(), time)


def test_cancelling_twice_changes_nothing_more(disk_table):
    time = disk_table.plan()
    assert _cancel(disk_table, time).record["outcome"] == "aborted"
    before = tree(disk_table.folder / ".hoodie/timeline")
    ran = _cancel(disk_table, time)
    assert (ran.code, ran.record["outcome"]) == (0, "aborted")
    assert tree(disk_table.folder / ".hoodie/timeline") == before


def test_a_live_executor_is_named_and_stops_later(disk_table):
    time = disk_table.plan()
    claiming.claim(disk_table.worker("spark-7"), time)
    ran = _cancel(disk_table, time)
    assert ran.code == 0
    assert ran.record["outcome"] == "cancelled"
    assert ran.record["at_work"]["owner"] == "spark-7"
    assert ran.record["at_work"]["epoch"] == 1
    assert 0 < ran.record["at_work"]["dead_in_s"] <= 120
    assert _standing(disk_table, time) is Standing.CANCELLED
    text = run("cancel", disk_table.uri, time, "--no-foreign-writers").out
    assert "spark-7 is still at work" in text and "clean" in text
    with pytest.raises(PlanCancelled):
        claiming.claim(disk_table.worker(), time)


def test_no_abort_only_decides(disk_table):
    time = disk_table.plan()
    ran = _cancel(disk_table, time, "--no-abort")
    assert (ran.code, ran.record["outcome"]) == (0, "cancelled")
    assert _standing(disk_table, time) is Standing.CANCELLED
    assert f"{time}.compaction.requested" in _names(disk_table)


def test_what_cannot_be_cancelled_says_why(disk_table):
    write = ingest(disk_table.worker(), "f1")
    fixed = disk_table.plan("f1", cancellable=False)
    done = disk_table.plan("f2")
    execute(disk_table.worker(), done, ("f2",))
    cases = {
        write.time: (3, "AlreadyCommitted"),
        done: (3, "AlreadyCommitted"),
        fixed: (2, "NotCancellable"),
        "20200101000000000": (2, "PlanNotFound"),
        "yesterday": (2, "Usage"),
    }
    before = _names(disk_table)
    for time, expected in cases.items():
        ran = _cancel(disk_table, time)
        assert (ran.code, ran.error["kind"]) == expected
        assert ran.out == ""
    assert _names(disk_table) == before


def test_a_lock_that_does_not_keep_java_out_needs_a_declaration(disk_table):
    time = disk_table.plan()
    ran = run("cancel", disk_table.uri, time)
    assert ran.code == 2
    assert "foreign writers" in ran.err
    assert _standing(disk_table, time) is Standing.REQUESTED


def test_another_lock_than_the_workers_use_is_refused(disk_table):
    time = disk_table.plan()
    options = ("--lock", "filesystem", "--lock-option", "lease_s=60")
    ran = run("cancel", disk_table.uri, time, *options, "-o", "json")
    assert (ran.code, ran.error["kind"]) == (2, "WrongLockProvider")
    assert file_system_lock(disk_table.kernel.store, terms=DAY).holder() is None


def test_a_held_lock_times_out_and_names_its_holder(disk_table):
    time = disk_table.plan()
    held = storage_lock(disk_table.kernel.store, terms=DAY).acquire("spark-7", timeout_s=1)
    ran = _cancel(disk_table, time, "--lock-timeout", "0.05")
    held.release()
    assert (ran.code, ran.error["kind"]) == (4, "LockTimeout")
    assert "spark-7" in ran.error["message"]
    assert "lakehand unlock" in ran.error["remedy"]


def test_the_lock_is_free_and_no_heartbeat_is_left_afterwards(disk_table):
    time = disk_table.plan()
    _cancel(disk_table, time)
    assert storage_lock(disk_table.kernel.store).holder() is None
    assert list((disk_table.folder / ".hoodie/.heartbeat").iterdir()) == []


def test_a_torn_journal_stops_it_before_anything_is_decided(disk_table):
    time = disk_table.plan()
    last = max((disk_table.folder / ".hoodie/.lakehand/journal").iterdir())
    last.write_bytes(b"{")
    ran = _cancel(disk_table, time)
    assert (ran.code, ran.error["kind"]) == (5, "Corrupt")
    assert last.name in ran.error["message"]
    assert storage_lock(disk_table.kernel.store).holder() is None
