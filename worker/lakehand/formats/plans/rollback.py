"""``HoodieRollbackPlan`` and ``HoodieRollbackMetadata``: how a failed write is undone.

Table version 6 undoes a log block by a command block in a further log file; from version 8 on the
log files of a failed write are deleted like its base files.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document, named


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantInfo:
    """An instant by its time and its action's name."""

    commit_time: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """What is to be undone in one file group; log files of one group share one request."""

    partition_path: str
    file_id: str | None = None
    latest_base_instant: str | None = None
    files_to_be_deleted: tuple[str, ...] = ()
    """Absolute paths."""
    log_blocks_to_be_deleted: Mapping[str, int] | None = None
    """Log files of table version 6 that need a command block: full URI to size, or name to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What a rollback will do."""

    instant_to_rollback: InstantInfo | None = None
    rollback_requests: tuple[RollbackRequest, ...] | None = named("RollbackRequests", default=None)
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBackPartition:
    """What happened in one partition (``HoodieRollbackPartitionMetadata``)."""

    partition_path: str
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...]
    rollback_log_files: Mapping[str, int] | None = None
    """Table version 6: the log files that hold the command blocks, with their size."""
    log_files_from_failed_commit: Mapping[str, int] | None = None
    """Table version 6: the log files whose blocks no longer count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata:
    """What a rollback has done."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, RolledBackPartition]
    version: int | None = 1
    instants_rollback: tuple[InstantInfo, ...] = ()


_PLAN = Document(RollbackPlan, "HoodieRollbackPlan")
_METADATA = Document(RollbackMetadata, "HoodieRollbackMetadata")
decode_plan = _PLAN.decode
encode_plan = _PLAN.encode
decode_metadata = _METADATA.decode
encode_metadata = _METADATA.encode
