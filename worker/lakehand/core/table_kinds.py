"""The closed sets that say what kind of table it is: type, version, zone of its timeline."""

from __future__ import annotations

from enum import Enum, IntEnum, unique

META_FOLDER = ".hoodie"
"""The folder, in the table's base, that holds everything but data."""


@unique
class TableType(Enum):
    """Whether updates rewrite files or go to logs; the values are Hudi's words."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


@unique
class TableVersion(IntEnum):
    """The table versions that Lakehand keeps true."""

    SIX = 6
    EIGHT = 8
    NINE = 9

    @property
    def layout(self) -> int:
        """The timeline layout that goes with the version."""
        return 1 if self is TableVersion.SIX else 2


@unique
class TimelineZone(Enum):
    """In which zone instant times are written; LOCAL is that of the writers' machines."""

    LOCAL = "LOCAL"
    UTC = "UTC"
