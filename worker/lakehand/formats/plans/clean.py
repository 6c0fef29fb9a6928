"""``HoodieCleanerPlan`` and ``HoodieCleanMetadata``: which files a clean removes, and removed.

Paths to delete are absolute in the plan; the metadata holds bare file names.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document

PLAN_VERSION = 2
METADATA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedInstant:
    """The oldest instant that stays readable (``HoodieActionInstant``)."""

    timestamp: str
    action: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFile:
    """One file to delete."""

    file_path: str | None = None
    is_bootstrap_base_file: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan:
    """What a clean will delete."""

    earliest_instant_to_retain: RetainedInstant | None = None
    last_completed_commit_timestamp: str = ""
    policy: str
    files_to_be_deleted_per_partition: Mapping[str, tuple[str, ...]] | None = None
    """Plan version 1's files; version 2 writes ``{}``."""
    version: int | None = PLAN_VERSION
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[CleanFile, ...]] | None = None
    partitions_to_be_deleted: tuple[str, ...] | None = None
    extra_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPartition:
    """What happened in one partition (``HoodieCleanPartitionMetadata``)."""

    partition_path: str
    policy: str
    delete_path_patterns: tuple[str, ...]
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...]
    is_partition_deleted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata:
    """What a clean has deleted."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    partition_metadata: Mapping[str, CleanedPartition]
    version: int | None = METADATA_VERSION
    bootstrap_partition_metadata: Mapping[str, CleanedPartition] | None = None
    extra_metadata: Mapping[str, str] | None = None


_PLAN = Document(CleanerPlan, "HoodieCleanerPlan")
_METADATA = Document(CleanMetadata, "HoodieCleanMetadata")
decode_plan = _PLAN.decode
encode_plan = _PLAN.encode
decode_metadata = _METADATA.decode
encode_metadata = _METADATA.encode
