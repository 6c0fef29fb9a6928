"""Lakehand: safe table services, writes and reads for Apache Hudi tables."""

from typing import TYPE_CHECKING

from lakehand.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Invalid,
    InvariantBroken,
    LakehandError,
    LimitExceeded,
    NotFound,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from lakehand.table import Table

__all__ = [
    "Conflict",
    "Corrupt",
    "Fenced",
    "Invalid",
    "InvariantBroken",
    "LakehandError",
    "LimitExceeded",
    "NotFound",
    "Table",
    "Unavailable",
    "Unsupported",
]


def __getattr__(name: str) -> object:
    """Import the front door when it is asked for: ``lakehand.core`` alone must not need Arrow."""
    if name == "Table":
        from lakehand.table import Table

        return Table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
