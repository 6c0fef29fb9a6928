"""``swap``: a conditional write that tells the version it left."""

from __future__ import annotations

from lakehand.ports import PutOutcome, Swapped

LOST = Swapped(PutOutcome.EXISTS)


def test_swap_creates_replaces_and_loses_as_the_other_conditional_writes_do(store):
    first = store.swap("record", b"1", None)
    assert first.outcome is PutOutcome.WRITTEN
    assert store.swap("record", b"lost", None) == LOST
    version = first.version or store.get("record").version
    second = store.swap("record", b"2", version)
    assert second.outcome is PutOutcome.WRITTEN
    assert store.swap("record", b"lost", version) == LOST
    assert store.swap("missing", b"lost", version) == LOST
    assert store.get("record").content == b"2"


def test_the_version_that_swap_tells_is_the_one_that_get_returns(store):
    """None is allowed: then it has to be read."""
    told = None
    for number in range(3):
        told = store.swap("record", f"content {number}".encode(), told).version
        assert told in (None, store.get("record").version)
        told = told or store.get("record").version
    assert store.put_if("record", b"last", told) is PutOutcome.WRITTEN
