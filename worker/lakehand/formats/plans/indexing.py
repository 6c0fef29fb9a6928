"""``HoodieIndexPlan`` and ``HoodieIndexCommitMetadata``: metadata table partitions to build."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPartition:
    """One partition of the metadata table, and the instant up to which it is built."""

    version: int | None = 1
    metadata_partition_path: str | None = None
    index_upto_instant: str | None = None
    extra_metadata: Mapping[str, str] | None = None
    """Written from Hudi 1.1 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """What will be built."""

    version: int | None = 1
    index_partition_infos: tuple[IndexPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCommitMetadata:
    """What was built."""

    version: int | None = 1
    operation_type: str | None = None
    index_partition_infos: tuple[IndexPartition, ...] | None = None


_PLAN = Document(IndexPlan, "HoodieIndexPlan")
_METADATA = Document(IndexCommitMetadata, "HoodieIndexCommitMetadata")
decode_plan = _PLAN.decode
encode_plan = _PLAN.encode
decode_metadata = _METADATA.decode
encode_metadata = _METADATA.encode
