"""The work of one try, from its request to the files that its tasks have staged."""

from __future__ import annotations

import hashlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehand.core.file_sizing import average_row_bytes
from lakehand.formats import avro_schema
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.write import ground as grounds
from lakehand.write import index, moving, tasks
from lakehand.write.job import SchemaMoved, Work
from lakehand.write.routing import (
    Routing,
    Sizing,
    Targets,
    route_by_key,
    route_by_partition,
    route_leaving,
    route_new_keys,
)
from lakehand.write.schema_change import reconcile
from lakehand.write.shapes import WriteContext, WrittenFile
from lakehand.write.standing import BestOfKeys, FindStanding
from lakehand.write.tries import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lakehand.engine.engine import Held
    from lakehand.protocol.claiming import Attempt
    from lakehand.write.ground import Ground, KnownSchema
    from lakehand.write.incoming import Prepare
    from lakehand.write.job import Job

_log = logging.getLogger(__name__)


class _Routes(NamedTuple):
    """The targets of the rows of every parcel."""

    written: list[Targets]
    leaving: list[Targets] | None = None
    """Of rows whose keys leave a group that gets no rows."""


def begun(job: Job, attempt: Attempt, known: KnownSchema, schema: pa.Schema) -> Work:
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
        combine=job.combines,
        is_deletion=job.operation is WriteOperation.DELETE,
        looks_everywhere=job.looks_keys_up and options.index.is_global,
    )
    return Work(context, attempt.schema, changes_schema=not keeps_schema)


def _file_id(drawn: str) -> str:
    """Return a prefix of file ids in the form that Hudi's have, a UUID's."""
    digest = hashlib.sha256(drawn.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def bulk(
    job: Job,
    prepare: Prepare,
    data: Any,  # noqa: ANN401
    attempt: Attempt,
) -> Work:
    """Prepare rows and write them to new file groups in one pass."""
    made = begun(job, attempt, grounds.known_schema(job.bench), prepare.schema)
    index.refuse_buckets(grounds.look_at(job.bench).slices)
    show(job, attempt, made)
    job.say("writing new files")
    work = tasks.WriteNew(job.opened, made.context, prepare, job.bench.new_id())
    return _with_files(job, made, job.engine.consume(data, work))


def routed(job: Job, attempt: Attempt, schema: pa.Schema, held: Held) -> Work:
    """Send the rows that are held to file groups, and write those."""
    made = begun(job, attempt, grounds.known_schema(job.bench), schema)
    ground = grounds.look_at(job.bench)
    routing = Routing(job.bench.config, ground, lambda: _file_id(job.bench.new_id()))
    made.routing = routing
    index.refuse_buckets(ground.slices)
    if job.looks_keys_up:
        routes = _by_key(job, made, routing, held)
    elif job.combines:
        incoming = index.gather_keys(_keys(held), is_global=False)
        fill = _fill(job, made, ground, incoming.partitions)
        routes = _Routes(route_new_keys(routing, incoming, _sizing(job, ground), fill=fill))
    else:
        partitions = [one.digest.decode() for one in held.parcels]
        fill = _fill(job, made, ground, partitions)
        rows = [one.rows for one in held.parcels]
        sizing = _sizing(job, ground)
        routes = _Routes(route_by_partition(routing, partitions, rows, sizing, fill=fill))
    show(job, attempt, made)
    job.say("writing the files")
    work = tasks.WriteGroups(job.opened, made.context, tuple(routing.tasks))
    answers = held.scatter(routes.written, work, tasks=job.tasks)
    if routes.leaving is not None:
        answers += held.scatter(routes.leaving, tasks.TakeAway(work), tasks=job.tasks)
    return _with_files(job, made, answers)


def _with_files(job: Job, made: Work, answers: list[bytes]) -> Work:
    made.files = [WrittenFile.from_json(one) for one in answers]
    size = sum(one.stat.total_write_bytes for one in made.files)
    job.progress.made(files=len(made.files), size=size)
    return made


def _by_key(job: Job, made: Work, routing: Routing, held: Held) -> _Routes:
    ground = routing.ground
    incoming = index.gather_keys(_keys(held), is_global=job.options.index.is_global)
    plan = index.plan_lookups(incoming, ground.slices, tasks=job.tasks or job.engine.parallelism)
    job.say("looking the keys up")
    find = tasks.FindKeys(
        job.opened, job.bench.config, ground.timeline, job.options.index.uses_bloom
    )
    located = index.locate(incoming, plan, job.engine.each(plan.tasks, find))
    doubts = _doubts(job, made.context, ground, held)
    located, leaving = moving.settle(incoming, plan, located, doubts)
    if located.copies:
        _log.warning(
            "%s: %d keys stand in several file groups, which concurrent or plain inserts of one "
            "key make; only one row of each is written now",
            job.bench.store.uri,
            located.copies,
        )
    sizing = None if job.operation is WriteOperation.DELETE else _sizing(job, ground)
    written = route_by_key(routing, incoming, located, plan.groups, sizing)
    if leaving is None:
        return _Routes(written)
    return _Routes(written, route_leaving(routing, leaving, plan.groups))


def _doubts(job: Job, context: WriteContext, ground: Ground, held: Held) -> moving.Doubts:
    """Return what becomes of rows whose keys stand elsewhere, or in several places."""
    find = FindStanding(job.opened, context, ground.timeline)
    ask = partial(held.scatter, work=BestOfKeys(context), tasks=job.tasks)
    compares = context.looks_everywhere and not context.is_deletion
    return moving.Doubts(
        moves=compares and job.options.update_partition_path,
        unites=compares and context.combine,
        standing=partial(job.engine.each, work=find),
        best=ask if compares else None,
        spread=job.tasks or job.engine.parallelism,
    )


def _keys(held: Held) -> list[pa.RecordBatch]:
    return [tasks.received(parcel.digest) for parcel in held.parcels]


def _fill(job: Job, made: Work, ground: Ground, partitions: Iterable[str]) -> bool:
    """Say what the write replaces; return whether its rows may go to file groups that are there."""
    if job.operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        made.replaced = {name: tuple(groups) for name, groups in ground.groups.items() if groups}
    elif job.operation is WriteOperation.INSERT_OVERWRITE:
        touched = sorted(set(partitions))
        made.replaced = {name: tuple(ground.groups.get(name, ())) for name in touched}
    return job.operation is WriteOperation.INSERT


def _sizing(job: Job, ground: Ground) -> Sizing:
    limits = job.options.sizes
    row_bytes = average_row_bytes(
        grounds.recent_base_files(job.bench, ground.timeline),
        estimate=job.options.row_bytes,
        small_file_bytes=limits.small_file_bytes,
    )
    return Sizing(limits, row_bytes)
