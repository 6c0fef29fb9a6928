"""Partition paths: how values become folders, and folders values again.

A partition path is one part per partition field, joined by ``/``: ``2024/03/15`` or, hive style,
``year=2024/month=03``. Null and empty values share a name of their own. URL encoding, where the
table asks for it, escapes an exact set of characters; without it a value that holds ``/`` makes
several folders, and only a table with a single partition field can still be read back. (Hudi
reads a value ``k=v`` back as ``v``; here it stays what was written.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from enum import Enum, unique
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehand.core.date_patterns import (
    compile_pattern,
    format_moment,
    moment_of_millis,
    parse_moment,
)
from lakehand.core.key_generators import epoch_micros, field_value, java_string
from lakehand.errors import Invalid, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The folder of null and of empty values."""

_ESCAPED = re.compile(r'["#%\'*/:=?\\{\[\]^\x7f\x01-\x1f]')
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape(value: str) -> str:
    """Return a value URL-encoded as Hudi (and Hive) do: ``%XX`` in upper case, an exact set."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def unescape(text: str) -> str:
    """Undo ``escape``; a ``%`` that begins no escape stays."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


@unique
class PartitionType(Enum):
    """What the custom key generator does with one field; the values are Hudi's words."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition field; ``kind`` is None where an old custom table does not say it."""

    name: str
    kind: PartitionType | None = PartitionType.SIMPLE

    @classmethod
    def parse(cls, text: str, *, default: PartitionType | None) -> PartitionField:
        """Read ``field`` or, of custom key generators, ``field:TYPE``."""
        name, colon, kind = text.strip().partition(":")
        if not colon:
            return cls(name, default)
        try:
            return cls(name, PartitionType(kind.strip().upper()))
        except ValueError:
            raise Unsupported(f"partition type {kind!r} of field {name!r} is not known") from None


@unique
class TimestampType(Enum):
    """What the values of a timestamp partition field are; the values are Hudi's words."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    EPOCH_MILLIS = "EPOCHMILLISECONDS"
    EPOCH_MICROS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"


_NANOS_PER_UNIT = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
_UNIT_OF_TYPE = {
    TimestampType.UNIX_TIMESTAMP: "SECONDS",
    TimestampType.EPOCH_MILLIS: "MILLISECONDS",
    TimestampType.EPOCH_MICROS: "MICROSECONDS",
}
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """How the timestamp key generator makes a path part of a value.

    ``scalar_unit`` matters for ``SCALAR`` only, ``input_patterns`` for strings only.
    ``output_zone`` None keeps the zone that a string names.
    """

    type: TimestampType
    output_pattern: str
    input_patterns: tuple[str, ...] = ()
    input_zone: tzinfo = UTC
    output_zone: tzinfo | None = UTC
    scalar_unit: str = "SECONDS"

    def __post_init__(self) -> None:
        compile_pattern(self.output_pattern)
        if self.scalar_unit not in _NANOS_PER_UNIT:
            raise Unsupported(f"time unit {self.scalar_unit!r} of a partition field is not known")

    def text_of(self, value: object) -> str:
        """Return the path part of a value; null counts as the first moment of 1970."""
        match value:
            case None:
                moment = moment_of_millis(self._millis(1) if self._unit else 1, self._zone)
            case str():
                if not self.input_patterns:
                    raise Invalid("no input date format is set for a partition field of strings")
                moment = parse_moment(self.input_patterns, value, self.input_zone)
                moment = moment.astimezone(self.output_zone or moment.tzinfo)
            case bool():
                raise Invalid("a boolean cannot be a timestamp partition")
            case int() | float() | Decimal():
                moment = moment_of_millis(self._millis(_whole(value)), self._zone)
            case datetime():
                moment = moment_of_millis(self._millis(epoch_micros(value)), self._zone)
            case date():
                days = value.toordinal() - date(1970, 1, 1).toordinal()
                moment = moment_of_millis(self._millis(days), self._zone)
            case _:
                raise Invalid(
                    f"a value of type {type(value).__name__} cannot be a timestamp partition"
                )
        return format_moment(self.output_pattern, moment)

    @property
    def _zone(self) -> tzinfo:
        return self.output_zone or UTC

    @property
    def _unit(self) -> str | None:
        if self.type is TimestampType.SCALAR:
            return self.scalar_unit
        return _UNIT_OF_TYPE.get(self.type)

    def _millis(self, value: int) -> int:
        if self._unit is None:
            raise Invalid(f"a number is not a time of type {self.type.value}")
        nanos = value * _NANOS_PER_UNIT[self._unit]
        # Java's conversion of units truncates towards zero.
        millis = abs(nanos) // _NANOS_PER_MILLI
        return -millis if nanos < 0 else millis


def _whole(value: float | Decimal) -> int:
    try:
        return int(value)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{value} cannot be a timestamp partition") from error


def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name in a table's settings."""
    try:
        return ZoneInfo(name) if name.upper() not in {"UTC", "GMT", "Z"} else UTC
    except (ValueError, KeyError, OSError) as error:
        raise Unsupported(f"time zone {name!r} is not known here") from error


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """How a table's records are spread over folders; no fields means not at all.

    ``slash_dates``: dates ``2024-03-15`` become folders ``2024/03/15`` (Hudi 1.2). ``problem``
    says what of the table's settings was not understood.
    """

    fields: tuple[PartitionField, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    slash_dates: bool = False
    timestamp: TimestampFormat | None = None
    problem: str | None = None

    @property
    def refusal(self) -> str | None:
        """Why paths cannot be made, if so; reading them back needs less."""
        if self.problem is not None:
            return self.problem
        for field in self.fields:
            if field.kind is None:
                return (
                    f"the table does not say of what type partition field {field.name!r} is: "
                    "its writers keep the custom key generator's settings to themselves"
                )
            if field.kind is PartitionType.TIMESTAMP and self.timestamp is None:
                return (
                    f"the table does not say how partition field {field.name!r} is formatted: "
                    "its writers keep the timestamp settings to themselves"
                )
        return None

    def path_of(self, record: Mapping[str, Any]) -> str:
        """Return the partition path of a record."""
        if self.refusal is not None:
            raise Unsupported(self.refusal)
        return "/".join(self._part(field, field_value(record, field.name)) for field in self.fields)

    def _part(self, field: PartitionField, value: object) -> str:
        if field.kind is PartitionType.TIMESTAMP and self.timestamp is not None:
            text = self.timestamp.text_of(value)
        else:
            text = ("" if value is None else java_string(value)) or DEFAULT_PARTITION
        if self.url_encode:
            text = escape(text)
        if self.slash_dates:
            text = text.replace("-", "/")
        return f"{field.name}={text}" if self.hive_style else text

    def values_of(self, path: str) -> dict[str, str | None]:
        """Return each field's value as text, None for the folder of null and empty values."""
        if not self.fields:
            if path:
                raise Invalid(f"partition {path!r} in a table without partition fields")
            return {}
        parts = [path] if len(self.fields) == 1 else path.split("/")
        if len(parts) != len(self.fields):
            raise Invalid(
                f"partition {path!r} has {len(parts)} levels for {len(self.fields)} fields: "
                "its values hold slashes and cannot be told apart"
            )
        return {
            field.name: self._value(field, part)
            for field, part in zip(self.fields, parts, strict=True)
        }

    def _value(self, field: PartitionField, part: str) -> str | None:
        text = part
        if self.hive_style:
            name, equals, text = part.partition("=")
            if not equals or name != field.name:
                raise Invalid(f"partition folder {part!r} does not begin with '{field.name}='")
        if text == DEFAULT_PARTITION:
            return None
        if self.slash_dates:
            text = text.replace("/", "-")
        return unescape(text) if self.url_encode else text


@unique
class ValueType(Enum):
    """The column types that a partition value can be read back as."""

    STRING = "string"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"


def parse_value(text: str | None, kind: ValueType) -> object:
    """Return the value that a path's text stands for; raises ``Invalid`` if it stands for none."""
    if text is None:
        return None
    if kind is not ValueType.STRING and not _PLAIN.fullmatch(text):
        raise Invalid(f"partition value {text!r} is no {kind.value}")
    try:
        return _READERS[kind](text)
    except (ValueError, KeyError, InvalidOperation, OverflowError) as error:
        raise Invalid(f"partition value {text!r} is no {kind.value}") from error


_PLAIN = re.compile(r"[0-9A-Za-z.+-]{1,4000}")
_READERS: dict[ValueType, Callable[[str], object]] = {
    ValueType.STRING: str,
    ValueType.BOOLEAN: lambda text: {"true": True, "false": False}[text.lower()],
    ValueType.INTEGER: int,
    ValueType.FLOAT: float,
    ValueType.DECIMAL: Decimal,
    ValueType.DATE: date.fromisoformat,
    ValueType.TIMESTAMP: lambda text: (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text))
    ),
}


def split_fields(text: str) -> Sequence[str]:
    """Return the fields of a comma list, as Hudi splits it: empty ones do not count."""
    return [field.strip() for field in text.split(",") if field.strip()]
