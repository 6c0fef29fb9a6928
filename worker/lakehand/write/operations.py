"""One write, from rows to a completed instant.

::

    before   failed writes of others are cleaned up; the schema is reconciled; rows are prepared
             and held (a bulk insert that combines nothing writes them in one pass instead)
    request  begin_write: from here on a heartbeat beats
    ground   the table as it is now; keys are located; every row gets its target
    shown    begin_data: the inflight file names the groups; first look for conflicts
    written  tasks stage files; what they answer is collected once
    decided  prepare, promote, commit: all or nothing

After a conflict the next try begins at the request (``tries``). When the table's schema has changed
meanwhile, or nothing was held, it begins at the rows, if they can be read again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lakehand.core.key_generators import KeyGenerator, SingleFieldEncoding, single_field_encoding
from lakehand.errors import Invalid
from lakehand.formats import base_file
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.read.data_path import data_path
from lakehand.write import ground as grounds
from lakehand.write import tasks
from lakehand.write.clearing import clear_up
from lakehand.write.handles.combining import by_partition
from lakehand.write.incoming import Prepare
from lakehand.write.job import SchemaMoved
from lakehand.write.option_table import SortMode
from lakehand.write.schema_change import reconcile
from lakehand.write.tries import show, try_until_committed
from lakehand.write.work import begun, bulk, routed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakehand.protocol.claiming import Attempt
    from lakehand.write.ground import KnownSchema
    from lakehand.write.job import Job, Work, WriteResult


def write_rows(job: Job, data: Any) -> WriteResult:  # noqa: ANN401 - whatever the engine takes
    """Write rows by any operation that takes some."""
    clear_up(job)
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
            if job.operation is WriteOperation.BULK_INSERT and not job.combines:
                rows = _in_order(job, data)
                return try_until_committed(job, partial(bulk, job, prepare, rows), tries)
            return _held(job, prepare, data)
        except SchemaMoved:
            if not tries:
                raise
            tries -= 1


def _in_order(job: Job, data: Any) -> Any:  # noqa: ANN401
    """Return the rows of a bulk insert sorted as its options ask for."""
    sort = job.options.sort
    if sort is SortMode.NONE:
        return data
    fields = [one.name for one in job.bench.config.partitioning.fields]
    if sort is SortMode.GLOBAL_SORT:
        fields += job.bench.config.record_key_fields
    return job.engine.ordered(data, fields, within_tasks=sort is not SortMode.GLOBAL_SORT)


def _held(job: Job, prepare: Prepare, data: Any) -> WriteResult:  # noqa: ANN401
    job.say("reading the rows")
    if job.looks_keys_up or job.combines:
        keeping = job.engine.hold(data, prepare.batches, tasks.keys_of)
    else:
        keeping = job.engine.hold(data, prepare.batches, tasks.partition_of, by_partition)
    with keeping as held:
        schema = prepare.schema
        return try_until_committed(
            job, lambda attempt: routed(job, attempt, schema, held), job.options.retries
        )


def delete_partitions(job: Job, partitions: Sequence[str]) -> WriteResult:
    """Take all rows of some partitions away."""
    clear_up(job)

    def work(attempt: Attempt) -> Work:
        known = grounds.known_schema(job.bench)
        made = begun(job, attempt, known, _required(known))
        groups = grounds.look_at(job.bench).groups
        made.replaced = {name: tuple(groups.get(name, ())) for name in partitions}
        show(job, attempt, made)
        return made

    return try_until_committed(job, work, job.options.retries)


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
