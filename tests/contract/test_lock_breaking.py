"""Locks in a person's hand: what is broken, what is refused, and what is left alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from lakehand.errors import Corrupt, LockTimeout, Unsupported
from lock_places import kinds

if TYPE_CHECKING:
    from lock_kinds import LockPlace


@pytest.fixture(params=kinds())
def place(request) -> LockPlace:
    return request.param.make(request)


@pytest.fixture(params=kinds(lambda kind: kind.has_lease))
def leased_place(request) -> LockPlace:
    return request.param.make(request)


@pytest.fixture(params=kinds(lambda kind: kind.has_bytes))
def open_place(request) -> LockPlace:
    return request.param.make(request)


def test_a_broken_lock_is_free_and_its_holder_knows(place):
    lock = place.open()
    held = place.open().acquire("dead", timeout_s=5)
    found = lock.holder()
    assert found is not None
    assert lock.break_lock(found)
    assert lock.holder() is None
    after = place.open().acquire("next", timeout_s=0)
    if held.left_s() > 0:
        held._renew()
    assert held.left_s() == 0
    held.release()
    found = lock.holder()
    assert found is not None
    assert found.owner == "next"
    after.release()


def test_a_lock_is_broken_once(place):
    held = place.open().acquire("dead", timeout_s=5)
    lock = place.open()
    found = lock.holder()
    assert found is not None
    assert lock.break_lock(found)
    assert not lock.break_lock(found)
    assert lock.holder() is None
    held.release()


def test_the_next_holders_lock_is_not_broken(place):
    lock = place.open()
    first = lock.acquire("first", timeout_s=5)
    seen = lock.holder()
    assert seen is not None
    first.release()
    assert not lock.break_lock(seen)
    second = lock.acquire("second", timeout_s=5)
    assert not lock.break_lock(seen)
    assert second.left_s() > 0
    second.release()
    assert not lock.break_lock(dataclasses.replace(seen, owner="nobody"))


def test_a_holder_that_renewed_since_it_was_seen_is_not_broken(leased_place):
    world = leased_place.world()
    held = leased_place.open(world.terms, world.worker()).acquire("alive", timeout_s=0)
    lock = leased_place.open(world.terms, world.worker())
    seen = lock.holder()
    assert seen is not None
    world.clock.sleep(2.5 * world.terms.renew_every_s)
    assert not lock.break_lock(seen)
    assert held.left_s() > 0
    held.release()


BROKEN = [
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'"free"',
    b"[" * 100_000,
    b"1" * 5000,
    b"{}",
    b'{"expired": true}',
    b'{"expired": true, "validUntil": "soon", "owner": "x"}',
    b'{"expired": true, "validUntil": 1e999, "owner": "x"}',
    b'{"expired": null, "validUntil": 1, "owner": "x"}',
    b'{"expired": true, "validUntil": ' + b"9" * 400 + b', "owner": "x"}',
    b'{"expired": true, "validUntil": 1, "owner": 7}',
    b'{"lockCreateTime": 3}',
    b"x" * 1_000_000,
]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_a_record_that_is_none_is_refused_and_never_taken_for_free(open_place, content):
    open_place.scribble(content)
    lock = open_place.open()
    with pytest.raises(Corrupt, match="lakehand unlock") as refused:
        lock.acquire("first", timeout_s=0)
    assert "lock" in refused.value.where
    assert open_place.record() == content
    found = lock.holder()
    assert found is not None
    assert found.owner.startswith("unknown (")
    assert found.expires_in_s is None


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b'"version":1', b'"version":2', Unsupported),
        (b'"version":1', b'"version":0', Corrupt),
        (b'"version":1', b'"version":"1"', Corrupt),
        (b'"token":"', b'"other":"', Corrupt),
        (b'"number":1', b'"number":null', Corrupt),
        (b'"leaseSeconds":30.0', b'"leaseSeconds":-1', Corrupt),
        (b'"leaseSeconds":30.0', b'"leaseSeconds":NaN', Corrupt),
        (b'"leaseSeconds":30.0', b'"leaseSeconds":Infinity', Corrupt),
    ],
)
def test_our_part_of_a_record_is_understood_or_refused(open_place, old, new, kind):
    held = open_place.open().acquire("first", timeout_s=0)
    content = open_place.record()
    held.release()
    assert old in content
    open_place.scribble(content.replace(old, new))
    with pytest.raises(kind, match="lakehand unlock"):
        open_place.open().acquire("second", timeout_s=0)


def test_a_person_can_remove_a_record_that_nobody_understands(open_place):
    open_place.scribble(b"rubbish")
    lock = open_place.open()
    found = lock.holder()
    assert found is not None
    assert lock.break_lock(found)
    held = lock.acquire("first", timeout_s=0)
    assert not lock.break_lock(found)
    held.release()


def test_a_holder_whose_record_was_scribbled_over_has_lost_the_lock(open_place):
    held = open_place.open().acquire("first", timeout_s=0)
    open_place.scribble(b"rubbish")
    held._renew()
    assert held.left_s() == 0
    held.release()
    assert open_place.record() == b"rubbish"


def test_a_record_without_our_part_is_a_foreign_holder(open_place):
    held = open_place.open().acquire("ours", timeout_s=0)
    content = open_place.record()
    held.release()
    start = content.index(b',"lakehand":')
    foreign = content[:start] + b"}"
    open_place.scribble(foreign)
    with pytest.raises(LockTimeout, match="ours"):
        open_place.open().acquire("second", timeout_s=0)
    assert open_place.record() == foreign
