"""Lakehand: safe table services, writes and reads for Apache Hudi tables."""

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

__all__ = [
    "Conflict",
    "Corrupt",
    "Fenced",
    "Invalid",
    "InvariantBroken",
    "LakehandError",
    "LimitExceeded",
    "NotFound",
    "Unavailable",
    "Unsupported",
]
