"""What Apache Hudi's writers leave on a timeline, written by hand: empty heartbeats, inflight
files, completed files, rollbacks. They know no journal, and here they look at no lock either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State, completed_action, format_instant_time
from lakehand.formats import commit_metadata, instant_names
from lakehand.formats.commit_metadata import CommitMetadata, WriteStat
from lakehand.formats.plans import rollback
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from kernel_scripts import Scene

JAVA_TOKEN = "3-17-42"
"""A write token as Java makes them: task, stage, attempt."""


class Java:
    """A writer of Apache Hudi at a scene's table."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._store = scene.store
        self._config = scene.kernel.config
        self._number = 0

    def time(self, *, ago_s: float = 0.0) -> str:
        """A time of its own: never one of ours, whose milliseconds differ."""
        self._number += 1
        return format_instant_time(self._scene.clock.ms - int(ago_s * 1000) + 500 + self._number)

    def put(self, instant: Instant, content: bytes = b"") -> None:
        name = instant_names.file_name(instant, self._config.layout)
        path = f"{self._config.timeline_path}/{name}"
        assert self._store.put_new(path, content) is PutOutcome.WRITTEN

    def state(self, time: str, action: Action, state: State, content: bytes = b"") -> None:
        self.put(Instant(time, action, state), content)

    def beat(self, time: str) -> None:
        self._store.put(f".hoodie/.heartbeat/{time}", b"")

    def base_file(self, time: str, group: str) -> str:
        path = f"p/{group}_{JAVA_TOKEN}_{time}.parquet"
        self._store.put(path, b"Java's")
        return path

    def log_file(self, time: str, group: str, *, version: int = 1) -> str:
        path = f"p/.{group}_{time}.log.{version}_{JAVA_TOKEN}"
        self._store.put(path, b"Java's")
        return path

    def marker(self, time: str, path: str, kind: str) -> None:
        """A direct marker: an empty file."""
        self._store.put(f".hoodie/.temp/{time}/{path}.marker.{kind}", b"")

    def marker_list(self, time: str, number: int, *lines: str) -> None:
        """A list of the timeline server."""
        folder = f".hoodie/.temp/{time}"
        self._store.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
        self._store.put(
            f"{folder}/MARKERS{number}", "".join(f"{line}\n" for line in lines).encode()
        )

    def metadata(self, *paths: str, operation: str = "UPSERT") -> bytes:
        stats = tuple(
            WriteStat(
                file_id=path.rpartition("/")[2].lstrip(".").partition("_")[0],
                path=path,
                partition_path="p",
            )
            for path in paths
        )
        value = CommitMetadata(partition_to_write_stats={"p": stats}, operation_type=operation)
        return commit_metadata.encode(value, version=int(self._config.version))

    def begin(self, *groups: str, action: Action = Action.DELTA_COMMIT, live: bool = True) -> str:
        """A write up to its inflight file, with the workload profile that Java keeps in it."""
        time = self.time()
        if live:
            self.beat(time)
        self.state(time, action, State.REQUESTED)
        stats = (WriteStat(file_id=""), *(WriteStat(file_id=group) for group in groups))
        value = CommitMetadata(partition_to_write_stats={"p": stats}, operation_type="UPSERT")
        content = commit_metadata.encode(value, version=int(self._config.version))
        self.state(time, action, State.INFLIGHT, content)
        return time

    def complete(self, time: str, action: Action, content: bytes) -> None:
        """Publish a completed file, of its own instant or of one of ours."""
        completion = self.time() if self._config.layout == 2 else None
        self.put(Instant(time, completed_action(action), State.COMPLETED, completion), content)

    def write(self, *groups: str) -> str:
        """A whole write, from its heartbeat to its completed file."""
        time = self.begin(*groups)
        files = [self.base_file(time, group) for group in groups]
        self.complete(time, Action.DELTA_COMMIT, self.metadata(*files))
        self._store.delete(f".hoodie/.heartbeat/{time}")
        return time

    def plan_rollback(self, target: str, action: Action, *paths: str) -> str:
        """The requested file of a rollback."""
        time = self.time()
        requests = tuple(
            rollback.RollbackRequest(
                partition_path="p",
                latest_base_instant=target,
                files_to_be_deleted=(f"{self._store.uri}/{path}",),
                log_blocks_to_be_deleted={},
            )
            for path in paths
        )
        info = rollback.InstantInfo(commit_time=target, action=action.value)
        plan = rollback.RollbackPlan(instant_to_rollback=info, rollback_requests=requests)
        self.state(time, Action.ROLLBACK, State.REQUESTED, rollback.encode_plan(plan))
        return time

    def roll_back(self, target: str, action: Action) -> str:
        """A whole rollback: files that bear the target's time, its pending files, its markers."""
        time = self.plan_rollback(target, action)
        self.state(time, Action.ROLLBACK, State.INFLIGHT)
        for info in list(self._store.walk("p")):
            if target in info.path:
                self._store.delete(info.path)
        metadata = rollback.RollbackMetadata(
            start_rollback_time=time,
            time_taken_in_millis=3,
            total_files_deleted=0,
            commits_rollback=(target,),
            partition_metadata={},
            instants_rollback=(rollback.InstantInfo(commit_time=target, action=action.value),),
        )
        self.remove(target)
        self.complete(time, Action.ROLLBACK, rollback.encode_metadata(metadata))
        return time

    def remove(self, time: str) -> None:
        """Remove an instant's pending files, markers and heartbeat."""
        folder = self._config.timeline_path
        for name in self._store.names(folder):
            if name.startswith(f"{time}.") and name.endswith((".inflight", ".requested")):
                self._store.delete(f"{folder}/{name}")
        for info in list(self._store.walk(f".hoodie/.temp/{time}")):
            self._store.delete(info.path)
        self._store.delete(f".hoodie/.heartbeat/{time}")
