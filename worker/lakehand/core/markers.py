"""Marker names: which data file a marker announces, and by which kind of write.

A marker is ``<partition>/<data file>.marker.<CREATE|MERGE|APPEND>`` below ``.hoodie/.temp/<T>``.
Markers of Lakehand (and Hudi's direct ones) are files of that name; Hudi's marker server keeps
lists of them in ``MARKERS<n>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from lakehand.core import file_names

_SEPARATOR = ".marker."
EPOCH_BASE = 1_500_000_000
"""Middle numbers of Lakehand's write tokens begin here; Java's are Spark stage ids."""


@unique
class MarkerKind(Enum):
    """What a write does to the file that its marker names."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"
    """Up to table version 6: the file may hold blocks of other writes too."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A data file, relative to the table's base, and how it is written."""

    path: str
    kind: MarkerKind

    @property
    def name(self) -> str:
        """The marker's path below its instant's folder."""
        return f"{self.path}{_SEPARATOR}{self.kind.value}"

    @property
    def epoch(self) -> int:
        """The attempt that writes the file; 0: a foreign one."""
        return epoch_of_file(self.path)


def parse(name: str) -> Marker | None:
    """Return what a marker says, or None if the name is no marker's."""
    path, separator, kind = name.rpartition(_SEPARATOR)
    if not (path and separator) or kind not in MarkerKind.__members__:
        return None
    return Marker(path, MarkerKind[kind])


def write_token(task: int, epoch: int, attempt: int) -> str:
    """Return the token of files that a task's try writes for an attempt."""
    return f"{task}-{EPOCH_BASE + epoch}-{attempt}"


def epoch_of_file(path: str) -> int:
    """Return the attempt that wrote a data file; 0 for a foreign writer's."""
    name = path.rpartition("/")[2]
    base = file_names.parse_base_file(name)
    log = None if base is not None else file_names.parse_log_file(name)
    token = base.write_token if base is not None else (log.write_token if log is not None else "")
    parts = (token or "").split("-")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[1].isascii()):
        return 0
    return max(0, int(parts[1]) - EPOCH_BASE) if len(parts[1]) <= 12 else 0
