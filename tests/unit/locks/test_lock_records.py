"""Any bytes as a lock record: a holder, or a typed refusal; free only when it says so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Unsupported
from lakehand.locks.file_system import FileRegister
from lakehand.locks.leases import LeaseRecord
from lakehand.locks.storage import RECORD, StorageRegister
from lakehand.store.memory import MemoryStore

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
OWN = st.dictionaries(
    st.sampled_from(["version", "token", "number", "leaseSeconds"]), SCALARS | st.just(1)
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "expired": SCALARS,
        "validUntil": SCALARS,
        "owner": SCALARS,
        "lockCreateTime": SCALARS,
        "lockThreadName": SCALARS,
        "lakehand": SCALARS | OWN,
        "added by a newer Hudi": SCALARS,
    },
)
CONTENTS = st.binary(max_size=40) | DOCUMENTS.map(lambda each: json.dumps(each).encode())


def seen_by(register_of, content: bytes):
    store = MemoryStore()
    register, path = register_of(store)
    store.put(path, content)
    seen = register.read()
    assert seen is not None
    return seen


def storage_register(store):
    return StorageRegister(store, java_lease_s=300, wall_ms=lambda: 0), RECORD


def file_register(store):
    register = FileRegister(store, ".hoodie/lock", java_lease_s=60, wall_ms=lambda: 0)
    return register, ".hoodie/lock"


@pytest.mark.parametrize("register_of", [storage_register, file_register])
@settings(max_examples=300, deadline=None)
@given(content=CONTENTS)
def test_every_content_is_a_record_or_a_refusal(register_of, content):
    seen = seen_by(register_of, content)
    match seen.record:
        case LeaseRecord() as record:
            assert record.owner
            assert 0 < record.lease_s < float("inf")
            if record.is_free:
                assert json.loads(content)["expired"] is True
        case Corrupt() | Unsupported() as problem:
            assert "lakehand unlock" in str(problem)


def test_java_s_records_are_holders_with_javas_lease():
    record = b'{"expired":false,"validUntil":1700000000000,"owner":"0b3e-uuid","newer":[1]}'
    seen = seen_by(storage_register, record)
    assert seen.record == LeaseRecord("0b3e-uuid", "", 0, 300)
    assert seen.expires_in_s is not None
    free = seen_by(storage_register, record.replace(b"false", b"true"))
    assert isinstance(free.record, LeaseRecord)
    assert free.record.is_free
    empty = seen_by(file_register, b"")
    assert empty.record == LeaseRecord("a Java writer (its lock file is empty)", "", 0, 60)
    older = b'{"lockCreateTime":"2026-01-01 00:00:00.000","lockThreadName":"main"}'
    assert seen_by(file_register, older).record == LeaseRecord(
        "a Java writer (thread main)", "", 0, 60
    )


def test_a_machine_whose_clock_lags_behind_the_store_does_not_shorten_the_lease_for_java():
    now = [1_000_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    register = StorageRegister(store, java_lease_s=300, wall_ms=lambda: 5)
    register.take(LeaseRecord("first", "a", 1, 60.0), None)
    assert json.loads(store.get(RECORD).content)["validUntil"] == 5 + 60_000
    seen = register.read()
    assert seen is not None
    register.renew(LeaseRecord("first", "a", 2, 60.0), seen.version)
    assert json.loads(store.get(RECORD).content)["validUntil"] == now[0] + 60_000
