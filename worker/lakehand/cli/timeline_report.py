"""What is known of a table's instants, gathered without a lock and without writing anything.

The timeline says what is published, the journal what was decided, heartbeats who is at work. They
are read one after another, so a decision taken meanwhile may show in one and not yet in another.
A part that cannot be read is said to be so, and does not hide the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.cli.options import looking_bench
from lakehand.core.instants import Action, Instant, State, completed_action
from lakehand.core.journal import Fold, InstantRecord
from lakehand.core.journal_moves import ENDED, Standing
from lakehand.errors import Conflict, Corrupt, Invalid, NotFound
from lakehand.protocol import heartbeats, traces
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import View, load_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.protocol.workbench import Workbench
    from lakehand.table import Table

_TRIES = 5
"""How often the journal is read anew because it was trimmed meanwhile."""


@dataclass(frozen=True, slots=True)
class HeartbeatReport:
    """The heartbeat of an instant's last attempt."""

    owner: str
    epoch: int
    age_s: float
    live: bool


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """What the journal decided about an instant."""

    standing: str
    entry: int
    to_be_published: bool
    """Whether the timeline does not show it yet: the next transaction publishes it."""
    epoch: int
    owner: str | None
    purpose: str | None
    cancellable: bool
    removable: bool


@dataclass(frozen=True, slots=True)
class InstantReport:
    """One instant."""

    time: str
    action: str
    state: str | None
    """None: it is decided, and not on the timeline yet."""
    completion_time: str | None
    decision: DecisionReport | None
    heartbeat: HeartbeatReport | None
    cancelled_by: str | None
    cancel_reason: str | None
    rolls_back: tuple[str, ...]
    rolled_back_by: tuple[str, ...]
    """Pending rollbacks of it."""
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimelineReport:
    """A table's timeline."""

    table: str
    version: int
    journal_entry: int
    """The last entry of the journal; 0: there is none."""
    lock: str | None
    """The lock that the table's workers use, as far as the journal knows."""
    journal_problem: str | None
    instants: tuple[InstantReport, ...]


def gather(table: Table, *, limit: int | None, only_pending: bool) -> TimelineReport:
    """Report the newest ``limit`` instants (None: all), or the pending ones among them."""
    bench = looking_bench(table)
    view, problem = _view(bench, table)
    rollbacks = _rollback_targets(bench, view)
    found = _instants(view)
    if only_pending:
        found = [one for one in found if _is_open(*one)]
    if limit is not None:
        found = found[len(found) - min(limit, len(found)) :]
    return TimelineReport(
        table=table.store.uri,
        version=table.config.version.value,
        journal_entry=view.fold.tail.seq,
        lock=view.fold.provider,
        journal_problem=problem,
        instants=tuple(_report(bench, view, rollbacks, *one) for one in found),
    )


def _view(bench: Workbench, table: Table) -> tuple[View, str | None]:
    """Return the table as it is; without the journal, and why, if that cannot be read."""
    for _ in range(_TRIES):
        try:
            return load_view(bench), None
        except Conflict:
            continue
        except (Corrupt, Invalid) as problem:
            return _without_journal(bench, table), str(problem)
    raise Conflict(f"{bench.store.uri}: the journal is trimmed faster than it can be read")


def _without_journal(bench: Workbench, table: Table) -> View:
    return View(
        config=bench.config,
        timeline=table.timeline(),
        names=frozenset(),
        fold=Fold(),
        now_ms=bench.store.now(),
        bench=bench,
    )


_Found = tuple[Instant | None, InstantRecord | None]


def _instants(view: View) -> list[_Found]:
    """Pair what is on the timeline with what was decided, in order of time."""
    found: list[tuple[str, _Found]] = []
    matched: set[str] = set()
    for instant in view.timeline.instants:
        record = view.fold.instants.get(instant.time)
        if record is not None and _is_about(record, instant):
            matched.add(instant.time)
        else:
            record = None
        found.append((instant.time, (instant, record)))
    for time, record in view.fold.instants.items():
        if time not in matched:
            found.append((time, (None, record)))
    found.sort(key=lambda one: one[0])
    return [one for _, one in found]


def _is_about(record: InstantRecord, instant: Instant) -> bool:
    """Whether a decision is about this instant, not about the savepoint of the same time."""
    if record.plan is None:
        return instant.action is not Action.SAVEPOINT
    return completed_action(record.plan.action) is completed_action(instant.action)


def _is_open(instant: Instant | None, record: InstantRecord | None) -> bool:
    if instant is not None and instant.is_pending:
        return True
    return record is not None and record.standing not in ENDED


@dataclass(frozen=True, slots=True)
class _Rollbacks:
    targets: Mapping[str, tuple[str, ...]]
    problems: Mapping[str, str]

    def of(self, time: str) -> tuple[str, ...]:
        return tuple(one for one, targets in self.targets.items() if time in targets)


def _rollback_targets(bench: Workbench, view: View) -> _Rollbacks:
    """Read what the pending rollbacks and restores are about: few, each from its own plan."""
    targets: dict[str, tuple[str, ...]] = {}
    problems: dict[str, str] = {}
    for instant in view.timeline.pending:
        if instant.action not in (Action.ROLLBACK, Action.RESTORE):
            continue
        plan = view.fold.record(instant.time).plan
        try:
            if plan is not None and plan.target is not None:
                targets[instant.time] = (plan.target.time,)
            else:
                targets[instant.time] = traces.targets_of(bench, view, instant)
        except (Corrupt, Invalid) as problem:
            problems[instant.time] = str(problem)
    return _Rollbacks(targets, problems)


def _report(
    bench: Workbench,
    view: View,
    rollbacks: _Rollbacks,
    instant: Instant | None,
    record: InstantRecord | None,
) -> InstantReport:
    time = record.time if instant is None and record is not None else _time(instant)
    problems = [rollbacks.problems[time]] if time in rollbacks.problems else []
    beat: HeartbeatReport | None = None
    cancelled: tuple[str | None, str | None] = (None, None)
    try:
        if _is_open(instant, record):
            beat = _heartbeat(bench, view, record or view.fold.record(time))
        cancelled = _cancelled(bench, view, instant, record)
    except (Corrupt, Invalid) as problem:
        problems.append(str(problem))
    return InstantReport(
        time=time,
        action=_action(instant, record),
        state=None if instant is None else instant.state.value,
        completion_time=None if instant is None else instant.completion_time,
        decision=None if record is None else _decision(instant, record),
        heartbeat=beat,
        cancelled_by=cancelled[0],
        cancel_reason=cancelled[1],
        rolls_back=rollbacks.targets.get(time, ()),
        rolled_back_by=rollbacks.of(time),
        problems=tuple(problems),
    )


def _time(instant: Instant | None) -> str:
    return "" if instant is None else instant.time


def _action(instant: Instant | None, record: InstantRecord | None) -> str:
    if instant is not None:
        return instant.action.value
    return "unknown" if record is None or record.plan is None else record.plan.action.value


def _heartbeat(bench: Workbench, view: View, record: InstantRecord) -> HeartbeatReport | None:
    beat = heartbeats.read_beat(bench.store, record.beat)
    if beat is None:
        return None
    live = heartbeats.live_beat(bench, record, now_ms=view.now_ms) is not None
    age_s = round(max(0.0, (view.now_ms - beat.modified_ms) / 1000), 1)
    return HeartbeatReport(beat.owner, beat.epoch, age_s, live)


def _decision(instant: Instant | None, record: InstantRecord) -> DecisionReport:
    claim = record.claim
    return DecisionReport(
        standing=record.standing.value,
        entry=record.since,
        to_be_published=_is_to_be_published(instant, record.standing),
        epoch=record.epoch,
        owner=None if claim is None else claim.owner,
        purpose=None if claim is None else claim.purpose.value,
        cancellable=record.plan is not None and record.plan.cancellable,
        removable=record.removable,
    )


def _is_to_be_published(instant: Instant | None, standing: Standing) -> bool:
    match standing:
        case Standing.REQUESTED:
            return instant is None
        case Standing.COMMITTED:
            return instant is None or not instant.is_completed
        case Standing.ABORTED:
            return instant is None or instant.state is not State.ABORTED
        case Standing.REMOVED:
            return instant is not None
        case _:
            return False


def _cancelled(
    bench: Workbench, view: View, instant: Instant | None, record: InstantRecord | None
) -> tuple[str | None, str | None]:
    """Return who cancelled an instant and why: from the journal, or from its aborted file."""
    if record is not None and record.cancel is not None:
        return record.cancel.by, record.cancel.reason
    if instant is None or instant.state is not State.ABORTED:
        return None, None
    path = instant_path(view.config, instant)
    try:
        said = json.loads(bench.store.get(path).content or b"{}")
        return str(said.get("by", "")) or None, str(said.get("reason", "")) or None
    except NotFound:  # archived meanwhile
        return None, None
    except (ValueError, AttributeError, RecursionError) as error:
        raise Corrupt("its reason cannot be read", where=f"{bench.store.uri}/{path}") from error
