"""One data file as a task stages it: announced before its first byte, closed, handed to the driver.

::

    stage -> begin marker -> bytes -> close -> StagedFile

The begin marker names the staged place, so that whoever cleans up after us finds it. A file whose
``with`` block is left by an exception is discarded by the store's writer; the marker stays for
the write's rollback.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.errors import Unavailable
from lakehand.formats import partition_metadata
from lakehand.formats.partition_metadata import PartitionMetadata
from lakehand.ports import PutOutcome
from lakehand.protocol import leftovers, staging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.core.journal_entries import StagedFile
    from lakehand.ports import StagedWriter, Store
    from lakehand.write.shapes import Try, WriteContext, WrittenFile

_ATTEMPTS = 8


def token_of(context: WriteContext, tried: Try) -> str:
    """Return the write token of the files of a try."""
    return write_token(tried.task, context.epoch, tried.attempt)


def path_in(partition: str, name: str) -> str:
    """Return a data file's path, relative to the table's base."""
    return f"{partition}/{name}" if partition else name


def log_marker(context: WriteContext) -> MarkerKind:
    """Return how a log file is announced: from version 8 on every one is a new file."""
    by_completion = context.config.version >= FIRST_VERSION_BY_COMPLETION
    return MarkerKind.CREATE if by_completion else MarkerKind.APPEND


@contextmanager
def staged_file(
    store: Store, context: WriteContext, path: str, kind: MarkerKind
) -> Iterator[StagedWriter]:
    """Open a staged file, having announced it. The block closes it, or leaves by an exception."""
    area = staging.area(context.time, context.epoch)
    with store.stage(path, area=area) as writer:
        leftovers.begin_file(store, context.time, Marker(path, kind), writer.staged)
        yield writer


def finished(writer: StagedWriter) -> StagedFile:
    """Close a staged file and return it as the journal names it.

    Without a digest: data files are named by task, epoch and attempt, so that no other file has
    the name, and hashing them would read every byte again.
    """
    writer.close()
    return staging.as_decided(writer.staged, digest="")


@contextmanager
def discarding(store: Store, written: list[WrittenFile]) -> Iterator[None]:
    """Discard the files that a handle has finished if it fails at a later one."""
    try:
        yield
    except BaseException:
        for one in written:
            staging.discard(store, one.staged)
        raise


def ensure_partition(store: Store, context: WriteContext, partition: str) -> None:
    """Make the folder a partition for Java, unless it is one."""
    path = path_in(partition, partition_metadata.FILE_NAME)
    if store.head(path) is not None:
        return
    depth = partition.count("/") + 1 if partition else 0
    content = partition_metadata.encode(
        PartitionMetadata(commit_time=context.time, depth=depth), written_at_ms=store.now()
    )
    for _ in range(_ATTEMPTS):
        if store.put_new(path, content) is not PutOutcome.UNKNOWN or store.head(path) is not None:
            return
    raise Unavailable(f"{store.uri}/{path} cannot be written")
