"""Workers of the simulator: production recipes over an actor's ports, and data of a few rows.

A data file holds names of rows. Ingestion appends a log file with one row of its own; compaction,
log compaction and clustering write what the slices hold that their plan names. So whatever a
protocol error loses, a reader misses a row, and the checkers need to know nothing else.
An actor returns an ``Act``: what it did to which instant, and how that ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import kernel_tables
from lakehand.core.instants import Action, Instant, State
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import Conflict, LakehandError, PlanCancelled
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.formats.plans import clustering, compaction
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    planning,
    rolling_back,
    writing,
)
from lakehand.protocol.heartbeats import Heartbeat
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import load_view
from lakehand.protocol.workbench import ProtocolSettings, Workbench
from sim_actors_data import (
    PARTITION,
    config,
    current_groups,
    instant_of,
    metadata_of,
    plan_document,
    rows_in,
    stage_rows,
    stat_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.journal import InstantRecord
    from lakehand.core.journal_entries import StagedFile
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.transaction import View
    from sim_ports import ActorPorts

OPERATIONS = {
    Action.COMPACTION: WriteOperation.COMPACT,
    Action.LOG_COMPACTION: WriteOperation.LOG_COMPACT,
    Action.CLUSTERING: WriteOperation.CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Act:
    """What an actor did. ``end`` is ``completed``, ``already``, ... or the kind of its error."""

    what: str
    time: str
    end: str
    rows: tuple[str, ...] = ()


def worker(
    ports: ActorPorts,
    *,
    name: str | None = None,
    version: TableVersion = TableVersion.NINE,
    **settings: object,
) -> Workbench:
    """Return the workbench of an actor."""
    return Workbench(
        store=ports.store,
        locks=ports.locks,
        clock=ports.clock,
        background=ports.background,
        new_id=ports.new_id,
        worker=name or ports.name,
        config=config(version),
        settings=ProtocolSettings(**{"lock_timeout_s": 60.0, **settings}),
    )


def tried(what: str, time: str, action: Callable[[], str], rows: tuple[str, ...] = ()) -> Act:
    """Do something to an instant, and say how it ended."""
    try:
        return Act(what, time, action(), rows)
    except LakehandError as error:
        return Act(what, time, type(error).__name__, rows)


# -- ingestion


def begin_ingestion(bench: Workbench, groups: tuple[str, ...]) -> Attempt:
    """Request an ingestion write and show its groups."""
    attempt = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(attempt, claiming.Attempt)
    kernel_tables.show_groups(bench, attempt, groups)
    return attempt


def finish_ingestion(bench: Workbench, attempt: Attempt, row: str) -> Instant:
    """Append one row to each group of the write, and commit."""
    groups = tuple(group for _, group in attempt.groups)
    files = tuple(stage_rows(bench, attempt, group, frozenset({row}), log=True) for group in groups)
    manifest = committing.prepare(bench, attempt, files)
    committing.promote_outputs(bench, attempt, manifest)
    content = metadata_of(tuple(file.final for file in files), WriteOperation.UPSERT)
    return committing.commit(bench, attempt, lambda _time: content)


def ingest(bench: Workbench, *groups: str, row: str) -> Act:
    """Write one row into each group. A refused write leaves its files to a rollback."""
    try:
        attempt = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
    except LakehandError as error:
        return Act("ingest", "", type(error).__name__, (row,))
    assert isinstance(attempt, claiming.Attempt)

    def write() -> str:
        try:
            kernel_tables.show_groups(bench, attempt, current_groups(bench.store, groups))
            finish_ingestion(bench, attempt, row)
        except LakehandError:
            attempt.heartbeat.remove()
            raise
        return "completed"

    return tried("ingest", attempt.time, write, (row,))


# -- services


def plan(
    bench: Workbench,
    action: Action,
    *groups: str,
    removable: bool = False,
    cancellable: bool = False,
) -> str:
    """Schedule a service over the groups' latest slices, planned before the lock."""
    view = load_view(bench)
    known, seen = view.known_until, view.timeline.committed_times
    inputs = {
        group: tuple(
            info.path
            for info in sorted(bench.store.walk(PARTITION))
            if stat_of(info.path).file_id == group and instant_of(info.path) in seen
        )
        for group in groups
    }

    def still_valid(now: View) -> None:
        taken = {key for one in now.fold.open if is_service(one) for key in one.groups or ()}
        if taken & {(PARTITION, group) for group in groups}:
            raise Conflict(f"{', '.join(groups)}: another instant is about to change them")
        if now.known_until != known:
            raise Conflict(f"{now.known_until} completed while the plan was made; plan again")

    request = PlanRequest(
        action=action,
        content=partial(plan_document, action, inputs),
        groups=tuple((PARTITION, group) for group in groups),
        removable=removable,
        cancellable=cancellable,
        still_valid=still_valid,
    )
    return planning.schedule(bench, request)


def is_service(record: InstantRecord) -> bool:
    """Whether an instant is a plan to rewrite data."""
    return record.plan is not None and record.plan.action in OPERATIONS


def inputs_of(bench: Workbench, action: Action, time: str) -> dict[str, tuple[str, ...]]:
    """Read from a plan which files it rewrites."""
    path = instant_path(bench.config, Instant(time, action, State.REQUESTED))
    content = bench.store.get(path).content
    if action is Action.CLUSTERING:
        made = clustering.decode(content, where=path).clustering_plan
        groups = made.input_groups if made is not None else ()
        slices = [one for group in groups or () for one in group.slices or ()]
        return {one.file_id: one.delta_file_paths or () for one in slices}
    operations = compaction.decode(content, where=path).operations or ()
    return {one.file_id: one.delta_file_paths or () for one in operations}


def run_service(bench: Workbench, attempt: Attempt) -> Instant:
    """Rewrite what the plan names, and commit."""
    attempt.heartbeat.check()
    files, replaced = stage_service(bench, attempt)
    manifest = committing.prepare(bench, attempt, files)
    committing.promote_outputs(bench, attempt, manifest)
    content = metadata_of(
        tuple(file.final for file in files), OPERATIONS[attempt.action], replaced=replaced
    )
    return committing.commit(bench, attempt, lambda _time: content)


def stage_service(
    bench: Workbench, attempt: Attempt
) -> tuple[tuple[StagedFile, ...], tuple[str, ...] | None]:
    """Stage the outputs of a service; also return the groups that it replaces."""
    is_clustering = attempt.action is Action.CLUSTERING
    files, replaced = [], []
    for group, paths in inputs_of(bench, attempt.action, attempt.time).items():
        read = (rows_in(bench.store.get(path).content) for path in paths)
        rows: frozenset[str] = frozenset().union(*read)
        output = f"{group}c" if is_clustering else group
        log = attempt.action is Action.LOG_COMPACTION
        files.append(stage_rows(bench, attempt, output, rows, log=log))
        replaced.append(group)
    return tuple(files), tuple(replaced) if is_clustering else None


def execute(bench: Workbench, time: str) -> Act:
    """Execute a plan as ``compact()`` does; a cancelled one is aborted instead."""

    def run() -> str:
        try:
            attempt = claiming.claim(bench, time)
        except PlanCancelled:
            cancelling.execute_cancel(bench, time)
            raise
        if isinstance(attempt, claiming.AlreadyCompleted):
            return "already"
        return run_attempt(bench, attempt)

    return tried("execute", time, run)


def run_attempt(bench: Workbench, attempt: Attempt) -> str:
    """Work and commit; on a failure leave the plan to others."""
    try:
        run_service(bench, attempt)
    except PlanCancelled:
        return abort_own(bench, attempt)
    except LakehandError:
        attempt.heartbeat.remove()
        raise
    return "completed"


def abort_own(bench: Workbench, attempt: Attempt) -> str:
    """Finish the cancellation of one's own plan, with one's own heartbeat."""
    try:
        cancelling.execute_cancel(bench, attempt.time, own=attempt.heartbeat)
    finally:
        attempt.heartbeat.remove()
    return "PlanCancelled"


def resumed(bench: Workbench, attempt: Attempt) -> Attempt:
    """Return an attempt that another process of the same worker began."""
    heartbeat = Heartbeat(bench, attempt.time, attempt.epoch)
    return replace(attempt, heartbeat=heartbeat)


# -- whole actors


def executor(time: Callable[[], str], **settings: object) -> Callable[[ActorPorts], Act]:
    """Return an actor that executes a plan."""
    return lambda ports: execute(worker(ports, **settings), time())


def ingester(*groups: str, **settings: object) -> Callable[[ActorPorts], Act]:
    """Return an actor that writes one row, which bears its name."""
    return lambda ports: ingest(worker(ports, **settings), *groups, row=ports.name)


def canceller(time: Callable[[], str], **settings: object) -> Callable[[ActorPorts], Act]:
    """Return an actor that asks for a plan's cancellation and leaves the rest to others."""

    def act(ports: ActorPorts) -> Act:
        bench = worker(ports, **settings)

        def ask() -> str:
            cancelling.request_cancel(bench, time(), reason="a test asked for it")
            return "cancelled"

        return tried("cancel", time(), ask)

    return act


def aborter(time: Callable[[], str], **settings: object) -> Callable[[ActorPorts], Act]:
    """Return an actor that takes a cancelled plan to its end."""

    def act(ports: ActorPorts) -> Act:
        bench = worker(ports, **settings)

        def abort() -> str:
            cancelling.execute_cancel(bench, time())
            return "aborted"

        return tried("abort", time(), abort)

    return act


def roller(time: Callable[[], str], **settings: object) -> Callable[[ActorPorts], Act]:
    """Return an actor that rolls an instant back."""

    def act(ports: ActorPorts) -> Act:
        bench = worker(ports, **settings)

        def roll() -> str:
            rollback = rolling_back.schedule_rollback(bench, time())
            return rolling_back.execute_rollback(bench, rollback).value

        return tried("roll back", time(), roll)

    return act


def clean(ports: ActorPorts, **settings: object) -> tuple[str, ...]:
    """One cycle of clean; returns the instants that it left to the next one."""
    done = failed_writes.clean_up(worker(ports, **settings))
    return tuple(f"{time}: {why}" for time, why in sorted(done.left.items()))


def cleaner(**settings: object) -> Callable[[ActorPorts], tuple[str, ...]]:
    """Return an actor that runs one cycle of clean."""
    return partial(clean, **settings)


def finish_plans(ports: ActorPorts, **settings: object) -> tuple[Act, ...]:
    """Execute every plan that is still pending: the immutable ones must complete."""
    bench = worker(ports, **settings)
    view = load_view(bench)
    plans = [one.time for one in view.timeline.pending if one.action in OPERATIONS]
    return tuple(execute(bench, time) for time in plans)
