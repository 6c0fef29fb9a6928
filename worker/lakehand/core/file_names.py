"""Names of data files: what they say of the file group, the write and the instant.

Base files are ``<fileId>_<writeToken>_<instant><extension>``; log files are
``.<fileId>_<instant>.log.<version>_<writeToken>``. The instant in a log file's name is the *base
instant of its slice* up to table version 7, and the *delta commit's own* instant from version 8
on: ``core.file_slices`` knows which. Names that follow neither pattern are not Hudi's.

A table can hold 100,000 files, so names are split by hand: a regular expression takes three
times as long. The ``split_*`` functions give plain tuples, ``parse_*`` give them names.
"""

from __future__ import annotations

from dataclasses import dataclass

CRC_SUFFIX = ".crc"
"""Hadoop's checksum side files, ``.<name>.crc``: never data."""

_CDC_SUFFIX = ".cdc"
_MAX_VERSION_DIGITS = 9


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
        suffix = _CDC_SUFFIX if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{suffix}"

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """The sort key of the log files of one slice: oldest first, no token before any."""
        return (self.instant, self.version, self.write_token or "", self.is_cdc)


def split_base_name(name: str) -> tuple[str, str, str, str] | None:
    """Return file id, write token, instant and extension, or None if it is no base file."""
    parts = name.split("_")
    if len(parts) != 3 or name[0] == ".":
        return None
    file_id, write_token, rest = parts
    instant, dot, extension = rest.partition(".")
    if not (file_id and write_token and extension and instant.isdecimal() and instant.isascii()):
        return None
    return file_id, write_token, instant, dot + extension


def split_log_name(name: str) -> tuple[str, str, int, str, bool] | None:
    """Return file id, instant, version, write token ("" if none) and whether it holds CDC data.

    None if it is no log file.
    """
    head, dot_log, tail = name.rpartition(".log.")
    if not dot_log or name[0] != ".":
        return None
    file_id, underscore, instant = head[1:].rpartition("_")
    if not (file_id and underscore) or "." in instant:
        return None
    is_cdc = tail.endswith(_CDC_SUFFIX)
    if is_cdc:
        tail = tail[: -len(_CDC_SUFFIX)]
    version, underscore, token = tail.partition("_")
    if not (version.isdecimal() and tail.isascii() and len(version) <= _MAX_VERSION_DIGITS):
        return None
    if underscore and not _is_write_token(token):
        return None
    return file_id, instant, int(version), token, is_cdc


def _is_write_token(text: str) -> bool:
    parts = text.split("-")
    return (
        len(parts) == 3 and parts[0].isdecimal() and parts[1].isdecimal() and parts[2].isdecimal()
    )


def parse_base_file(name: str) -> BaseFileName | None:
    """Return the parts of a base file's name, or None if it is not one."""
    parts = split_base_name(name)
    return None if parts is None else BaseFileName(*parts)


def parse_log_file(name: str) -> LogFileName | None:
    """Return the parts of a log file's name, or None if it is not one."""
    parts = split_log_name(name)
    if parts is None:
        return None
    file_id, instant, version, token, is_cdc = parts
    return LogFileName(file_id, instant, version, token or None, is_cdc=is_cdc)


def bucket_of(file_id: str) -> int | None:
    """Return the bucket that a file id of the bucket index names, or None."""
    bucket, dash, rest = file_id[:8], file_id[8:9], file_id[9:]
    if dash == "-" and rest and bucket.isdecimal() and bucket.isascii():
        return int(bucket)
    return None
