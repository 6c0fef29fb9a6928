"""A writer like Apache Hudi's, beside ours: the same lock and heartbeats, and nothing else of ours.

It knows no journal, promotes nothing and stages nothing: requested, inflight, data and completed
files are plain puts. Under the lock it looks for conflicts on the timeline. It rolls back failed
ingestion whose heartbeat has expired, deleting what markers name; it archives old instants; and it
executes a compaction plan of ours, if it is let.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State, format_instant_time, parse_instant_time
from lakehand.core.markers import parse
from lakehand.errors import NotFound, WriteConflict
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.formats.lsm_timeline import HistoryEntry
from lakehand.formats.plans import rollback
from lakehand.protocol import lsm_timeline
from lakehand.protocol.timeline_loader import instant_path, load_timeline
from sim_actors import Act, tried
from sim_actors_data import PARTITION, config, current_groups, metadata_of, rows_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.timeline import Timeline
    from lakehand.ports import HeldLock
    from sim_ports import ActorPorts

HEARTBEATS = ".hoodie/.heartbeat"
TEMP = ".hoodie/.temp"
TOLERANCE_MS = 120_000
TOKEN = "0-7-0"


class HeartbeatExpiredError(WriteConflict):
    """What Hudi raises at a commit whose heartbeat is too old."""


@dataclass(frozen=True)
class Java:
    """One foreign process."""

    ports: ActorPorts
    prefers_writers: bool = False
    """Hudi's strategy that lets ingestion go before a pending clustering."""

    # -- the timeline

    def timeline(self) -> Timeline:
        """Reload the timeline."""
        return load_timeline(self.ports.store, config())

    def lock(self) -> HeldLock:
        """Take the lock that our workers use too."""
        return self.ports.locks.acquire(self.ports.name, timeout_s=60)

    def next_time(self, timeline: Timeline) -> str:
        """Return a time later than all on the timeline."""
        now, last = self.ports.store.now(), timeline.latest_time
        return format_instant_time(max(now, parse_instant_time(last) + 1 if last else now))

    def put(self, instant: Instant, content: bytes = b"") -> None:
        """Write a file of the timeline, over whatever is there."""
        self.ports.store.put(instant_path(config(), instant), content)

    def drop(self, instant: Instant) -> None:
        """Delete a file of the timeline."""
        self.ports.store.delete(instant_path(config(), instant))

    # -- heartbeats

    def beat(self, time: str) -> None:
        """Write a heartbeat as Hudi does: an empty file, its age counts."""
        self.ports.store.put(f"{HEARTBEATS}/{time}", b"")

    def is_expired(self, time: str) -> bool:
        """Whether a heartbeat is missing or old."""
        found = self.ports.store.head(f"{HEARTBEATS}/{time}")
        return found is None or self.ports.store.now() - found.modified_ms > TOLERANCE_MS

    # -- data files

    def mark_and_write(self, time: str, path: str, kind: str, content: bytes) -> None:
        """Write a direct marker, which is empty, and then the file under its final name."""
        self.ports.store.put(f"{TEMP}/{time}/{path}.marker.{kind}", b"")
        self.ports.store.put(path, content)

    def marked(self, time: str) -> list[str]:
        """Return the data files that an instant's markers name."""
        folder = f"{TEMP}/{time}"
        found = (parse(one.path[len(folder) + 1 :]) for one in self.ports.store.walk(folder))
        return sorted(one.path for one in found if one is not None)

    def forget(self, time: str) -> None:
        """Delete an instant's markers and heartbeat."""
        for info in self.ports.store.walk(f"{TEMP}/{time}"):
            self.ports.store.delete(info.path)
        self.ports.store.delete(f"{HEARTBEATS}/{time}")

    # -- conflicts

    def require_no_conflict(
        self, now: Timeline, time: str, group: str, seen: frozenset[str]
    ) -> None:
        """Look for completed writes of the group that were not there when the write began."""
        for instant in now.completed_writes:
            if instant.time not in seen and group in self._groups(instant):
                raise WriteConflict(f"{time} conflicts with {instant.time}")
        for instant in now.pending:
            if instant.action is Action.CLUSTERING and not self.prefers_writers:
                raise WriteConflict(f"{time} conflicts with the pending clustering {instant.time}")

    def _groups(self, instant: Instant) -> frozenset[str]:
        content = self.ports.store.get(instant_path(config(), instant)).content
        metadata = commit_metadata.decode(content, where=instant.time)
        stats = metadata.partition_to_write_stats.values()
        written = {one.file_id or "" for many in stats for one in many}
        replaced = (metadata.partition_to_replace_file_ids or {}).get(PARTITION, ())
        return frozenset({*written, *replaced})


def foreign_ingest(
    ports: ActorPorts, *, group: str, row: str, prefers_writers: bool = False
) -> Act:
    """Write one row as a Spark writer with optimistic concurrency control does."""
    java = Java(ports, prefers_writers)
    held = java.lock()
    try:
        timeline = java.timeline()
        time = java.next_time(timeline)
        java.beat(time)
        java.put(Instant(time, Action.DELTA_COMMIT, State.REQUESTED))
    finally:
        held.release()
    seen = timeline.committed_times

    def write() -> str:
        current = current_groups(ports.store, (group,))[0]
        path = f"{PARTITION}/.{current}_{time}.log.1_{TOKEN}"
        content = metadata_of((path,), WriteOperation.UPSERT)
        java.put(Instant(time, Action.DELTA_COMMIT, State.INFLIGHT), content)
        java.mark_and_write(time, path, "APPEND", row.encode())
        _complete(java, time, current, seen, content)
        java.forget(time)
        return "completed"

    return tried("ingest", time, write, (row,))


def _complete(java: Java, time: str, group: str, seen: frozenset[str], content: bytes) -> None:
    held = java.lock()
    try:
        now = java.timeline()
        if java.is_expired(time):
            raise HeartbeatExpiredError(f"the heartbeat of {time} expired")
        java.require_no_conflict(now, time, group, seen)
        completion = java.next_time(now)
        java.put(Instant(time, Action.DELTA_COMMIT, State.COMPLETED, completion), content)
    finally:
        held.release()


def foreign_clean(ports: ActorPorts) -> tuple[str, ...]:
    """Roll back failed ingestion, as Hudi's lazy policy does."""
    java = Java(ports)
    held = java.lock()
    try:
        planned = [_plan_rollback(java, one) for one in _failed(java)]
    finally:
        held.release()
    for target, time in planned:
        _execute_rollback(java, target, time)
    return tuple(target.time for target, _ in planned)


def _failed(java: Java) -> Iterator[Instant]:
    ingestion = (Action.COMMIT, Action.DELTA_COMMIT)
    for instant in java.timeline().pending:
        if instant.action in ingestion and java.is_expired(instant.time):
            yield instant


def _plan_rollback(java: Java, target: Instant) -> tuple[Instant, str]:
    time = java.next_time(java.timeline())
    info = rollback.InstantInfo(commit_time=target.time, action=target.action.value)
    plan = rollback.encode_plan(
        rollback.RollbackPlan(instant_to_rollback=info, rollback_requests=())
    )
    java.put(Instant(time, Action.ROLLBACK, State.REQUESTED), plan)
    return target, time


def _execute_rollback(java: Java, target: Instant, time: str) -> None:
    java.put(Instant(time, Action.ROLLBACK, State.INFLIGHT))
    for path in java.marked(target.time):
        java.ports.store.delete(path)
    held = java.lock()
    try:
        completion = java.next_time(java.timeline())
        done = rollback.encode_metadata(
            rollback.RollbackMetadata(
                start_rollback_time=time,
                time_taken_in_millis=0,
                total_files_deleted=0,
                commits_rollback=(target.time,),
                partition_metadata={},
            )
        )
        java.put(Instant(time, Action.ROLLBACK, State.COMPLETED, completion), done)
        java.drop(Instant(target.time, target.action, State.INFLIGHT))
        java.drop(Instant(target.time, target.action, State.REQUESTED))
    finally:
        held.release()
    java.forget(target.time)


def foreign_archive(ports: ActorPorts, *, keep: int = 1) -> tuple[str, ...]:
    """Move all but the last completed writes, before the first pending one, into the history."""
    java = Java(ports)
    held = java.lock()
    try:
        old = java.timeline().contiguous_completed_writes[:-keep]
        entries = [_history_entry(java, one) for one in old]
        folder = config().history_path
        lsm_timeline.append(ports.store, folder, entries, area=f"{TEMP}/archive/.staging/0")
        for instant in old:  # what is pending goes first: else it would look like a failed write
            java.drop(Instant(instant.time, instant.action, State.REQUESTED))
            java.drop(Instant(instant.time, instant.action, State.INFLIGHT))
        for instant in old:
            java.drop(instant)
    finally:
        held.release()
    return tuple(one.time for one in old)


def _history_entry(java: Java, instant: Instant) -> HistoryEntry:
    content = java.ports.store.get(instant_path(config(), instant)).content
    return HistoryEntry(instant.time, instant.completion_time, instant.action, content, None)


def foreign_compaction(time: Callable[[], str], ports: ActorPorts, *, group: str) -> Act:
    """Execute our compaction plan, which no table of ours should let Java do."""
    java = Java(ports)

    def run() -> str:
        timeline = java.timeline()
        shown = timeline.find(time())
        if shown is None or not shown.is_pending:
            return "nothing to do"
        java.put(Instant(time(), Action.COMPACTION, State.INFLIGHT))
        rows = _rows_before(java, timeline, time(), group)
        path = f"{PARTITION}/{group}_{TOKEN}_{time()}.parquet"
        java.mark_and_write(time(), path, "CREATE", ",".join(sorted(rows)).encode())
        held = java.lock()
        try:
            completion = java.next_time(java.timeline())
            content = metadata_of((path,), WriteOperation.COMPACT)
            java.put(Instant(time(), Action.COMMIT, State.COMPLETED, completion), content)
        finally:
            held.release()
        java.forget(time())
        return "completed"

    return tried("execute", time(), run)


def _rows_before(java: Java, timeline: Timeline, time: str, group: str) -> frozenset[str]:
    rows: frozenset[str] = frozenset()
    for info in java.ports.store.walk(PARTITION):
        name = info.path.rpartition("/")[2]
        written = name.partition("_")[2].partition(".log.")[0]
        if name.startswith(f".{group}_") and written < time and timeline.is_committed(written):
            try:
                rows |= rows_in(java.ports.store.get(info.path).content)
            except NotFound:
                continue
    return rows
