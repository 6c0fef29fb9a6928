"""Before anything is trusted to a store, find out whether it keeps the conditions of writes.

Some servers and proxies take a conditional write and drop the condition. Two workers would then
overwrite each other's decisions without an error anywhere, so such a store is refused at the
start. The probe writes a few bytes under a name of its own and removes them again.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from lakehand.errors import LakehandError, Unavailable, Unsupported
from lakehand.ports import PromoteOutcome, PutOutcome

if TYPE_CHECKING:
    from lakehand.ports import Staged, Store

_NAME = ".hoodie/.lakehand/probe-"


def probe(store: Store) -> None:
    """Raise ``Unsupported`` if ``store`` does not keep the laws that the protocol stands on.

    ``Unavailable`` means that it could not be found out. Nothing is left behind.
    """
    unique = uuid.uuid4().hex
    put, promoted = f"{_NAME}{unique}.put", f"{_NAME}{unique}.promoted"
    staged: list[Staged] = []
    try:
        _probe_puts(store, put)
        _probe_promotions(store, promoted, f".hoodie/.temp/.staging/{unique}", staged)
    finally:
        with contextlib.suppress(LakehandError):  # what went wrong first is what matters
            for each in staged:
                store.discard(each)
            for path in (put, promoted):
                store.delete(path)


def _probe_puts(store: Store, path: str) -> None:
    _expect(store, PutOutcome.WRITTEN, store.put_new(path, b"1"), "creating a new object")
    second = store.put_new(path, b"2")
    _expect(store, PutOutcome.EXISTS, second, "creating an object that exists (If-None-Match)")
    found = store.get(path)
    if found.content != b"1":
        raise _refusal(store, "a refused write changed the object")
    replaced = store.put_if(path, b"3", found.version)
    _expect(store, PutOutcome.WRITTEN, replaced, "replacing the version that was read (If-Match)")
    stale = store.put_if(path, b"4", found.version)
    _expect(store, PutOutcome.EXISTS, stale, "replacing a version that is gone (If-Match)")
    if store.get(path).content != b"3":
        raise _refusal(store, "a refused replacement changed the object")


def _probe_promotions(store: Store, path: str, area: str, staged: list[Staged]) -> None:
    for content in (b"1", b"2"):
        with store.stage(path, area=area) as writer:
            staged.append(writer.staged)
            writer.write(content)
        staged[-1] = writer.staged
    if store.head(path) is not None:
        raise _refusal(store, "staged content is visible before it is promoted")
    first, second = staged
    _expect(store, PromoteOutcome.WRITTEN, store.promote(first), "promoting a staged file")
    taken = store.promote(second)
    _expect(store, PromoteOutcome.EXISTS, taken, "promoting over an object (If-None-Match)")
    if store.get(path).content != b"1":
        raise _refusal(store, "a refused promotion changed the object")
    store.delete(path)
    for each in (first, second):
        again = store.promote(each)
        _expect(store, PromoteOutcome.GONE, again, "promoting a second time")
    if store.head(path) is not None:
        raise _refusal(store, "a second promotion brought a deleted object back")


def _expect(
    store: Store,
    expected: PutOutcome | PromoteOutcome,
    outcome: PutOutcome | PromoteOutcome,
    step: str,
) -> None:
    if outcome in (PutOutcome.UNKNOWN, PromoteOutcome.UNKNOWN):
        raise Unavailable(f"{store.uri}: no answer to {step}; try again")
    if outcome is not expected:
        raise _refusal(store, f"{step} was answered {outcome.value!r}, not {expected.value!r}")


def _refusal(store: Store, problem: str) -> Unsupported:
    return Unsupported(
        f"{store.uri} does not keep the condition of a write: {problem}. Concurrent writers would "
        "lose data there. Use a store with conditional writes, update the server, or remove the "
        "proxy that drops If-Match and If-None-Match"
    )
