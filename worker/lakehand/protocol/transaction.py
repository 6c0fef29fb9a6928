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

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Generic, TypeVar

from lakehand.core.instants import (
    Action,
    format_instant_time,
    next_instant_time,
    parse_instant_time,
)
from lakehand.core.journal_entries import SEEN, Body, LockUse, Overtaken, Void, staged_by
from lakehand.core.table_config import TableConfig
from lakehand.core.timeline import Timeline
from lakehand.errors import (
    ClockAhead,
    Conflict,
    Invalid,
    LockLost,
    OutcomeUnknown,
    RestoreOpen,
    Unavailable,
    WriteConflict,
    WrongLockProvider,
)
from lakehand.formats import instant_names
from lakehand.protocol import leftovers, publishing, table_properties, traces
from lakehand.protocol.staging import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.journal import Fold
    from lakehand.core.journal_entries import Entry
    from lakehand.ports import HeldLock
    from lakehand.protocol.heartbeats import Heartbeat
    from lakehand.protocol.workbench import Workbench

_log = logging.getLogger(__name__)

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
    def completions_seen(self) -> tuple[str, ...]:
        """The completed writes that a decision on this view has to name as known."""
        return tuple(one.time for one in self.timeline.completed_writes[-SEEN:])

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

    @property
    def open_restore(self) -> str | None:
        """The restore under way, ours or a foreign one."""
        ours = self.fold.open_restore
        pending = (one.time for one in self.timeline.pending if one.action is Action.RESTORE)
        return ours or next(pending, None)

    def require_no_restore(self, *, but: str | None = None) -> None:
        """Refuse every plan, claim and commit while a restore is open, but the restore's own."""
        restore = self.open_restore
        if restore is not None and restore != but:
            raise RestoreOpen(
                f"the restore {restore} is under way; wait until it completes, or execute it again"
            )

    def draw_time(self) -> str:
        """Return a time later than every other of the table, by the store's clock."""
        last = max(self.fold.last_time, self.timeline.latest_time or "")
        now = format_instant_time(self.now_ms, self.bench.zone)
        if now > last:
            return now
        self._require_sane_clock(now, last)
        return next_instant_time(last)

    def _require_sane_clock(self, now: str, last: str) -> None:
        """Refuse to write into the future. Where summer time ends, an hour comes twice."""
        ahead_s = (parse_instant_time(last) - parse_instant_time(now)) / 1000
        if ahead_s >= 1:
            _log.warning(
                "%s: the store's clock is %.0f s behind the table's last time %s",
                self.bench.store.uri,
                ahead_s,
                last,
            )
        twice_s = 0 if self.bench.zone is UTC else 3600
        if ahead_s > self.bench.settings.max_clock_skew_s + twice_s:
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
    heartbeat: Heartbeat | None = None
    """Begins for ``epoch`` once that is decided, and before anybody can see it."""
    epoch: int = 0


@contextmanager
def transaction(bench: Workbench) -> Iterator[Transaction]:
    """Hold the table lock and a view that was read after it."""
    held = hold(bench)
    try:
        tx = Transaction(bench, held)
        tx.begin()
        yield tx
        tx.keep_short()
    finally:
        held.release()


def hold(bench: Workbench) -> HeldLock:
    """Take the table lock: among our own workers it saves work, towards foreign ones it is all."""
    return bench.locks.acquire(bench.worker, timeout_s=bench.settings.lock_timeout_s)


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
        self._record_foreign_ends()

    def keep_short(self) -> None:
        """Write a checkpoint, and trim what it makes needless, when enough was decided."""
        journal, settings = self._bench.journal, self._bench.settings
        if not journal.is_checkpoint_due(settings.checkpoint_every):
            return
        with suppress(Conflict, Unavailable):  # then a later transaction does it
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
            self._carry_out(entry, decision)
            return decision.result
        raise Conflict(f"{self._bench.store.uri}: others keep deciding first; try again")

    def _carry_out(self, entry: Entry, decision: Append[T]) -> None:
        """Begin the heartbeat of an attempt that was decided, then publish the decision."""
        heartbeat = decision.heartbeat
        try:
            if heartbeat is not None:
                heartbeat.begin(decision.epoch)
            require_not_overtaken(self._publish(entry))
        except BaseException as failure:
            if heartbeat is not None:
                heartbeat.remove()  # the caller gets no attempt that could do so
            if isinstance(failure, Unavailable) and not isinstance(failure, OutcomeUnknown):
                raise OutcomeUnknown(
                    f"decided as journal entry {entry.seq}, but it could not be shown on the "
                    "timeline; the next transaction of anybody does so. Look at the table again"
                ) from failure
            raise

    def _append(self, body: Body) -> Entry | None:
        """Append under the lock; None if somebody else was first, and the stage is cleared."""
        try:
            require_lock(self._bench, self._held)
            entry = self._bench.journal.append(body, lock=self._lock, at_ms=self.view.now_ms)
        except Conflict:
            self._drop(body)
            return None
        except OutcomeUnknown:
            raise
        except Unavailable:  # the lock is lost, or the store said no: surely not appended
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
        for entry in pending:
            if not publishing.is_visible(entry.body, self.view):
                self._publish(entry)
                self.view = load_view(self._bench)
        journal.published = max(journal.published, self.view.fold.tail.seq)

    def _record_foreign_ends(self) -> None:
        """Write down what foreign writers ended of ours: it counts, and we stop going on."""
        for time, overtaken in traces.foreign_ends(self._bench, self.view):
            if self._append(Void(time, overtaken)) is None:
                self.begin()  # somebody decided meanwhile: perhaps it was one of us who ended it
                return
            leftovers.discard_stages(self._bench, time)

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


def require_not_overtaken(overtaken: Overtaken | None) -> None:
    """Tell the one who decided that its decision does not stand."""
    if overtaken is not None:
        raise WriteConflict(f"it was decided and then overtaken: {overtaken.value}")


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
    if bench.settings.changes_lock_provider:
        return
    if fold.provider is not None and fold.provider != bench.locks.name:
        raise WrongLockProvider(
            f"the table's workers use the {fold.provider} lock, this one the {bench.locks.name} "
            "lock; they would not exclude each other. Give this worker the same lock; or, when no "
            "other worker runs, change the table's lock once with changes_lock_provider"
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
