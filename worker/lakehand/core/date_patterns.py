"""Java's date patterns, as the timestamp key generator reads and writes them.

Hudi formats partition paths with patterns like ``yyyy/MM/dd`` (Joda-Time's dialect; the letters
here mean the same in ``SimpleDateFormat``). Only numeric letters are supported, because names of
months and days depend on the writer's locale: any other letter is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from lakehand.errors import Invalid, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMERIC = "yMdDHhmsS"
_LETTERS = _NUMERIC + "aZ"
_MAX_LENGTH = 256


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A run of one pattern letter (``count`` of them), or literal text (``letter`` empty)."""

    letter: str
    count: int
    text: str = ""


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> tuple[PatternPart, ...]:
    """Return the parts of a pattern; refuses letters that Lakehand cannot write."""
    if len(pattern) > _MAX_LENGTH:
        raise Invalid(f"a date pattern of {len(pattern)} characters is too long")
    parts: list[PatternPart] = []
    # Quoted text ('' is a quote), a run of one letter, or anything else.
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])|(')", pattern):
        quoted, letter, other, stray = found.groups()
        if stray is not None:
            raise Invalid(f"date pattern {pattern!r} has an unclosed quote")
        if letter is not None:
            if letter not in _LETTERS or (letter == "M" and len(found[0]) > 2):
                raise Unsupported(
                    f"letter {found[0]!r} of date pattern {pattern!r} is not supported; "
                    f"supported are {', '.join(_LETTERS)} as numbers"
                )
            parts.append(PatternPart(letter, len(found[0])))
        elif other is not None:
            parts.append(PatternPart("", 0, other))
        else:
            parts.append(PatternPart("", 0, quoted.replace("''", "'") if quoted else "'"))
    return tuple(parts)


def format_moment(pattern: str, moment: datetime) -> str:
    """Return an aware moment, in its own zone, as the pattern shows it."""
    return "".join(_format_part(part, moment) for part in compile_pattern(pattern))


def _format_part(part: PatternPart, moment: datetime) -> str:
    count = part.count
    match part.letter:
        case "y":
            return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"
        case "M":
            return f"{moment.month:0{count}d}"
        case "d":
            return f"{moment.day:0{count}d}"
        case "D":
            return f"{moment.timetuple().tm_yday:0{count}d}"
        case "H":
            return f"{moment.hour:0{count}d}"
        case "h":
            return f"{(moment.hour - 1) % 12 + 1:0{count}d}"
        case "m":
            return f"{moment.minute:0{count}d}"
        case "s":
            return f"{moment.second:0{count}d}"
        case "S":
            return f"{moment.microsecond // 1000:03d}"[:count].ljust(count, "0")
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "Z":
            return _offset(moment, ":" if count > 1 else "")
        case _:
            return part.text


def _offset(moment: datetime, colon: str) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"


def parse_moment(patterns: Sequence[str], text: str, zone: tzinfo) -> datetime:
    """Return the moment that the first fitting pattern reads; ``zone`` if the text names none."""
    for pattern in patterns:
        found = _reader(pattern).fullmatch(text)
        if found is None:
            continue
        try:
            return _moment(found.groupdict(), zone)
        except ValueError:
            continue
    raise Invalid(f"{text!r} is not a time of the form {' or '.join(patterns)}")


@lru_cache(maxsize=64)
def _reader(pattern: str) -> re.Pattern[str]:
    parts = compile_pattern(pattern)
    expression = ""
    seen: set[str] = set()
    for part, following in zip_longest(parts, parts[1:]):
        if part.letter == "":
            expression += re.escape(part.text)
            continue
        if part.letter in seen:
            raise Unsupported(f"date pattern {pattern!r} names {part.letter!r} twice")
        seen.add(part.letter)
        # Next to another number only the written width tells where a number ends.
        is_joined = following is not None and following.letter in _NUMERIC and following.letter
        expression += f"(?P<{part.letter}>{_digits(part, is_joined=bool(is_joined))})"
    return re.compile(expression, re.ASCII)


def _digits(part: PatternPart, *, is_joined: bool) -> str:
    match part.letter:
        case "a":
            return "[AaPp][Mm]"
        case "Z":
            return r"[+-]\d\d:?\d\d"
        case "y":
            return rf"\d{{{part.count}}}" if is_joined or part.count == 2 else r"\d{1,4}"
        case "S":
            return rf"\d{{1,{max(part.count, 1)}}}"
        case _:
            widest = max(part.count, 3 if part.letter == "D" else 2)
            return rf"\d{{{part.count}}}" if is_joined else rf"\d{{1,{widest}}}"


def _moment(fields: dict[str, str | None], zone: tzinfo) -> datetime:
    def number(letter: str, default: int) -> int:
        return int(fields.get(letter) or default)

    year = number("y", 1970)
    if len(fields.get("y") or "") == 2:
        # Joda's and Java's window of two-digit years is pinned here, for repeatable paths.
        year += 2000 if year < 70 else 1900
    hour = number("H", 0)
    if fields.get("h"):
        hour = number("h", 12) % 12 + (12 if (fields.get("a") or "").upper() == "PM" else 0)
    fraction = (fields.get("S") or "0").ljust(6, "0")[:6]
    offset = fields.get("Z")
    if offset:
        sign, digits = offset[0], offset[1:].replace(":", "")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        zone = timezone(timedelta(minutes=-minutes if sign == "-" else minutes))
    moment = datetime(
        year, number("M", 1), number("d", 1), hour, number("m", 0), number("s", 0),
        int(fraction), tzinfo=zone,
    )  # fmt: skip
    if fields.get("D"):
        moment += timedelta(days=number("D", 1) - 1)
    return moment


def moment_of_millis(epoch_ms: int, zone: tzinfo) -> datetime:
    """Return the moment of epoch milliseconds; raises ``Invalid`` outside the years 1 to 9999."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
        return moment.astimezone(zone)
    except OverflowError as error:
        raise Invalid(f"{epoch_ms} ms is no time between the years 1 and 9999") from error
