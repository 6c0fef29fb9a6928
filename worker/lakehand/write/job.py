"""One write, from rows to a completed instant.

::

    before   failed writes of others are cleaned up; the schema is reconciled; rows are prepared
             and held (a bulk insert writes them in one pass instead)
    request  begin_write: from here on a heartbeat beats
    ground   the table as it is now; keys are located; every row gets its target
    shown    begin_data: the inflight file names the groups; first look for conflicts
    written  tasks stage files; what they answer is collected once
    decided  prepare, promote, commit: all or nothing

A conflict ends one such run. The rows are still held, so the next try begins at the request. When
the table's schema has changed meanwhile, or nothing was held, it begins at the rows, if they can be
read again.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehand.core.file_sizing import average_row_bytes
from lakehand.core.instants import Action
from lakehand.core.key_generators import KeyGenerator, SingleFieldEncoding, single_field_encoding
from lakehand.core.table_kinds import TableType
from lakehand.errors import Conflict, Invalid, Unsupported, WriteConflict
from lakehand.formats import avro_schema, base_file, commit_metadata
from lakehand.formats.commit_metadata import (
    SCHEMA_KEY,
    CommitMetadata,
    WriteOperation,
    WriteStat,
)
from lakehand.formats.plans import clustering
from lakehand.protocol import executing, failed_writes, heartbeats, writing
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.staging import TEMP
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.protocol.writing import AlreadyWritten
from lakehand.read.data_path import data_path
from lakehand.write import ground as grounds
from lakehand.write import index, tasks
from lakehand.write.incoming import Prepare
from lakehand.write.option_table import SortMode
from lakehand.write.routing import Routing, Sizing, Targets, route_by_key, route_by_partition
from lakehand.write.schema_change import reconcile
from lakehand.write.shapes import WriteContext, WrittenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from lakehand.core.instants import Instant
    from lakehand.engine.engine import Engine, Held
    from lakehand.ports import Store
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench
    from lakehand.write.ground import Ground, KnownSchema
    from lakehand.write.options import WriteOptions

_log = logging.getLogger(__name__)

REPLACING = frozenset(
    {
        WriteOperation.INSERT_OVERWRITE,
        WriteOperation.INSERT_OVERWRITE_TABLE,
        WriteOperation.DELETE_PARTITION,
    }
)


class SchemaMoved(Conflict):
    """The schema that the rows were prepared for is not the table's any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did."""

    time: str
    """Its instant."""
    completion_time: str | None
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    files: int = 0
    bytes: int = 0
    was_written_before: bool = False
    """The batch of this application had been written by that instant: nothing was done now."""


@dataclass(frozen=True, slots=True)
class Job:
    """One write and where it is done."""

    bench: Workbench
    engine: Engine
    opened: Callable[[], Store]
    options: WriteOptions
    operation: WriteOperation

    @property
    def action(self) -> Action:
        """What the write is on the timeline."""
        if self.operation in REPLACING:
            return Action.REPLACE_COMMIT
        is_merge_on_read = self.bench.config.table_type is TableType.MERGE_ON_READ
        return Action.DELTA_COMMIT if is_merge_on_read else Action.COMMIT

    @property
    def tasks(self) -> int | None:
        """Into how many tasks to divide the work; None: as the engine sees fit."""
        return self.options.parallelism.get(self.operation)

    @property
    def version(self) -> int:
        """The table's version."""
        return int(self.bench.config.version)


@dataclass(slots=True)
class _Work:
    """What the tasks of one try are to do."""

    context: WriteContext
    schema_text: str
    """The schema without meta columns that it writes with, as its commit declares it."""
    changes_schema: bool
    routing: Routing | None = None
    """None: it writes new file groups only."""
    replaced: dict[str, tuple[str, ...]] | None = None
    """The file groups that it replaces, by partition; None: it is no replace commit."""
    files: list[WrittenFile] = field(default_factory=list)


def write_rows(job: Job, data: Any) -> WriteResult:  # noqa: ANN401 - whatever the engine takes
    """Write rows by any operation that takes some."""
    _before(job)
    tries = job.options.retries if job.engine.can_read_again(data) else 0
    while True:
        schema = _schema_of_write(job, grounds.known_schema(job.bench), data)
        prepare = Prepare(
            config=job.bench.config,
            schema=schema,
            is_deletion=job.operation is WriteOperation.DELETE,
            encoding=_key_encoding(job),
        )
        try:
            if job.operation is WriteOperation.BULK_INSERT:
                return _try(job, partial(_bulk, job, prepare, data), tries)
            return _held(job, prepare, data)
        except SchemaMoved:
            if not tries:
                raise
            tries -= 1


def _held(job: Job, prepare: Prepare, data: Any) -> WriteResult:  # noqa: ANN401
    by_key = job.operation in (WriteOperation.UPSERT, WriteOperation.DELETE)
    digest = tasks.keys_of if by_key else tasks.partitions_of
    job.engine.say("reading the rows")
    with job.engine.hold(data, prepare.batches, digest) as held:
        schema = prepare.schema
        return _try(job, lambda attempt: _routed(job, attempt, schema, held), job.options.retries)


def delete_partitions(job: Job, partitions: Sequence[str]) -> WriteResult:
    """Take all rows of some partitions away."""
    _before(job)

    def work(attempt: Attempt) -> _Work:
        known = grounds.known_schema(job.bench)
        made = _begun(job, attempt, known, _required(known))
        groups = grounds.look_at(job.bench).groups
        made.replaced = {name: tuple(groups.get(name, ())) for name in partitions}
        _show(job, attempt, made)
        return made

    return _try(job, work, job.options.retries)


# -- before the instant -------------------------------------------------------------------------


def _before(job: Job) -> None:
    """Clean up after writers that died, if there is any trace of one.

    Cleaning may publish what a writer decided just before it died, which only then is seen to have
    failed: so it is done once more if something new is pending afterwards.
    """
    pending = _pending(job)
    if not pending and not _has_traces(job.bench.store):
        return
    job.engine.say("cleaning up after failed writes")
    failed_writes.clean_up(job.bench, policy=job.options.failed_writes)
    if _pending(job) - pending:
        failed_writes.clean_up(job.bench, policy=job.options.failed_writes)


def _pending(job: Job) -> set[str]:
    return {one.time for one in load_timeline(job.bench.store, job.bench.config).pending}


def _has_traces(store: Store) -> bool:
    """Whether a writer began and was never seen, or ended and could not clear away its own."""
    return bool(store.names(heartbeats.FOLDER)) or bool(store.list(TEMP).folders)


def _schema_of_write(job: Job, known: KnownSchema, data: Any) -> pa.Schema:  # noqa: ANN401
    incoming = job.engine.schema_of(data)
    if job.operation is WriteOperation.DELETE:
        return _required(known)
    config = job.bench.config
    fields = (*config.record_key_fields, *(one.name for one in config.partitioning.fields))
    return reconcile(
        known.arrow, incoming, allow_new_columns=job.options.allow_new_columns, same_text=fields
    )


def _required(known: KnownSchema) -> pa.Schema:
    if known.arrow is None:
        raise Invalid("the table has no schema yet: nothing was ever written to it")
    return known.arrow


def _key_encoding(job: Job) -> SingleFieldEncoding:
    """Tables before version 9 keep whichever of two key forms their first writer chose."""
    config = job.bench.config
    fields = config.record_key_fields
    is_open = config.key_generator is KeyGenerator.COMPLEX and len(fields) == 1
    if not is_open or job.version >= 9:
        return SingleFieldEncoding.NAMED
    for part in grounds.look_at(job.bench).slices:
        if part.base_file is not None:
            path = data_path(part, part.base_file)
            with job.bench.store.open(path) as file:
                key = base_file.read_footer(file, where=path).min_key
            return single_field_encoding(job.version, field=fields[0], existing_key=key)
    return SingleFieldEncoding.NAMED


# -- one try after the other --------------------------------------------------------------------


def _try(job: Job, work: Callable[[Attempt], _Work], tries: int) -> WriteResult:
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
    work: Callable[[Attempt], _Work]
    made: _Work | None = None

    def output(self, attempt: Attempt) -> executing.Output:
        """Do the work and return what is to be committed."""
        made = self.made = self.work(attempt)
        return executing.Output(
            tuple(one.staged for one in made.files),
            lambda _completion: _metadata(self.job, made),
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


# -- the work -----------------------------------------------------------------------------------


def _begun(job: Job, attempt: Attempt, known: KnownSchema, schema: pa.Schema) -> _Work:
    """Return the work of a try that has no files yet: what all its tasks have in common."""
    config, options = job.bench.config, job.options
    if known.arrow is not None and reconcile(known.arrow, schema) != schema:
        raise SchemaMoved(
            "another writer changed the table's schema while this write's rows were prepared; do "
            "the whole write again"
        )
    keeps_schema = known.text is not None and known.arrow == schema
    text = known.text if keeps_schema else None
    attempt.schema = text or avro_schema.from_arrow(schema, table_name=config.name)
    attempt.schema_at_start = known.text
    stored = avro_schema.with_meta_columns(schema)
    context = WriteContext(
        config=config,
        time=attempt.time,
        epoch=attempt.epoch,
        schema=stored,
        avro_schema=avro_schema.from_arrow(stored, table_name=config.name),
        settings=options.files,
        combine=options.combines(job.operation),
        is_deletion=job.operation is WriteOperation.DELETE,
    )
    return _Work(context, attempt.schema, changes_schema=not keeps_schema)


def _file_id(drawn: str) -> str:
    """Return a prefix of file ids in the form that Hudi's have, a UUID's."""
    digest = hashlib.sha256(drawn.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _bulk(
    job: Job,
    prepare: Prepare,
    data: Any,  # noqa: ANN401
    attempt: Attempt,
) -> _Work:
    made = _begun(job, attempt, grounds.known_schema(job.bench), prepare.schema)
    index.refuse_buckets(grounds.look_at(job.bench).slices)
    _show(job, attempt, made)
    if job.options.sort is not SortMode.NONE:
        fields = [one.name for one in job.bench.config.partitioning.fields]
        if job.options.sort is SortMode.GLOBAL_SORT:
            fields += job.bench.config.record_key_fields
        is_global = job.options.sort is SortMode.GLOBAL_SORT
        data = job.engine.ordered(data, fields, within_tasks=not is_global)
    job.engine.say("writing new files")
    work = tasks.WriteNew(job.opened, made.context, prepare, job.bench.new_id())
    made.files = [WrittenFile.from_json(one) for one in job.engine.consume(data, work)]
    return made


def _routed(job: Job, attempt: Attempt, schema: pa.Schema, held: Held) -> _Work:
    made = _begun(job, attempt, grounds.known_schema(job.bench), schema)
    ground = grounds.look_at(job.bench)
    routing = Routing(job.bench.config, ground, lambda: _file_id(job.bench.new_id()))
    made.routing = routing
    index.refuse_buckets(ground.slices)
    digests = [tasks.received(parcel.digest) for parcel in held.parcels]
    if job.operation in (WriteOperation.UPSERT, WriteOperation.DELETE):
        routes = _by_key(job, routing, digests)
    else:
        routes = _by_partition(job, made, routing, digests)
    _show(job, attempt, made)
    job.engine.say("writing the files")
    work = tasks.WriteGroups(job.opened, made.context, tuple(routing.tasks))
    made.files = [WrittenFile.from_json(one) for one in held.scatter(routes, work, tasks=job.tasks)]
    return made


def _by_key(job: Job, routing: Routing, digests: list[pa.RecordBatch]) -> list[Targets]:
    ground = routing.ground
    incoming = index.gather_keys(digests, is_global=job.options.index.is_global)
    plan = index.plan_lookups(incoming, ground.slices, tasks=job.tasks or job.engine.parallelism)
    job.engine.say("looking the keys up")
    find = tasks.FindKeys(
        job.opened, job.bench.config, ground.timeline, job.options.index.uses_bloom
    )
    located = index.locate(incoming, plan, job.engine.each(plan.tasks, find))
    if located.copies:
        _log.warning(
            "%s: %d keys stand in several file groups, which concurrent or plain inserts of one "
            "key make; only one row of each is written now",
            job.bench.store.uri,
            located.copies,
        )
    if job.options.update_partition_path and any(rows.any() for rows in located.moved):
        raise Unsupported(
            "some keys stand in another partition than their rows say: a global index cannot move "
            "them yet. Set update_partition_path=False to update them where they are"
        )
    sizing = None if job.operation is WriteOperation.DELETE else _sizing(job, ground)
    return route_by_key(routing, incoming, located, plan.groups, sizing)


def _by_partition(
    job: Job, made: _Work, routing: Routing, digests: list[pa.RecordBatch]
) -> list[Targets]:
    ground = routing.ground
    partitions, of_row = index.number_partitions(digests)
    if job.operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        made.replaced = {name: tuple(groups) for name, groups in ground.groups.items() if groups}
    elif job.operation is WriteOperation.INSERT_OVERWRITE:
        made.replaced = {name: tuple(ground.groups.get(name, ())) for name in partitions}
    fill = made.replaced is None
    return route_by_partition(routing, partitions, of_row, _sizing(job, ground), fill=fill)


def _sizing(job: Job, ground: Ground) -> Sizing:
    limits = job.options.sizes
    row_bytes = average_row_bytes(
        grounds.recent_base_files(job.bench, ground.timeline),
        estimate=job.options.row_bytes,
        small_file_bytes=limits.small_file_bytes,
    )
    return Sizing(limits, row_bytes)


def _show(job: Job, attempt: Attempt, made: _Work) -> None:
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


def _metadata(job: Job, made: _Work) -> bytes:
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


def _schema_to_declare(job: Job, made: _Work) -> str:
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
