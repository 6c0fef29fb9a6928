"""One try of a write after the other: request, work, commit; and the documents that tell of it.

A conflict ends a try. The rows are still held, so the next one begins at the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import Conflict, WriteConflict
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from lakehand.formats.plans import clustering
from lakehand.protocol import executing, writing
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.protocol.writing import AlreadyWritten
from lakehand.write import ground as grounds
from lakehand.write.job import REPLACING, WriteResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.instants import Instant
    from lakehand.protocol.claiming import Attempt
    from lakehand.write.job import Job, Work


def try_until_committed(job: Job, work: Callable[[Attempt], Work], tries: int) -> WriteResult:
    """Request, do the work and commit; again from the request if another write was first."""
    while True:
        outcome = _Outcome(job, work)
        try:
            begun = writing.begin_write(job.bench, _request(job))
            if isinstance(begun, AlreadyWritten):
                return _written_before(job, begun.time)
            return outcome.result(executing.run_attempt(job.bench, begun, outcome.output))
        except WriteConflict:
            if not tries:
                raise
            tries -= 1


def _request(job: Job) -> PlanRequest:
    if job.operation in REPLACING:
        content = clustering.encode(clustering.RequestedReplace())
        return PlanRequest(action=job.action, content=lambda _extra: content, run=job.options.run)
    return PlanRequest(action=job.action, run=job.options.run)


def _written_before(job: Job, time: str) -> WriteResult:
    """Answer for a batch that is known: done, or being done by another worker at this moment."""
    for instant in load_timeline(job.bench.store, job.bench.config).completed:
        if instant.time == time:
            return WriteResult(
                time=time, completion_time=instant.completion_time, was_written_before=True
            )
    raise Conflict(
        f"batch {job.options.run} is being written as {time} by another worker, or by one that "
        "died: try again when its heartbeat has expired"
    )


@dataclass(slots=True)
class _Outcome:
    """The work of one try, kept for the result."""

    job: Job
    work: Callable[[Attempt], Work]
    made: Work | None = None

    def output(self, attempt: Attempt) -> executing.Output:
        """Do the work and return what is to be committed."""
        made = self.made = self.work(attempt)
        return executing.Output(
            tuple(one.staged for one in made.files),
            lambda _completion: metadata_of(self.job, made),
        )

    def result(self, instant: Instant) -> WriteResult:
        """Say what was done."""
        stats = [one.stat for one in self.made.files] if self.made is not None else []
        return WriteResult(
            time=instant.time,
            completion_time=instant.completion_time,
            inserts=sum(one.num_inserts for one in stats),
            updates=sum(one.num_update_writes for one in stats),
            deletes=sum(one.num_deletes for one in stats),
            files=len(stats),
            bytes=sum(one.total_write_bytes for one in stats),
        )


# -- documents ----------------------------------------------------------------------------------


def show(job: Job, attempt: Attempt, made: Work) -> None:
    """Put the file groups that the write is about into its inflight file."""
    replaced = made.replaced or {}
    groups = {(name, one) for name, ids in replaced.items() for one in ids}
    if made.routing is not None:
        groups.update(made.routing.touched)
    profile = CommitMetadata(
        partition_to_write_stats=made.routing.workload() if made.routing is not None else {},
        operation_type=job.operation.value,
        partition_to_replace_file_ids=made.replaced,
    )
    content = commit_metadata.encode(profile, version=job.version)
    writing.begin_data(job.bench, attempt, groups=tuple(sorted(groups)), content=content)


def metadata_of(job: Job, made: Work) -> bytes:
    """Return the completed file."""
    by_partition: dict[str, list[WriteStat]] = {}
    for file in made.files:
        by_partition.setdefault(file.stat.partition_path or "", []).append(file.stat)
    metadata = CommitMetadata(
        partition_to_write_stats={
            name: tuple(stats) for name, stats in sorted(by_partition.items())
        },
        extra_metadata={**job.options.extra_metadata, SCHEMA_KEY: _schema_to_declare(job, made)},
        operation_type=job.operation.value,
        partition_to_replace_file_ids=made.replaced,
    )
    return commit_metadata.encode(metadata, version=job.version)


def _schema_to_declare(job: Job, made: Work) -> str:
    """Return the schema that the table has from this commit on. It is asked under the lock.

    Every reader takes the schema of the newest write by *requested* time. So a write that changes
    it must be that one; and a write that changes nothing must not take back what another one, which
    completed meanwhile, has changed.
    """
    if made.changes_schema:
        later = load_timeline(job.bench.store, job.bench.config).completed_writes[-1:]
        if later and later[0].time > made.context.time:
            raise WriteConflict(
                f"{made.context.time} changes the table's schema, but {later[0].time}, which was "
                "requested later, completed first: readers would not see the change; do the whole "
                "write again"
            )
        return made.schema_text
    return grounds.known_schema(job.bench).text or made.schema_text
