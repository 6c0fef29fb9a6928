"""The schema of a table, found where its writers left it.

The newest completed write that carries one decides; then the schema the table was created with;
then that of a base file, for tables whose writers left neither. Table services repeat the schema
of the writes before them, so they are asked like any other.

Only a data file tells whether the table also keeps the kind of every change, in a sixth meta
column: so a base file is asked for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.merge_rules import OPERATION_COLUMN
from lakehand.errors import NotFound
from lakehand.formats import avro_schema, base_file, commit_metadata
from lakehand.protocol.timeline_loader import instant_path
from lakehand.read.data_path import data_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store


def resolve_schema(
    store: Store,
    config: TableConfig,
    timeline: Timeline,
    slices: Iterable[FileSlice],
) -> pa.Schema:
    """Return the table's schema, with the meta columns if it keeps them."""
    data = _data_schema(store, config, timeline, slices)
    if not config.populate_meta_fields:
        return data
    schema = avro_schema.with_meta_columns(data)
    file_schema = _base_file_schema(store, slices)
    if file_schema is None or OPERATION_COLUMN not in file_schema.names:
        return schema
    return schema.insert(len(avro_schema.META_COLUMNS), pa.field(OPERATION_COLUMN, pa.string()))


def declared_schema(store: Store, config: TableConfig, timeline: Timeline) -> str | None:
    """Return the Avro schema that the table's last write declared, or else its creator.

    Without meta columns, unless a creator declared them too; None: nobody declared one.
    """
    for instant in reversed(timeline.completed_writes):
        path = instant_path(config, instant)
        try:
            content = store.get(path).content
        except NotFound:
            continue
        text = commit_metadata.decode(content, where=path).schema(where=path)
        if text:
            return text
    return config.create_schema or None


def _data_schema(
    store: Store,
    config: TableConfig,
    timeline: Timeline,
    slices: Iterable[FileSlice],
) -> pa.Schema:
    text = declared_schema(store, config, timeline)
    if text is not None:
        schema = avro_schema.to_arrow(text, where=f"the schema of {store.uri}")
        return avro_schema.without_meta_columns(schema)
    file_schema = _base_file_schema(store, slices)
    if file_schema is None:
        return pa.schema([])
    return avro_schema.without_meta_columns(file_schema).remove_metadata()


def _base_file_schema(store: Store, slices: Iterable[FileSlice]) -> pa.Schema | None:
    """Return the schema of a base file, or None if the table has none yet."""
    for part in slices:
        if part.base_file is not None:
            path = data_path(part, part.base_file)
            with store.open(path) as file:
                return base_file.read_footer(file, where=path).arrow_schema
    return None
