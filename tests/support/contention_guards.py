"""Guards of the protocol, each of which a contention test can take out, to see the audit notice.

Named in an environment variable that only the children of these tests understand.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehand.core.journal import Fold
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    heartbeats,
    leftovers,
    planning,
    rolling_back,
    staging,
    transaction,
    writing,
)
from lakehand.protocol.journal import Journal, _Learnt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "LAKEHAND_CONTENTION_WITHOUT"


def _nothing(*_args: Any, **_named: Any) -> None:
    return None


def _legal_moves() -> None:
    """The last claim, and the fold's table of moves and epochs behind it."""
    committing.require_last_claim = _nothing
    Fold.require_legal = _nothing
    heartbeats.Heartbeat.require_alive = _nothing
    heartbeats.Heartbeat.check = _nothing


def _staging_discarded() -> None:
    """What a replaced attempt staged is left, file and folder, to be promoted later."""
    leftovers.discard = _nothing
    leftovers.all_areas = lambda _time: staging.all_areas("nobody")


def _still_there() -> None:
    Journal._still_there = lambda _self, _on: True  # type: ignore[method-assign]


def _exclusive_append() -> None:
    """A slot that is taken counts as mine."""
    put = Journal._put

    def mine(self: Any, entry: Any) -> Any:
        put(self, entry)
        return _Learnt.MINE

    Journal._put = mine  # type: ignore[method-assign]


def _conflicts() -> None:
    committing.require_no_conflict = lambda *_args: ()
    writing.require_no_conflict = lambda *_args: ()


def _roll_forward() -> None:
    """What others decided is not published by the next transaction."""
    transaction.Transaction._roll_forward = _nothing  # type: ignore[method-assign]


def _heartbeats() -> None:
    """Nobody is ever thought to be alive: workers take over from the living all the time."""
    for module in (claiming, rolling_back):
        module.require_not_live = _nothing
    failed_writes.is_live = lambda *_args: False


_WITH_TRANSACTIONS = (
    cancelling,
    claiming,
    committing,
    failed_writes,
    planning,
    rolling_back,
    writing,
)


class _NoLease:
    token = "nobody's"

    def left_s(self) -> float:
        return float("inf")

    def release(self) -> None:
        return None


def _lock() -> None:
    """Everybody holds the table lock all the time."""

    @contextmanager
    def crowded(bench: Any) -> Iterator[Any]:
        tx = transaction.Transaction(bench, _NoLease())
        tx.begin()
        yield tx
        tx.keep_short()

    for module in _WITH_TRANSACTIONS:
        module.transaction = crowded


GUARDS: dict[str, Callable[[], None]] = {
    "conflicts": _conflicts,
    "exclusive append": _exclusive_append,
    "heartbeats": _heartbeats,
    "legal moves": _legal_moves,
    "lock": _lock,
    "roll forward": _roll_forward,
    "staging discarded": _staging_discarded,
    "still there": _still_there,
}


def take_out(name: str) -> None:
    """Take a guard out of this process; nothing is named by the empty text."""
    if name:
        GUARDS[name]()
