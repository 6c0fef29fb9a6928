"""The history of layout 2: instants that left the timeline, in Parquet files listed by manifests.

``<first>_<last>_<level>.parquet`` holds one row per completed instant, with the raw content of
its completed file (``metadata``) and of its plan. ``manifest_<N>`` is JSON and lists the files of
one snapshot; ``_version_`` holds the current N. Files that the current manifest does not list are
leftovers of merges, or of writers that died: never part of the history.

This module knows the bytes and names; ``protocol.lsm_timeline`` knows the order of writing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehand.core.instants import Action
from lakehand.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from lakehand.formats import avro_documents
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.untrusted_parquet import open_parquet, sound_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow.parquet as pq

    from lakehand.formats.base_file import Sink

VERSION_FILE = "_version_"
HIGHEST_LEVEL = 9
"""Java's pattern of file names has one digit for the level."""

_FILE = re.compile(r"(\d{1,32})_(\d{1,32})_(\d)\.parquet", re.ASCII)
_MANIFEST = re.compile(r"manifest_(\d{1,9})", re.ASCII)
_VERSION = re.compile(rb"\d{1,9}", re.ASCII)
_TIME = re.compile(r"\d{1,32}", re.ASCII)

_MOST_MANIFEST = 16 << 20
_MOST_ENTRIES = 1 << 20
_BATCH_ENTRIES = 16
"""Rows held at a time: an entry's content can be megabytes."""

_BUFFER = 1 << 20
_CONTENT_VERSION = 1

_FIELDS: list[pa.Field[Any]] = [
    pa.field("instantTime", pa.string()),
    pa.field("completionTime", pa.string()),
    pa.field("action", pa.string()),
    pa.field("metadata", pa.binary()),
    pa.field("plan", pa.binary()),
    pa.field("version", pa.int32(), nullable=False),
]
_SCHEMA = pa.schema(_FIELDS)
_HEAD_COLUMNS = ["instantTime", "completionTime", "action", "version"]
_CONTENT_COLUMNS = ["metadata", "plan"]


@dataclass(frozen=True, slots=True, order=True)
class HistoryFileName:
    """The name of a data file: the time range of its instants and the level it was merged to."""

    first: str
    last: str
    level: int

    def __str__(self) -> str:
        """Return the name as it stands on storage."""
        return f"{self.first}_{self.last}_{self.level}.parquet"

    def overlaps(self, first: str | None, last: str | None) -> bool:
        """Whether the file may hold instants of the range; None leaves that end open."""
        return (last is None or self.first <= last) and (first is None or self.last >= first)


def parse_history_file(name: str) -> HistoryFileName | None:
    """Return the parts of a data file's name, or None if it is not one."""
    found = _FILE.fullmatch(name)
    return None if found is None else HistoryFileName(found[1], found[2], int(found[3]))


def parse_manifest_name(name: str) -> int | None:
    """Return the number of a manifest, or None if the name is not a manifest's."""
    found = _MANIFEST.fullmatch(name)
    return None if found is None else int(found[1])


def manifest_name(number: int) -> str:
    """Return the name of manifest ``number``."""
    return f"manifest_{number}"


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A data file that a manifest lists."""

    name: HistoryFileName
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One snapshot of the history."""

    files: tuple[HistoryFile, ...] = ()


def decode_manifest(content: bytes, *, where: str) -> Manifest:
    """Return what a manifest lists."""
    if len(content) > _MOST_MANIFEST:
        raise LimitExceeded(f"{where}: {len(content)} bytes of manifest (limit {_MOST_MANIFEST})")
    try:
        document = json.loads(content)
        listed = [(entry["fileName"], entry["fileLen"]) for entry in document["files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(f"not a manifest of the history: {error}", where=where) from error
    files = []
    for text, size in listed:
        name = parse_history_file(text) if isinstance(text, str) else None
        if name is None or type(size) is not int or size < 0:
            raise Corrupt(f"lists {text!r} of {size!r} bytes", where=where)
        files.append(HistoryFile(name, size))
    if len({file.name for file in files}) != len(files):
        raise Corrupt("lists a file twice", where=where)
    return Manifest(tuple(files))


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest, laid out as Java's JSON library does."""
    files = ", ".join(
        f'{{\n    "fileName" : "{file.name}",\n    "fileLen" : {file.size}\n  }}'
        for file in manifest.files
    )
    return f'{{\n  "files" : [ {files} ]\n}}'.encode()


def decode_version(content: bytes, *, where: str) -> int:
    """Return the number of the current manifest."""
    if not _VERSION.fullmatch(content.strip()):
        raise Corrupt("does not hold the number of a manifest", where=where)
    return int(content)


def encode_version(number: int) -> bytes:
    """Return the content of ``_version_``: the number, without a newline."""
    return str(number).encode()


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A completed instant that left the timeline."""

    time: str
    completion_time: str | None
    action: Action
    """The completed action: ``commit`` for a compaction."""

    metadata: bytes | None
    """The completed file as it stood on the timeline; None also when read without contents."""

    plan: bytes | None
    """The requested file, for actions that have a plan."""

    @property
    def key(self) -> tuple[str, str]:
        """What orders entries and tells them apart."""
        return self.time, self.action.value


def read_entries(
    file: pa.NativeFile,
    *,
    where: str,
    first: str | None = None,
    last: str | None = None,
    contents: bool = True,
) -> Iterator[HistoryEntry]:
    """Yield the entries of a data file whose times are in the closed range, in the file's order.

    ``contents=False`` leaves ``metadata`` and ``plan`` unread. Memory holds a few entries.
    """
    parquet = open_parquet(file, where=where, buffer_size=_BUFFER)
    columns = [*_HEAD_COLUMNS, *_CONTENT_COLUMNS] if contents else _HEAD_COLUMNS
    _require_shape(parquet, columns, where=where)
    for batch in sound_batches(parquet, where=where, rows=_BATCH_ENTRIES, columns=columns):
        heads = batch.select(_HEAD_COLUMNS).to_pylist()
        for row, head in enumerate(heads):
            entry = _entry(head, batch if contents else None, row, where=where)
            if (first is None or entry.time >= first) and (last is None or entry.time <= last):
                yield entry


def _require_shape(parquet: pq.ParquetFile, columns: list[str], *, where: str) -> None:
    """Check that the file is one of history, and not larger than history gets."""
    for name in columns:
        found = [field for field in parquet.schema_arrow if field.name == name]
        if len(found) != 1 or found[0].type != _SCHEMA.field(name).type:
            raise Corrupt(f"column {name!r} is missing or of another type", where=where)
    if not 0 <= parquet.metadata.num_rows <= _MOST_ENTRIES:
        raise LimitExceeded(f"{where}: {parquet.metadata.num_rows} rows (limit {_MOST_ENTRIES})")


def _entry(
    head: dict[str, object], batch: pa.RecordBatch | None, row: int, *, where: str
) -> HistoryEntry:
    time, completion = head["instantTime"], head["completionTime"]
    if not isinstance(time, str) or not _TIME.fullmatch(time):
        raise Corrupt(f"an instant of time {time!r}", where=where)
    if completion is not None and not isinstance(completion, str):
        raise Corrupt(f"instant {time}: completion time {completion!r}", where=where)
    if head["version"] != _CONTENT_VERSION:
        raise Unsupported(
            f"{where}: instant {time} is of history version {head['version']}; Lakehand knows 1"
        )
    try:
        action = Action(head["action"])
    except ValueError as error:
        raise Unsupported(f"{where}: instant {time} is a {head['action']!r}: unknown") from error
    return HistoryEntry(
        time=time,
        completion_time=completion,
        action=action,
        metadata=None if batch is None else batch.column("metadata")[row].as_py(),
        plan=None if batch is None else batch.column("plan")[row].as_py(),
    )


def write_entries(sink: Sink, entries: Iterable[HistoryEntry]) -> int:
    """Write a data file of entries, which must come in order of time; return its size.

    The footer is that of Java's Avro writer, gzip, without keys and bloom filter.
    """
    options = BaseFileOptions(codec="gzip", bloom=None, statistics_columns=("instantTime",))
    avro_schema = avro_documents.schema_json("HoodieLSMTimelineInstant")
    with BaseFileWriter(sink, _SCHEMA, options=options, avro_schema=avro_schema) as writer:
        waiting: list[HistoryEntry] = []
        before = ""
        for entry in entries:
            if not _TIME.fullmatch(entry.time) or entry.time < before:
                raise Invalid(f"history entry {entry.time!r} after {before!r}: out of order")
            before = entry.time
            waiting.append(entry)
            if len(waiting) == _BATCH_ENTRIES:
                writer.write(_batch(waiting))
                waiting = []
        writer.write(_batch(waiting))
    return writer.bytes_written


def _batch(entries: list[HistoryEntry]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([entry.time for entry in entries], pa.string()),
            pa.array([entry.completion_time for entry in entries], pa.string()),
            pa.array([entry.action.value for entry in entries], pa.string()),
            pa.array([entry.metadata for entry in entries], pa.binary()),
            pa.array([entry.plan for entry in entries], pa.binary()),
            pa.array([_CONTENT_VERSION] * len(entries), pa.int32()),
        ],
        schema=_SCHEMA,
    )
