"""Where the files of a slice lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehand.core.file_slices import FileEntry, FileSlice


def data_path(part: FileSlice, entry: FileEntry) -> str:
    """Return the path of one of the slice's files, relative to the table's base."""
    return f"{part.partition}/{entry.name}" if part.partition else entry.name
