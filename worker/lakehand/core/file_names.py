"""Names of data files: what they say of the file group, the write and the instant.

Base files are ``<fileId>_<writeToken>_<instant><extension>``; log files are
``.<fileId>_<instant>.log.<version>_<writeToken>``. The instant in a log file's name is the *base
instant of its slice* up to table version 7, and the *delta commit's own* instant from version 8
on: ``core.file_slices`` knows which. Names that follow neither pattern are not Hudi's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOG_NAME = re.compile(
    r"\.(?P<file_id>.+)_(?P<instant>[^_.]*)\.log\.(?P<version>\d{1,9})"
    r"(?:_(?P<token>\d+-\d+-\d+))?(?P<cdc>\.cdc)?",
    re.ASCII,
)

CRC_SUFFIX = ".crc"
"""Hadoop's checksum side files, ``.<name>.crc``: never data."""


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parts of a base file's name."""

    file_id: str
    write_token: str
    instant: str
    extension: str

    def __str__(self) -> str:
        """Return the name as it stands on storage."""
        return f"{self.file_id}_{self.write_token}_{self.instant}{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """The parts of a log file's name; ``write_token`` is None in names of very old writers."""

    file_id: str
    instant: str
    version: int
    write_token: str | None
    is_cdc: bool = False

    def __str__(self) -> str:
        """Return the name as it stands on storage."""
        token = "" if self.write_token is None else f"_{self.write_token}"
        suffix = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{suffix}"

    @property
    def order(self) -> tuple[str, int, bool, str, bool]:
        """The sort key of the log files of one slice: oldest first."""
        return (
            self.instant,
            self.version,
            self.write_token is not None,
            self.write_token or "",
            self.is_cdc,
        )


def parse_base_file(name: str) -> BaseFileName | None:
    """Return the parts of a base file's name, or None if it is not one."""
    if name.startswith("."):
        return None
    parts = name.split("_")
    if len(parts) != 3:
        return None
    file_id, write_token, rest = parts
    instant, dot, extension = rest.partition(".")
    if not (file_id and write_token and dot and extension and instant.isdecimal()):
        return None
    return BaseFileName(file_id, write_token, instant, "." + extension)


def parse_log_file(name: str) -> LogFileName | None:
    """Return the parts of a log file's name, or None if it is not one."""
    if not name.startswith("."):
        return None
    found = _LOG_NAME.fullmatch(name)
    if found is None:
        return None
    return LogFileName(
        file_id=found["file_id"],
        instant=found["instant"],
        version=int(found["version"]),
        write_token=found["token"],
        is_cdc=found["cdc"] is not None,
    )
