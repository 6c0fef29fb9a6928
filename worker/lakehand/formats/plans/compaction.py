"""``HoodieCompactionPlan``: which slices a compaction or log compaction merges.

In plan version 2 the file names of an operation are bare names inside its partition. Log files
stand oldest first, with their write tokens. A log compaction's plan is the same document; its
``strategy`` names the class that executes it, where a compaction's says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document

PLAN_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One slice to merge."""

    base_instant_time: str | None
    delta_file_paths: tuple[str, ...] | None = None
    data_file_path: str | None = None
    """The base file's name; None when the slice has only log files."""
    file_id: str | None
    partition_path: str | None = None
    metrics: Mapping[str, float] | None = None
    bootstrap_file_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStrategy:
    """The Java class that executes the plan, with its parameters."""

    compactor_class_name: str | None = None
    strategy_params: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The whole plan."""

    operations: tuple[CompactionOperation, ...] | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = PLAN_VERSION
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: tuple[str, ...] | None = None
    """Partitions that incremental planning left out; written from Hudi 1.0.2 on."""


_PLAN = Document(CompactionPlan, "HoodieCompactionPlan")
decode = _PLAN.decode
encode = _PLAN.encode
