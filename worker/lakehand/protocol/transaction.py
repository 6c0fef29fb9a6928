"""The transaction: the only way to change the timeline.

::

    with transaction(bench) as tx:           lock; properties, journal, timeline, clock after it;
                                             decisions left unpublished are rolled forward
        result = tx.decide(recipe)           recipe(view) -> Done(result) | Append(body, result)
                                             the entry is appended, then published
                                             somebody was first: view again, recipe again

Under the lock only metadata is touched. A recipe that stages files does so as its last step; they
are discarded when it is sure that the entry naming them was not appended, and only then.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from lakehand.core.instants import format_instant_time, parse_instant_time
from lakehand.core.journal_entries import Body, LockUse, Overtaken, Void, staged_by
from lakehand.core.table_config import TableConfig
from lakehand.core.timeline import Timeline
from lakehand.errors import (
    ClockAhead,
    Conflict,
    Invalid,
    LockLost,
    Unavailable,
    WriteConflict,
    WrongLockProvider,
)
from lakehand.formats import instant_names
from lakehand.protocol import publishing, table_properties
from lakehand.protocol.staging import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.journal import Fold
    from lakehand.core.journal_entries import Entry
    from lakehand.ports import HeldLock
    from lakehand.protocol.workbench import Workbench

T = TypeVar("T")

_ATTEMPTS = 20
"""How often a decision is made again because somebody else appended first."""


@dataclass(frozen=True, slots=True)
class View:
    """What was read after the lock: a decision stands on nothing else."""

    config: TableConfig
    timeline: Timeline
    names: frozenset[str]
    """The files of the timeline folder."""
    fold: Fold
    now_ms: int
    """The store's clock."""
    bench: Workbench

    @property
    def known_until(self) -> str:
        """The moment up to which this view knows what completed.

        The last completion; in layout 1, which does not say when, the last requested time.
        """
        if self.config.layout == 1:
            return self.timeline.latest_time or ""
        done = (one.completion_time or one.time for one in self.timeline.completed)
        return max(done, default="")

    @property
    def pending_at_start(self) -> tuple[str, ...] | None:
        """What a judge has to remember of this view in layout 1."""
        if self.config.layout == 2:
            return None
        return tuple(one.time for one in self.timeline.pending)

    def has_inflight(self, time: str) -> bool:
        """Whether an attempt's inflight file is on the timeline."""
        return f"{time}.inflight" in self.names or any(
            name.startswith(f"{time}.") and name.endswith(".inflight") for name in self.names
        )

    def draw_time(self) -> str:
        """Return a time later than every other of the table, by the store's clock."""
        last = max(self.fold.last_time, self.timeline.latest_time or "")
        if not last:
            return format_instant_time(self.now_ms, self.bench.zone)
        next_ms = parse_instant_time(last, self.bench.zone) + 1
        self._require_sane_clock(next_ms, last)
        return format_instant_time(max(self.now_ms, next_ms), self.bench.zone)

    def _require_sane_clock(self, next_ms: int, last: str) -> None:
        ahead_s = (next_ms - self.now_ms) / 1000
        if ahead_s > self.bench.settings.max_clock_skew_s:
            raise ClockAhead(
                f"the table's last time {last} lies {ahead_s:.0f} s ahead of the store's clock "
                f"(allowed: {self.bench.settings.max_clock_skew_s:.0f} s). Set the clock right, "
                "or wait; max_clock_skew_s allows more"
            )


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """Nothing has to be decided."""

    result: T


@dataclass(frozen=True, slots=True)
class Append(Generic[T]):
    """A decision to append and publish."""

    body: Body
    result: T
    before_publish: Callable[[], None] | None = None
    """What must be done once it is decided and before anybody can see it."""


@contextmanager
def transaction(bench: Workbench) -> Iterator[Transaction]:
    """Hold the table lock and a view that was read after it."""
    held = bench.locks.acquire(bench.worker, timeout_s=bench.settings.lock_timeout_s)
    try:
        tx = Transaction(bench, held)
        tx.begin()
        yield tx
        tx.keep_short()
    finally:
        held.release()


class Transaction:
    """What ``transaction`` yields."""

    def __init__(self, bench: Workbench, held: HeldLock) -> None:
        self._bench = bench
        self._held = held
        self._lock = LockUse(bench.locks.name, held.token)
        self.view: View

    def begin(self) -> None:
        """Read the table, and finish what others decided and did not publish."""
        self.view = load_view(self._bench)
        require_provider(self._bench, self.view.fold)
        self._roll_forward()

    def keep_short(self) -> None:
        """Write a checkpoint, and trim what it makes needless, when enough was decided."""
        journal, settings = self._bench.journal, self._bench.settings
        if not journal.is_checkpoint_due(settings.checkpoint_every):
            return
        with suppress(Conflict):  # somebody decided first: the next transaction does it
            require_lock(self._bench, self._held)
            journal.write_checkpoint(lock=self._lock, at_ms=self.view.now_ms)
            journal.trim()

    def decide(self, recipe: Callable[[View], Done[T] | Append[T]]) -> T:
        """Let ``recipe`` decide on the view; append and publish what it says."""
        for _ in range(_ATTEMPTS):
            decision = recipe(self.view)
            if isinstance(decision, Done):
                return decision.result
            entry = self._append(decision.body)
            if entry is None:
                self.begin()
                continue
            if decision.before_publish is not None:
                decision.before_publish()
            overtaken = self._publish(entry)
            if overtaken is not None:
                raise WriteConflict(f"it was decided and then overtaken: {overtaken.value}")
            return decision.result
        raise Conflict(f"{self._bench.store.uri}: others keep deciding first; try again")

    def _append(self, body: Body) -> Entry | None:
        """Append under the lock; None if somebody else was first, and the stage is cleared."""
        try:
            require_lock(self._bench, self._held)
            entry = self._bench.journal.append(body, lock=self._lock, at_ms=self.view.now_ms)
        except Conflict:
            self._drop(body)
            return None
        except LockLost:
            self._drop(body)
            raise
        self.view = replace(self.view, fold=self._bench.journal.fold)
        return entry

    def _drop(self, body: Body) -> None:
        for staged in staged_by(body):
            discard(self._bench.store, staged)

    def _roll_forward(self) -> None:
        """Publish what was decided before us, in order."""
        journal = self._bench.journal
        pending = [one for one in self.view.fold.unpublished if one.seq > journal.published]
        touched = False
        for entry in pending:
            if not publishing.is_visible(entry.body, self.view):
                touched = True
                self._publish(entry)
        journal.published = max(journal.published, self.view.fold.tail.seq)
        if touched:
            self.view = load_view(self._bench)

    def _publish(self, entry: Entry) -> Overtaken | None:
        """Publish an entry, or decide, and say, that it was overtaken."""
        overtaken = publishing.publish(self._bench, self.view, entry.body)
        if overtaken is not None:
            self._void(Void(publishing.subject(entry.body), overtaken))
        elif entry.seq == self._bench.journal.fold.tail.seq:
            self._bench.journal.published = entry.seq
        return overtaken

    def _void(self, body: Void) -> None:
        """Append ``void``; somebody else may have done so, or published, meanwhile."""
        for _ in range(_ATTEMPTS):
            if not self.view.fold.allows(body):
                return
            if self._append(body) is not None:
                return
            self.view = replace(self.view, fold=self._bench.journal.refresh())
        raise Conflict(f"{self._bench.store.uri}: others keep deciding first; try again")


def load_view(bench: Workbench) -> View:
    """Read the table as it is now."""
    config = require_same_layout(bench.config, table_properties.load(bench.store))
    fold = bench.journal.refresh()
    names = bench.store.names(config.timeline_path)
    parsed = (instant_names.parse(name, config.layout) for name in names)
    return View(
        config=config,
        timeline=Timeline.of(one for one in parsed if one is not None),
        names=frozenset(names),
        fold=fold,
        now_ms=bench.store.now(),
        bench=bench,
    )


def require_same_layout(known: TableConfig, properties: dict[str, str]) -> TableConfig:
    """Return the table's configuration; its version must be what this worker was made for."""
    config = TableConfig.from_properties(properties)
    if (config.version, config.timeline_path) != (known.version, known.timeline_path):
        raise Invalid(
            f"the table was version {known.version.value} and is version {config.version.value} "
            "now: it was upgraded or downgraded under us; start again"
        )
    return config


def require_provider(bench: Workbench, fold: Fold) -> None:
    """Refuse to decide under another lock than the table's other workers."""
    if fold.provider is not None and fold.provider != bench.locks.name:
        raise WrongLockProvider(
            f"the table's workers use the {fold.provider} lock, this one the {bench.locks.name} "
            "lock; they would not exclude each other. Give this worker the same lock"
        )


def require_lock(bench: Workbench, held: HeldLock) -> None:
    """Refuse to decide when too little of the lock's lease is left."""
    left_s = held.left_s()
    if left_s < bench.settings.lock_margin_s:
        raise LockLost(
            f"{left_s:.1f} s are left of the table lock's lease, "
            f"{bench.settings.lock_margin_s:.1f} s are needed: nothing was decided; try again"
        )


def append_unlocked(bench: Workbench, recipe: Callable[[Fold], Body | None]) -> Entry | None:
    """Append a decision that needs no lock, because it publishes nothing (``prepare``)."""
    for _ in range(_ATTEMPTS):
        body = recipe(bench.journal.refresh())
        if body is None:
            return None
        try:
            return bench.journal.append(
                body, lock=LockUse(bench.locks.name, ""), at_ms=bench.store.now()
            )
        except Conflict:
            continue
    raise Unavailable(f"{bench.store.uri}: others keep deciding first; try again")
