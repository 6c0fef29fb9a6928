r"""Java's ``Properties`` text: the format of ``hoodie.properties`` and of partition metadata.

::

    bytes --ISO-8859-1--> natural lines --continuations--> logical lines --split, unescape--> dict

Reading follows ``java.util.Properties.load`` to the letter: ``#`` and ``!`` comments, ``=``, ``:``
or white space between key and value, ``\uXXXX`` and one-letter escapes, a line continued by an odd
number of backslashes, and of equal keys the last one wins. Only half a surrogate pair, which Java
would keep, is refused: it is no text that could be written anywhere again.

Writing escapes what the format needs and nothing more. Java also escapes ``: = # !`` inside values;
hudi-rs reads such an escape as part of the value, so values keep those characters as they are,
which every reader takes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, Invalid, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SIZE_LIMIT = 4 << 20
"""Bytes. The largest files seen hold an Avro schema of some hundred KiB."""

_BLANKS = " \t\f"
_NATURAL_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_LETTER_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE = re.compile("[\ud800-\udfff]")

_WRITTEN_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_NEEDS_ESCAPE_IN_KEY = re.compile(r"[^\x21-\x7e]|[\\=:#!]")
_NEEDS_ESCAPE_IN_VALUE = re.compile(r"[^\x20-\x7e]|\\|\A ")
_NEEDS_ESCAPE_IN_COMMENT = re.compile(r"[^\x20-\x7e]")

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse(content: bytes, *, where: str) -> dict[str, str]:
    """Return the properties in the order of their first appearance; the last value wins."""
    if len(content) > SIZE_LIMIT:
        raise LimitExceeded(f"{where}: properties of {len(content)} bytes; limit {SIZE_LIMIT}")
    properties: dict[str, str] = {}
    for offset, line in _logical_lines(content.decode("iso-8859-1")):
        split = _KEY.match(line)
        if split is None:  # the pattern matches the empty string
            raise Corrupt("a line without a key", where=where, offset=offset)
        key = _unescape(split[1], where=where, offset=offset)
        properties[key] = _unescape(line[split.end() :], where=where, offset=offset)
    return properties


def render(mapping: Mapping[str, str], *, comments: Sequence[str] = ()) -> bytes:
    """Return the text of ``mapping`` in its own order, after one line for each comment."""
    lines = ["#" + _render_comment(comment) for comment in comments]
    for key, value in mapping.items():
        escaped_key = _NEEDS_ESCAPE_IN_KEY.sub(_escape, key)
        lines.append(f"{escaped_key}={_NEEDS_ESCAPE_IN_VALUE.sub(_escape, value)}")
    return "".join(line + "\n" for line in lines).encode("ascii")


def java_date(epoch_ms: int) -> str:
    """Return the time as Java's ``Date`` prints it, in UTC: for the comments that Java writes."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    weekday, month = _WEEKDAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{weekday} {month} {moment:%d %H:%M:%S} UTC {moment.year}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the offset of its first byte."""
    pieces: list[str] = []
    start = 0
    for natural in _NATURAL_LINE.finditer(text):
        if natural.start() == len(text):
            break
        line = natural[1].lstrip(_BLANKS)
        if not any(pieces):
            # Java counts characters: after a continuation that brought none it begins anew.
            pieces.clear()
            start = natural.start()
            if not line or line[0] in "#!":
                continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        pieces.append(line[:-1] if continues else line)
        if not continues:
            yield start, "".join(pieces)
            pieces.clear()
    # A file that ends in the middle of a continuation: Java's answer depends on the line's ending.
    if any(pieces) or (pieces and not text.endswith("\r\n")):
        yield start, "".join(pieces)


def _unescape(text: str, *, where: str, offset: int) -> str:
    if "\\" not in text:
        return text

    def replace(escape: re.Match[str]) -> str:
        digits = escape[1]
        if digits is None:
            return _LETTER_ESCAPES.get(escape[2], escape[2])
        if not _HEX.fullmatch(digits):
            raise Corrupt(f"malformed escape \\u{digits!a}", where=where, offset=offset)
        return chr(int(digits, 16))

    plain = _ESCAPE.sub(replace, text)
    if not _SURROGATE.search(plain):
        return plain
    try:
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise Corrupt("half a surrogate pair", where=where, offset=offset) from error


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _WRITTEN_ESCAPES:
        return _WRITTEN_ESCAPES[character]
    if " " <= character <= "~":
        return "\\" + character
    return _unicode_escape(character)


def _unicode_escape(character: str) -> str:
    try:
        units = character.encode("utf-16-be")
    except UnicodeEncodeError as error:
        raise Invalid(f"{character!a} is half a surrogate pair and no text") from error
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))


def _render_comment(comment: str) -> str:
    if "\n" in comment or "\r" in comment:
        raise Invalid(f"a comment in a properties file is one line: {comment!r}")
    return _NEEDS_ESCAPE_IN_COMMENT.sub(lambda found: _unicode_escape(found[0]), comment)
