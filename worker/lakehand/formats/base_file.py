"""Base files: Parquet with what Hudi keeps in the footer, read and written.

The footer's own entries are the smallest and the largest record key and a bloom filter of all
keys: what Java's BLOOM index asks before it opens a file. Files written from Avro records also
hold their Avro schema. None of them is needed to read the rows.

``BaseFileWriter`` takes Arrow batches that have Hudi's meta columns already. Physical types are
those of Java's writers: decimals in the shortest fixed-length bytes, timestamps in microseconds,
format 1.0, no Arrow schema on the side. Lists have three levels (``list.element``), as Hudi 1.2's
row writer makes them: that form can hold null elements, and every reader takes it; the two-level
form of Java's Avro writer cannot, and PyArrow does not write it.

Smallest and largest follow Java's order of strings (``formats.key_order``), since Java prunes by
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats import bloom
from lakehand.formats.bloom import BloomBuilder, BloomFilter, BloomKind, BloomSettings
from lakehand.formats.key_order import java_min_max, java_order
from lakehand.formats.sinks import CountingSink, Sink
from lakehand.formats.untrusted_parquet import BROKEN_PARQUET, open_parquet

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "RECORD_KEY",
    "BaseFileFooter",
    "BaseFileOptions",
    "BaseFileWriter",
    "RowGroup",
    "Sink",
    "open_parquet",
    "read_footer",
]

RECORD_KEY = "_hoodie_record_key"
_REPEATING_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")

_MIN_KEY = b"hoodie_min_record_key"
_MAX_KEY = b"hoodie_max_record_key"
_BLOOM = b"org.apache.hudi.bloomfilter"
_BLOOM_OF_OLD = b"com.uber.hoodie.bloomfilter"
_BLOOM_KIND = b"hoodie_bloom_filter_type_code"
_AVRO_SCHEMA = b"parquet.avro.schema"
_AVRO_MODEL = b"writer.model.name"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The sizes of one row group, by which a reader plans its memory."""

    rows: int
    uncompressed_bytes: int


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What a base file says of itself."""

    min_key: str | None
    """The smallest record key; None without rows or without meta columns."""

    max_key: str | None
    bloom_kind: BloomKind | None
    bloom_text: bytes | None
    """The filter as it stands in the footer; ``bloom`` decodes it."""

    avro_schema: str | None
    """The writer's schema with meta columns, if Avro records were written. Row-style writers
    leave it out: the table's schema comes from commit metadata, never from here."""

    rows: int
    row_groups: tuple[RowGroup, ...]
    arrow_schema: pa.Schema
    parquet: pq.FileMetaData
    """PyArrow's own metadata, so that a reader need not parse the footer again."""

    where: str

    @property
    def bloom(self) -> BloomFilter | None:
        """The filter of the record keys, decoded at each call; None if there is none."""
        if self.bloom_text is None or self.bloom_kind is None:
            return None
        return bloom.parse(self.bloom_text, self.bloom_kind, where=self.where)


def read_footer(source: pa.NativeFile | bytes, *, where: str) -> BaseFileFooter:
    """Read the footer of a base file; ``where`` names the file in errors."""
    file = pa.BufferReader(source) if isinstance(source, bytes) else source
    parquet = open_parquet(file, where=where)
    entries = parquet.metadata.metadata or {}
    text = entries.get(_BLOOM, entries.get(_BLOOM_OF_OLD))
    metadata = parquet.metadata
    try:
        row_groups = tuple(_row_group(metadata, n) for n in range(metadata.num_row_groups))
    except BROKEN_PARQUET as error:
        raise Corrupt(f"no sound row groups: {error}", where=where) from error
    if metadata.num_rows < 0 or sum(group.rows for group in row_groups) != metadata.num_rows:
        raise Corrupt("the row groups do not add up to the rows", where=where)
    return BaseFileFooter(
        min_key=_text(entries, _MIN_KEY, where=where),
        max_key=_text(entries, _MAX_KEY, where=where),
        bloom_kind=None if text is None else _bloom_kind(entries, where=where),
        bloom_text=text,
        avro_schema=_text(entries, _AVRO_SCHEMA, where=where),
        rows=metadata.num_rows,
        row_groups=row_groups,
        arrow_schema=parquet.schema_arrow,
        parquet=metadata,
        where=where,
    )


def _row_group(metadata: pq.FileMetaData, number: int) -> RowGroup:
    group = metadata.row_group(number)
    if group.num_rows < 0:
        raise ValueError(f"row group {number} has {group.num_rows} rows")
    return RowGroup(rows=group.num_rows, uncompressed_bytes=group.total_byte_size)


def _text(entries: dict[bytes, bytes], key: bytes, *, where: str) -> str | None:
    value = entries.get(key)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        raise Corrupt(f"footer entry {key.decode()}: {error}", where=where) from error


def _bloom_kind(entries: dict[bytes, bytes], *, where: str) -> BloomKind:
    """Return the filter's kind; Java writes the code for the dynamic kind only."""
    code = entries.get(_BLOOM_KIND, BloomKind.SIMPLE.value.encode())
    try:
        return BloomKind(code.decode().upper())
    except ValueError as error:
        raise Unsupported(
            f"{where}: bloom filter of kind {code!r}: Lakehand knows SIMPLE and DYNAMIC_V0"
        ) from error


@dataclass(frozen=True, slots=True)
class _Levels:
    """The levels of a codec; ``default`` is ours."""

    lowest: int
    highest: int
    default: int


_CODECS = {"zstd": _Levels(1, 22, 1), "gzip": _Levels(1, 9, 6), "snappy": None, "none": None}


@dataclass(frozen=True, slots=True)
class BaseFileOptions:
    """How base files are written."""

    codec: str = "zstd"
    """A Parquet codec: zstd, gzip, snappy or none. Zstandard costs a third of gzip's time, or
    less; every reader that Hudi 0.14 and later runs on has it."""

    level: int | None = None
    """The codec's level; None is zstd 1 (3, Java's, takes twice the time for record keys, and
    gains nothing there), gzip 6 (PyArrow's own default of 9 is several times slower for a few
    percent), and nothing for codecs without levels."""

    dictionary_columns: tuple[str, ...] | None = None
    """Columns to write with a dictionary, beside the three meta columns that repeat (commit time,
    partition path, file name). A nested column is named by its dotted Parquet path. None is all:
    a column whose values do not repeat goes on without after the first megabyte of them."""

    row_group_rows: int = 1 << 20
    row_group_bytes: int = 128 << 20
    """A row group ends at whichever comes first; bytes are Arrow's, before encoding. This bounds
    what the writer holds in memory."""

    page_bytes: int = 1 << 20
    statistics_columns: tuple[str, ...] | None = None
    """Columns with smallest and largest value in the file's metadata; None is all."""

    key_column: str | None = RECORD_KEY
    """The column of record keys, for the footer. None for a table that does not fill its meta
    columns (``hoodie.populate.meta.fields=false``): Java writes them all null, and no keys."""

    bloom: BloomSettings | None = field(default_factory=BloomSettings)
    """The filter in the footer; None leaves it out. Only Java writers with the BLOOM index ask
    for it."""


class BaseFileWriter:
    """Streams Arrow batches into one base file.

    ``close`` writes the footer; leaving the ``with`` block by an exception does not, and the sink
    then holds no valid file. The sink itself is its owner's to close.
    """

    def __init__(
        self,
        sink: Sink,
        schema: pa.Schema,
        *,
        options: BaseFileOptions | None = None,
        avro_schema: str | None = None,
    ) -> None:
        """Begin a file of ``schema``.

        ``avro_schema`` goes into the footer as Java's Avro writer puts it there.
        """
        _require_writable(schema)
        self._schema = schema.remove_metadata()
        self._options = options or BaseFileOptions()
        key_column = self._options.key_column
        self._key_column = key_column if key_column in schema.names else None
        filter_settings = self._options.bloom if self._key_column is not None else None
        self._bloom = None if filter_settings is None else BloomBuilder(filter_settings)
        self._avro_schema = avro_schema
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._flushed_bytes = 0
        self._sink = CountingSink(sink)
        self._parquet = _parquet_writer(self._sink, self._schema, self._options)
        self._open = True

    @property
    def rows(self) -> int:
        """Rows taken so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Bytes given to the sink so far; after ``close``, the file's size."""
        return self._sink.count

    @property
    def estimated_bytes(self) -> int:
        """What ``bytes_written`` were if nothing waited for its row group to be full.

        What waits is taken to shrink as the rows before it did; for the first, not at all.
        """
        if not self._flushed_bytes:
            return self._sink.count + self._waiting_bytes
        shrunk = self._waiting_bytes * self._sink.count / self._flushed_bytes
        return self._sink.count + int(shrunk)

    @property
    def waiting_bytes(self) -> int:
        """What waits for its row group to be full, in Arrow's bytes; ``flush`` gives it back."""
        return self._waiting_bytes

    @property
    def held_bytes(self) -> int:
        """The memory that the file takes while it is open."""
        return self._waiting_bytes + (0 if self._bloom is None else self._bloom.held_bytes)

    @property
    def min_key(self) -> str | None:
        """The smallest record key so far."""
        return self._min_key

    @property
    def max_key(self) -> str | None:
        """The largest record key so far."""
        return self._max_key

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of ``batch``, whose schema must be the file's."""
        if not batch.schema.equals(self._schema):
            raise Invalid(f"a batch of other columns than the file's: {batch.schema}")
        if not batch.num_rows:
            return
        if self._key_column is not None:
            self._take_keys(batch.column(self._key_column))
        self._rows += batch.num_rows
        for start in range(0, batch.num_rows, self._options.row_group_rows):
            self._take(batch.slice(start, self._options.row_group_rows))

    def _take_keys(self, keys: pa.Array[Any]) -> None:
        if keys.null_count:
            raise Invalid("a record key is null: Hudi's record keys never are")
        if self._bloom is not None:
            self._bloom.add(keys)
        low, high = java_min_max(keys)
        self._min_key = low if self._min_key is None else min(self._min_key, low, key=java_order)
        self._max_key = high if self._max_key is None else max(self._max_key, high, key=java_order)

    def _take(self, batch: pa.RecordBatch) -> None:
        """Keep the batch until a row group is full: PyArrow makes one of every write."""
        limit = self._options.row_group_rows
        if self._waiting_rows + batch.num_rows > limit:
            self.flush()
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= limit or self._waiting_bytes >= self._options.row_group_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a row group, however small."""
        if self._waiting_rows:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._flushed_bytes += self._waiting_bytes
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
            self._parquet.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        """Write what waits and the footer. Idempotent."""
        if self._open:
            self.flush()
            self._parquet.add_key_value_metadata(self._footer_entries())
            self._parquet.close()
            self._open = False

    def _footer_entries(self) -> dict[str, str]:
        entries: dict[str, str] = {}
        if self._min_key is not None and self._max_key is not None:
            entries[_MIN_KEY.decode()] = self._min_key
            entries[_MAX_KEY.decode()] = self._max_key
        if self._bloom is not None:
            made = self._bloom.finish()
            entries[_BLOOM.decode()] = made.to_footer().decode()
            if made.kind is BloomKind.DYNAMIC:
                entries[_BLOOM_KIND.decode()] = made.kind.value
        if self._avro_schema is not None:
            entries[_AVRO_SCHEMA.decode()] = self._avro_schema
            entries[_AVRO_MODEL.decode()] = "avro"
        return entries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        elif self._open:
            self._open = False
            self._waiting.clear()
            self._sink.deaf = True
            self._parquet.close()


def _parquet_writer(
    sink: CountingSink, schema: pa.Schema, options: BaseFileOptions
) -> pq.ParquetWriter:
    statistics = options.statistics_columns
    settings: dict[str, Any] = {
        "version": "1.0",
        "compression": options.codec.lower(),
        "compression_level": _level(options),
        "use_dictionary": _with_dictionary(schema, options),
        "data_page_size": options.page_bytes,
        "write_statistics": True if statistics is None else list(statistics),
        "store_schema": False,
    }
    return pq.ParquetWriter(pa.PythonFile(cast("Any", sink), mode="w"), schema, **settings)


def _with_dictionary(schema: pa.Schema, options: BaseFileOptions) -> bool | list[str]:
    """Return the columns that get a dictionary, as PyArrow takes them; True is all."""
    if options.dictionary_columns is None:
        return True
    repeating = [name for name in _REPEATING_COLUMNS if name in schema.names]
    return [*repeating, *options.dictionary_columns]


def _level(options: BaseFileOptions) -> int | None:
    """Return the level for PyArrow, having checked codec and level."""
    codec, level = options.codec.lower(), options.level
    if codec not in _CODECS:
        raise Invalid(f"codec {options.codec!r}: choose one of {', '.join(_CODECS)}")
    limits = _CODECS[codec]
    if level is None:
        return None if limits is None else limits.default
    if limits is None or not limits.lowest <= level <= limits.highest:
        raise Invalid(f"codec {codec} has no level {level}")
    return level


def _require_writable(schema: pa.Schema) -> None:
    """Refuse what Java's readers cannot take."""
    for column in schema:
        for kind in _leaf_types(column.type):
            if pa.types.is_timestamp(kind) and kind.unit not in ("us", "ms"):
                raise Unsupported(
                    f"column {column.name}: {kind} is not a Hudi type: cast it to microseconds"
                )
            if pa.types.is_unsigned_integer(kind):
                raise Unsupported(f"column {column.name}: {kind} is not a Hudi type: cast it")


def _leaf_types(kind: pa.DataType) -> list[pa.DataType]:
    if kind.num_fields == 0:
        return [kind]
    return [leaf for n in range(kind.num_fields) for leaf in _leaf_types(kind.field(n).type)]
