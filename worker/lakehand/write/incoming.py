"""Make keyed batches of what a writer was given: the first step of every task of a write.

Each batch is cast to the schema of the write, which the driver reconciled before; columns that it
lacks are null. In front go the record key and the partition path, as plain text (Spark takes no
dictionaries). Of a deletion by key only the columns that make key, path and ordering are looked
at. What cannot be written, from a null in a column that may not be null to a row without a key, is
refused here, before the first data file exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehand.core.key_generators import SingleFieldEncoding
from lakehand.errors import Corrupt, Invalid
from lakehand.read.alignment import align
from lakehand.read.log_events import rule_for
from lakehand.write.keys import partition_paths, record_keys
from lakehand.write.schema_change import table_type, type_at
from lakehand.write.shapes import KEY_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehand.core.table_config import TableConfig

_WHERE = "the data to write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """What a task needs to know to make keyed batches; it pickles."""

    config: TableConfig
    schema: pa.Schema
    """The schema of the write: the table's without meta columns."""
    is_deletion: bool = False
    encoding: SingleFieldEncoding = SingleFieldEncoding.NAMED
    """How complex keys of one field are written in this table."""

    @property
    def keyed_schema(self) -> pa.Schema:
        """The schema of keyed batches: key and path, then the data (of deletions: ordering)."""
        keys = [pa.field(name, pa.string()) for name in KEY_COLUMNS]
        return pa.schema([*keys, *self._carried])

    @property
    def _carried(self) -> list[pa.Field[Any]]:
        if not self.is_deletion:
            return list(self.schema)
        rule = rule_for(self.config.merge_rule, self.schema)
        return [self.schema.field(name).with_nullable(True) for name in rule.ordering_fields]

    @property
    def _looked_at(self) -> pa.Schema:
        """The columns of the data that matter, as the write keeps them."""
        if not self.is_deletion:
            return self.schema
        named = [*self.config.record_key_fields, *self.config.partition_fields]
        named += [field.name for field in self._carried]
        tops = dict.fromkeys(name.partition(".")[0] for name in named)
        return pa.schema([self.schema.field(top).with_nullable(True) for top in tops])

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a keyed batch for each batch with rows; all must have one schema."""
        keyed, looked_at = self.keyed_schema, self._looked_at
        names = [field.name for field in self._carried]
        constrained = [field for field in looked_at if _is_constrained(field)]
        first: pa.Schema | None = None
        for batch in batches:
            if first is None:
                first = batch.schema
                self._require_fields(first)
            elif not batch.schema.equals(first):
                raise Invalid(
                    "the batches of a write must have one schema: the first has "
                    f"{_shown(first)}; then one comes with {_shown(batch.schema)}"
                )
            if not batch.num_rows:
                continue
            data = _cast(batch, looked_at)
            _refuse_broken_values(data)
            for field in constrained:
                _refuse_nulls(data.column(field.name), field, field.name)
            columns: list[pa.Array[Any]] = [
                record_keys(self.config, data, encoding=self.encoding),
                partition_paths(self.config, data),
                *(data.column(name) for name in names),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=keyed)

    def _require_fields(self, data: pa.Schema) -> None:
        """Raise ``Invalid`` if a field of keys or paths is not in the data: null is no answer."""
        uses = {"record key": self.config.record_key_fields}
        uses["partition"] = self.config.partition_fields
        for use, fields in uses.items():
            missing = [field for field in fields if type_at(data, field) is None]
            if missing:
                raise Invalid(
                    f"the data lacks {use} field {', '.join(missing)}, which tells where its rows "
                    f"belong; its columns are {', '.join(data.names) or 'none'}"
                )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of ``schema``: first Hudi's types, then the table's."""
    kept = [name for name in schema.names if name in batch.schema.names]
    columns = [_settled(batch.column(name), name) for name in kept]
    try:
        return align(pa.RecordBatch.from_arrays(columns, names=kept), schema, where=_WHERE)
    except Corrupt as error:
        raise Invalid(f"{_WHERE}: {error.problem}") from error


def _settled(column: pa.Array[Any], name: str) -> pa.Array[Any]:
    kind = table_type(column.type, name)
    if column.type.equals(kind):
        return column
    try:
        settled: pa.Array[Any] = pc.cast(column, kind)
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"column {name} has type {column.type}, and a value that {kind}, as the table keeps "
            f"it, cannot hold: {error}"
        ) from error
    return settled


def _refuse_broken_values(data: pa.RecordBatch) -> None:
    """Raise ``Invalid`` for what no reader would take from a file, as text that is not UTF-8."""
    for name, column in zip(data.schema.names, data.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Invalid(
                f"column {name} holds values that {column.type} cannot be: {error}; bytes that "
                "are no text belong into a binary column"
            ) from error


# -- columns that may not be null ------------------------------------------------------------------


def _is_constrained(field: pa.Field[Any]) -> bool:
    """Whether nulls are refused in the column, or somewhere within."""
    kind = field.type
    members = [kind.field(number) for number in range(kind.num_fields)]
    return not field.nullable or any(_is_constrained(member) for member in members)


def _refuse_nulls(column: pa.Array[Any], field: pa.Field[Any], path: str) -> None:
    if column.null_count and not field.nullable:
        raise Invalid(
            f"column {path} may not be null, and {column.null_count} of {len(column)} values in a "
            "batch are: fill them in, or filter their rows out"
        )
    values: Any = column.drop_null() if column.null_count else column
    kind: Any = field.type
    if pt.is_struct(kind):
        for number, member in enumerate(kind):
            _refuse_nulls(values.field(number), member, f"{path}.{member.name}")
    elif pt.is_map(kind):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        items = values.items.slice(first, last - first)
        _refuse_nulls(items, kind.item_field, f"{path}.value")
    elif pt.is_list(kind):
        _refuse_nulls(values.flatten(), kind.value_field, f"{path}.element")
