"""`lakehand unlock`: shows the holder, asks, refuses a live one."""

from __future__ import annotations

import pytest

from cli_runs import FakeTime, run
from lakehand.cli import unlock
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import RECORD, storage_lock
from lakehand.ports import LockHolder

NEVER_RENEWED = LeaseTerms(lease_s=900.0, renew_every_s=300.0)


@pytest.fixture
def fake_time(monkeypatch):
    fake = FakeTime()
    monkeypatch.setattr(unlock, "time", fake)
    return fake


@pytest.fixture
def held(disk_table):
    """A lock whose holder does nothing by itself."""
    lock = storage_lock(disk_table.kernel.store, terms=NEVER_RENEWED)
    lease = lock.acquire("spark-7", timeout_s=1)
    yield lease
    lease.release()


def _unlock(table, *options, answer=""):
    return run("unlock", table.uri, "-o", "json", *options, answer=answer)


def _is_held(table):
    return storage_lock(table.kernel.store).holder() is not None


def _renewed(table):
    """Write the record as its holder does when it renews its lease."""
    path = table.folder / RECORD
    content = path.read_text().replace('"number":1', '"number":2')
    assert content != path.read_text()
    path.write_text(content)


def test_nothing_has_to_be_done_when_nobody_holds_the_lock(disk_table):
    for _ in range(2):
        ran = _unlock(disk_table)
        assert (ran.code, ran.record["outcome"], ran.record["holder"]) == (0, "free", None)
    assert not (disk_table.folder / RECORD).exists()


def test_a_dead_holder_is_shown_watched_for_its_lease_and_removed(disk_table, held, fake_time):
    ran = _unlock(disk_table, answer="y\n")
    assert ran.code == 0
    assert ran.record["outcome"] == "removed"
    assert ran.record["holder"]["owner"] == "spark-7"
    assert 899 < ran.record["holder"]["expires_in_s"] <= 900
    assert 899 < fake_time.now < 902
    assert "held by spark-7" in ran.err and "expires in 15 min" in ran.err
    assert "Remove the lock of spark-7? [y/N]" in ran.err
    assert not _is_held(disk_table)
    assert _unlock(disk_table).record["outcome"] == "free"


def test_a_holder_that_renews_while_it_is_watched_is_alive(disk_table, held, fake_time):
    fake_time.on_sleep = lambda: fake_time.now > 400 and _renewed(disk_table)
    ran = _unlock(disk_table, "--yes")
    assert ran.code == 3
    assert "spark-7 renewed it while we watched" in ran.error["message"]
    assert _is_held(disk_table)


def test_a_holder_that_is_replaced_while_it_is_watched_is_left_alone(disk_table, held, fake_time):
    def replace():
        held.release()
        fake_time.on_sleep = lambda: None
        storage_lock(disk_table.kernel.store, terms=NEVER_RENEWED).acquire("other", timeout_s=1)

    fake_time.on_sleep = replace
    ran = _unlock(disk_table, "--yes")
    assert ran.code == 3
    assert "other took it while we watched" in ran.error["message"]
    assert _is_held(disk_table)


def test_a_holder_that_releases_it_meanwhile_needs_no_help(disk_table, held, fake_time):
    fake_time.on_sleep = held.release
    ran = _unlock(disk_table, "--yes")
    assert (ran.code, ran.record["outcome"]) == (0, "released")


def test_a_renewal_while_the_person_thinks_is_seen_too(disk_table, held, fake_time, monkeypatch):
    monkeypatch.setattr(unlock, "is_stdin_yes", lambda _question: not _renewed(disk_table))
    ran = _unlock(disk_table)
    assert ran.code == 3
    assert _is_held(disk_table)


def test_force_does_not_watch(disk_table, held, fake_time):
    ran = _unlock(disk_table, "--force", "--yes")
    assert (ran.code, ran.record["outcome"]) == (0, "removed")
    assert fake_time.now == 0
    assert held.left_s() > 0  # it learns it by its next renewal
    assert not _is_held(disk_table)


def test_force_removes_it_from_a_holder_that_renews_just_then(disk_table, held, monkeypatch):
    monkeypatch.setattr(unlock, "is_stdin_yes", lambda _question: not _renewed(disk_table))
    ran = _unlock(disk_table, "--force")
    assert (ran.code, ran.record["outcome"]) == (0, "removed")


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "maybe\n"])
def test_without_a_yes_nothing_is_changed(disk_table, held, fake_time, answer):
    ran = _unlock(disk_table, answer=answer)
    assert ran.code == 2
    assert "--yes" in ran.err
    assert _is_held(disk_table)


def test_a_record_that_cannot_be_read_is_watched_and_removed(disk_table, fake_time):
    path = disk_table.folder / RECORD
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{torn")
    ran = _unlock(disk_table, "--yes")
    assert (ran.code, ran.record["outcome"]) == (0, "removed")
    assert "unknown" in ran.record["holder"]["owner"]
    assert unlock.WATCH_S <= fake_time.now < unlock.WATCH_S + 1
    assert not _is_held(disk_table)


def test_an_empty_lock_file_of_java_is_removed_under_its_own_kind(disk_table, fake_time):
    (disk_table.folder / ".hoodie/lock").write_bytes(b"")
    options = ("--lock", "filesystem", "--lock-option", "lease_s=600")
    ran = _unlock(disk_table, *options, "--yes")
    assert (ran.code, ran.record["outcome"]) == (0, "removed")
    assert "Java" in ran.record["holder"]["owner"]
    assert 599 < fake_time.now < 602
    assert not (disk_table.folder / ".hoodie/lock").exists()


def test_the_lock_that_the_workers_really_use_is_named(disk_table):
    disk_table.plan()
    ran = run("unlock", disk_table.uri, "--lock", "filesystem", "--lock-option", "lease_s=60")
    assert ran.code == 0
    assert "the table's workers use the storage lock" in ran.err
    assert "workers use" not in run("unlock", disk_table.uri).err


def test_the_time_to_watch_is_the_lease_and_never_made_shorter_by_wrong_clocks():
    assert unlock.watch_seconds(LockHolder("a", "1", 5.0, -3600.0, lease_s=7.0)) == 7.0
    assert unlock.watch_seconds(LockHolder("a", "1", 100.0, 200.0)) == 300.0
    assert unlock.watch_seconds(LockHolder("a", "1", 5.0, None)) == unlock.WATCH_S
    assert unlock.watch_seconds(LockHolder("a", "1", 5.0, -3600.0)) == unlock.WATCH_S


def test_a_lock_of_another_kind_is_not_touched(disk_table):
    lock = file_system_lock(disk_table.kernel.store, terms=NEVER_RENEWED)
    lease = lock.acquire("java", timeout_s=1)
    assert _unlock(disk_table, "--yes").record["outcome"] == "free"
    assert lock.holder() is not None
    lease.release()
