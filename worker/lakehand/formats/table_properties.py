"""``hoodie.properties``: the table's settings, with the checksum that Java insists on.

The checksum covers the names of database and table only, so it survives every other edit. Java
takes a file without one and refuses one that is wrong; so does Lakehand.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakehand.core.table_keys import HoodieKey
from lakehand.errors import Corrupt, Invalid
from lakehand.formats import java_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = HoodieKey.NAME.value.name
_DATABASE = HoodieKey.DATABASE.value.name
_CHECKSUM = HoodieKey.CHECKSUM.value.name


def decode(content: bytes, *, where: str) -> dict[str, str]:
    """Return the properties; a file without a table name or with a wrong sum is ``Corrupt``."""
    properties = java_properties.parse(content, where=where)
    if not properties.get(_NAME):
        raise Corrupt(f"no {_NAME}: not the properties of a table", where=where)
    found, right = properties.get(_CHECKSUM), checksum(properties)
    if found is not None and found.strip() != right:
        raise Corrupt(f"{_CHECKSUM} is {found!r}, but the names give {right}", where=where)
    return properties


def encode(properties: Mapping[str, str], *, comments: Sequence[str] = ()) -> bytes:
    """Return the file's content, with the right checksum whatever ``properties`` says of it."""
    if not properties.get(_NAME):
        raise Invalid(f"a table needs a name: set {_NAME}")
    whole = dict(properties) | {_CHECKSUM: checksum(properties)}
    return java_properties.render(whole, comments=comments)


def without_checksum(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what a person could have set: two files that agree in it say the same."""
    return {key: value for key, value in properties.items() if key != _CHECKSUM}


def checksum(properties: Mapping[str, str]) -> str:
    """Return the value that belongs under the checksum's key."""
    names = f"{properties.get(_DATABASE, '')}.{properties.get(_NAME, '')}"
    return str(zlib.crc32(names.encode("utf-8")))


def creation_comments(epoch_ms: int) -> tuple[str, str]:
    """Return the two comment lines with which Java begins a new table's file."""
    return f"Properties saved on {_iso_instant(epoch_ms)}", java_properties.java_date(epoch_ms)


def update_comments(epoch_ms: int) -> tuple[str, str]:
    """Return the two comment lines with which Java begins a changed file."""
    return f"Updated at {_iso_instant(epoch_ms)}", java_properties.java_date(epoch_ms)


def _iso_instant(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"
