"""What the locks refuse to be made with, and what they are called."""

from __future__ import annotations

import pytest

from lakehand.errors import Invalid
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.in_process import InProcessLock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore

TERMS = LeaseTerms(lease_s=60, renew_every_s=6)


@pytest.mark.parametrize("lease_s", [0, -1, float("inf"), float("nan")])
def test_a_lock_that_never_expires_is_refused(lease_s):
    """Hudi's default ``hoodie.write.lock.filesystem.expire = 0`` is such a one."""
    with pytest.raises(Invalid, match="expire"):
        LeaseTerms(lease_s=lease_s, renew_every_s=1)


@pytest.mark.parametrize("renew_every_s", [0, -1, 21, float("nan")])
def test_renewals_that_one_failure_would_make_too_late_are_refused(renew_every_s):
    with pytest.raises(Invalid, match="at most a third"):
        LeaseTerms(lease_s=60, renew_every_s=renew_every_s)


@pytest.mark.parametrize("pauses", [(0, 1), (2, 1), (-1, 1)])
def test_pauses_that_make_no_sense_are_refused(pauses):
    first, longest = pauses
    with pytest.raises(Invalid, match="pause"):
        LeaseTerms(lease_s=60, renew_every_s=6, first_pause_s=first, longest_pause_s=longest)


def test_the_file_lock_is_refused_where_java_has_none():
    with pytest.raises(Invalid, match="use the storage lock"):
        file_system_lock(MemoryStore("s3://bucket/table"), terms=TERMS)


@pytest.mark.parametrize(
    ("uri", "excludes_foreign"),
    [
        ("s3://bucket/table", True),
        ("gs://bucket/table", True),
        ("abfss://container@account.dfs.core.windows.net/table", True),
        ("hdfs://host/table", False),
        ("memory://table", False),
    ],
)
def test_the_storage_lock_excludes_java_where_hudi_has_a_client_for_it(uri, excludes_foreign):
    assert storage_lock(MemoryStore(uri)).excludes_foreign is excludes_foreign


def test_names_and_whom_they_exclude(tmp_path):
    store = LocalStore(tmp_path)
    found = {
        lock.name: lock.excludes_foreign
        for lock in (
            storage_lock(store),
            file_system_lock(store, terms=TERMS),
            InProcessLock("a table"),
        )
    }
    assert found == {"storage": False, "filesystem": True, "in-process": False}


def test_locks_of_different_names_or_folders_do_not_meet(tmp_path):
    InProcessLock("one").acquire("first", timeout_s=0).release()
    one, two = InProcessLock("one").acquire("a", timeout_s=0), InProcessLock("two")
    two.acquire("b", timeout_s=0).release()
    one.release()
    store = LocalStore(tmp_path)
    held = file_system_lock(store, terms=TERMS).acquire("a", timeout_s=0)
    elsewhere = file_system_lock(store, terms=TERMS, folder=".hoodie/.aux")
    elsewhere.acquire("b", timeout_s=0).release()
    held.release()
