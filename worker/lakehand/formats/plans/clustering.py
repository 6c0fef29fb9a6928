"""``HoodieRequestedReplaceMetadata``: what a replace commit will replace; for clustering, how.

An insert-overwrite writes the document with every field null. Java's paths in a clustering plan
are absolute, so a table copied elsewhere keeps pointing at the old place: readers go by file id and
partition. Log files of a slice stand newest first.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringSlice:
    """One slice to read (``HoodieSliceInfo``)."""

    data_file_path: str | None = None
    delta_file_paths: tuple[str, ...] | None = None
    file_id: str | None
    partition_path: str | None = None
    bootstrap_file_path: str | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringGroup:
    """Slices that are read together and written to ``num_output_file_groups`` new file groups."""

    slices: tuple[ClusteringSlice, ...] | None = None
    metrics: Mapping[str, float] | None = None
    num_output_file_groups: int | None = 1
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringStrategy:
    """The Java class that executes the plan, with its parameters."""

    strategy_class_name: str | None = None
    strategy_params: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringPlan:
    """The groups and the strategy."""

    input_groups: tuple[ClusteringGroup, ...] | None = None
    strategy: ClusteringStrategy | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = None
    missing_schedule_partitions: tuple[str, ...] | None = None
    """Partitions that incremental planning left out; written from Hudi 1.0.2 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplace:
    """The whole document; ``clustering_plan`` is None unless it is a clustering."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


_REQUESTED = Document(RequestedReplace, "HoodieRequestedReplaceMetadata")
decode = _REQUESTED.decode
encode = _REQUESTED.encode
