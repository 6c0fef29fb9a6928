"""``HoodieSavepointMetadata``: which files a savepoint pins.

The savepoint's instant is the commit that it pins; cleans and rollbacks leave its files alone.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPartition:
    """The pinned files of one partition: names of base and log files."""

    partition_path: str
    savepoint_data_file: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata:
    """The whole document; ``savepointed_at`` is in epoch milliseconds."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, SavepointPartition]
    version: int | None = 1


_METADATA = Document(SavepointMetadata, "HoodieSavepointMetadata")
decode = _METADATA.decode
encode = _METADATA.encode
