"""The archived timeline of layout 1: instants that left the timeline, as records of log files.

``.commits_.archive.<n>_<token>`` is a Hudi log file of Avro blocks. Each record stands for one
*state* of an instant (requested, inflight, completed) and holds the document of that state in a
field that depends on the action; an empty file on the timeline became an empty document or none.

::

    block content = int32 3, int32 count, then for each record int32 length, Avro bytes

The block's header holds the writer's schema, and nothing else. Documents are the dictionaries
that ``formats.avro_documents`` gives for the same types: commit metadata too is Avro here, though
it was JSON on the timeline.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import Enum, unique
from functools import cache, lru_cache
from io import BytesIO
from json import loads
from typing import TYPE_CHECKING, Any

import fastavro
from fastavro.schema import SchemaParseException

from lakehand.core.instants import Action, State
from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats import avro_documents, log_file
from lakehand.formats.log_file import BlockType, HeaderKey
from lakehand.formats.writer_schemas import BadSchema, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    ParsedSchema = str | list[Any] | dict[str, Any]
    """What fastavro takes as a schema."""

_ENTRY = "HoodieArchivedMetaEntry"
_FILE = re.compile(r"\.commits_\.archive\.(\d{1,9})(?:_(\d+-\d+-\d+))?", re.ASCII)
_CONTENT_VERSION = 3
_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")

_DECODE_ERRORS = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    struct.error,
    SchemaParseException,
    fastavro.read.SchemaResolutionError,
)


@unique
class Document(Enum):
    """The fields of an entry that hold a document; the values are Hudi's names."""

    COMMIT = "hoodieCommitMetadata"
    REPLACE_COMMIT = "hoodieReplaceCommitMetadata"
    REPLACE_REQUESTED = "hoodieRequestedReplaceMetadata"
    REPLACE_INFLIGHT = "HoodieInflightReplaceMetadata"
    CLEAN_PLAN = "hoodieCleanerPlan"
    CLEAN = "hoodieCleanMetadata"
    COMPACTION_PLAN = "hoodieCompactionPlan"
    COMPACTION = "hoodieCompactionMetadata"
    """Of writers before 0.6 only."""
    ROLLBACK = "hoodieRollbackMetadata"
    SAVEPOINT = "hoodieSavePointMetadata"
    INDEX = "hoodieIndexCommitMetadata"


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """One state of an instant that left the timeline."""

    time: str
    action: Action
    state: State
    state_time: str | None
    """When the state was reached: the modification time of its file. None from old writers."""

    document: Document | None = None
    """Which document the state had; None for those without (an inflight compaction)."""

    content: dict[str, Any] | None = None

    @property
    def completion_time(self) -> str | None:
        """When the instant completed, if this is its completed state and the writer said so."""
        return self.state_time if self.state is State.COMPLETED else None


def parse_archive_file(name: str) -> int | None:
    """Return the number of an archive file, or None if the name is not one's."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])


def archive_file_name(number: int) -> str:
    """Return the name of archive file ``number``, with the write token that Java gives it."""
    return f".commits_.archive.{number}_1-0-1"


def read_entries(
    source: pa.NativeFile | bytes,
    *,
    where: str,
    on_corrupt: Callable[[Corrupt], None] | None = None,
) -> Iterator[ArchivedInstant]:
    """Yield the entries of an archive file in its order, holding one block at a time.

    A block that its writer did not finish raises ``Corrupt``; with ``on_corrupt`` that is called
    with the error instead, and reading goes on behind the block, as Java's does.
    """
    for block in log_file.read_blocks(source, where=where):
        match block.type:
            case BlockType.AVRO_DATA:
                yield from decode_block(
                    block.read(), block.schema or "", where=where, offset=block.offset
                )
            case BlockType.CORRUPT:
                error = block.corrupt("a block of the archive is broken")
                if on_corrupt is None:
                    raise error
                on_corrupt(error)
            case _:
                raise block.corrupt(f"a {block.type.name} block has no place in an archive")


def decode_block(
    content: bytes, writer_schema: str, *, where: str, offset: int = 0
) -> list[ArchivedInstant]:
    """Return the entries of one block's content; ``offset`` places the block in errors."""
    records = _split(content, where=where, offset=offset)
    try:
        writer, reader = _reading(writer_schema)
        entries = [_decode_record(record, writer, reader) for record in records]
    except BadSchema as error:
        raise Corrupt(str(error), where=where, offset=offset) from error
    except _DECODE_ERRORS as error:
        raise Corrupt(f"not an archived entry: {error}", where=where, offset=offset) from error
    return [_instant(entry, where=where, offset=offset) for entry in entries]


def _split(content: bytes, *, where: str, offset: int) -> list[bytes]:
    if len(content) < _HEAD.size:
        raise Corrupt("the block is too short", where=where, offset=offset)
    version, count = _HEAD.unpack_from(content)
    if version != _CONTENT_VERSION:
        raise Unsupported(f"{where}: an archive block of version {version}; Lakehand knows 3")
    at = _HEAD.size
    if not 0 <= count <= (len(content) - at) // _LENGTH.size:
        raise Corrupt(f"a block of {count} records", where=where, offset=offset)
    records = []
    for _ in range(count):
        if len(content) - at < _LENGTH.size:
            raise Corrupt("the block ends before its records", where=where, offset=offset)
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if not 0 <= length <= len(content) - at:
            raise Corrupt(f"a record of {length} bytes", where=where, offset=offset)
        records.append(content[at : at + length])
        at += length
    if at != len(content):
        raise Corrupt("bytes follow the block's records", where=where, offset=offset)
    return records


@cache
def _own_schema() -> ParsedSchema:
    return fastavro.parse_schema(loads(avro_documents.schema_json(_ENTRY)))


@lru_cache(maxsize=16)
def _reading(writer_schema: str) -> tuple[ParsedSchema, ParsedSchema]:
    """Return the schemas for fastavro: the writer's, judged harmless, and ours."""
    judged = canonical(writer_schema)
    if not isinstance(judged, dict) or str(judged.get("name")).rpartition(".")[2] != _ENTRY:
        raise BadSchema(f"the writer schema is not of a {_ENTRY}")
    return fastavro.parse_schema(judged), _own_schema()


def _decode_record(record: bytes, writer: ParsedSchema, reader: ParsedSchema) -> dict[str, Any]:
    source = BytesIO(record + b"\0")  # the extra byte shows reads beyond the record
    entry = fastavro.schemaless_reader(source, writer, reader)
    if source.tell() != len(record) or not isinstance(entry, dict):
        raise ValueError("a record does not end where its length says")
    return entry


def _instant(entry: dict[str, Any], *, where: str, offset: int) -> ArchivedInstant:
    time, action, state = entry["commitTime"], entry["actionType"], entry["actionState"]
    if not time or not time.isascii() or not time.isdecimal():
        raise Corrupt(f"an instant of time {time!r}", where=where, offset=offset)
    present = [document for document in Document if entry[document.value] is not None]
    if len(present) > 1:
        names = ", ".join(document.value for document in present)
        raise Corrupt(f"instant {time} has several documents: {names}", where=where, offset=offset)
    try:
        return ArchivedInstant(
            time=time,
            action=Action(action),
            # Writers before 0.6 archived completed instants only, and did not say so.
            state=State.COMPLETED if state is None else State[state],
            state_time=entry["stateTransitionTime"],
            document=present[0] if present else None,
            content=entry[present[0].value] if present else None,
        )
    except (ValueError, KeyError) as error:
        raise Unsupported(f"{where}: instant {time} is a {action!r} in state {state!r}") from error


def encode_block(instants: Sequence[ArchivedInstant]) -> bytes:
    """Return a log block of ``instants``, to be appended to an archive file."""
    records = [_encode_record(instant) for instant in instants]
    parts = [_HEAD.pack(_CONTENT_VERSION, len(records))]
    for record in records:
        parts += [_LENGTH.pack(len(record)), record]
    header = {HeaderKey.SCHEMA: avro_documents.schema_json(_ENTRY)}
    return log_file.encode_block(BlockType.AVRO_DATA, header, b"".join(parts))


def _encode_record(instant: ArchivedInstant) -> bytes:
    if (instant.document is None) != (instant.content is None):
        raise Invalid(f"instant {instant.time}: a document needs content, and content a document")
    entry: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": instant.state_time,
        "version": None,
    }
    if instant.document is not None:
        entry[instant.document.value] = instant.content
    body = BytesIO()
    try:
        fastavro.schemaless_writer(body, _own_schema(), entry)
    except _DECODE_ERRORS as error:
        raise Invalid(f"instant {instant.time}: not a {instant.document}: {error}") from error
    return body.getvalue()
