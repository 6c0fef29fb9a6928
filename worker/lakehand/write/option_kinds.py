"""The types that an option of a write can have: which values there are, and how text becomes one.

Options come from Python as values and from Spark or a file as text; both mean the same. Hudi's
keys may count in another unit than the option of ours (bytes and megabytes): ``per_unit`` says how
many of theirs make one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, assert_never

from lakehand.core.partition_paths import split_fields
from lakehand.errors import Invalid, Unsupported


class Flag(NamedTuple):
    """True or false, also as text."""


class Amount(NamedTuple):
    """A number from ``low`` to ``high``."""

    low: float
    high: float
    is_whole: bool = False


class Choice(NamedTuple):
    """One of some words, whatever their case."""

    values: Mapping[str, Any]
    aliases: Mapping[str, str] = {}
    """Other words (Java's classes), and the word that they stand for."""
    refused: Mapping[str, str] = {}
    """Words that Hudi knows and Lakehand does not, and what to do."""


class Names(NamedTuple):
    """Column names: a sequence, or text with commas between."""


class Text(NamedTuple):
    """Text that is not empty; whole numbers are taken as text."""


class Texts(NamedTuple):
    """A mapping of names to text."""


Kind: TypeAlias = Flag | Amount | Choice | Names | Text | Texts


def allowed(kind: Kind, per_unit: int = 1) -> str:
    """Say which values there are."""
    match kind:
        case Flag():
            return "true or false"
        case Amount(low, high, is_whole):
            what = "a whole number" if is_whole else "a number"
            return f"{what} from {low * per_unit:.15g} to {high * per_unit:.15g}"
        case Choice(values):
            return ", ".join(values)
        case Names():
            return "column names, as a list or with commas between"
        case Text():
            return "text"
        case Texts():
            return "a mapping of names to text"
        case _:
            assert_never(kind)


def read(kind: Kind, spelling: str, raw: object, per_unit: int) -> Any:  # noqa: ANN401
    """Return a value in the option's type and unit."""
    match kind:
        case Flag():
            found: Any = {"true": True, "false": False}.get(as_text(raw).lower())
        case Amount():
            found = _amount(kind, raw, per_unit)
        case Choice():
            found = _choice(kind, spelling, raw)
        case Names():
            found = _names(raw)
        case Text():
            is_text = isinstance(raw, (str, int)) and not isinstance(raw, bool)
            found = (as_text(raw) or None) if is_text else None
        case Texts():
            found = _texts(raw)
        case _:
            assert_never(kind)
    if found is None:
        raise Invalid(f"{spelling}={raw!r} is not allowed: {allowed(kind, per_unit)}")
    return found


def _amount(kind: Amount, raw: object, per_unit: int) -> float | int | None:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    number /= per_unit
    if not kind.low <= number <= kind.high or (kind.is_whole and not number.is_integer()):
        return None
    return int(number) if kind.is_whole else number


def _choice(kind: Choice, spelling: str, raw: object) -> Any:  # noqa: ANN401 - one of its values
    text = as_text(getattr(raw, "value", raw))
    for word, what_to_do in kind.refused.items():
        if word.lower() == text.lower():
            raise Unsupported(f"{spelling}={text} is not supported: {what_to_do}")
    word = kind.aliases.get(text, kind.aliases.get(text.lower(), text))
    return {one.lower(): value for one, value in kind.values.items()}.get(word.lower())


def _names(raw: object) -> tuple[str, ...] | None:
    if isinstance(raw, str):
        return tuple(split_fields(raw))
    if isinstance(raw, Sequence) and all(isinstance(one, str) and one for one in raw):
        return tuple(raw)
    return None


def _texts(raw: object) -> dict[str, str] | None:
    if not isinstance(raw, Mapping) or not all(isinstance(name, str) and name for name in raw):
        return None
    return {name: as_text(value) for name, value in raw.items()}


def as_text(raw: object) -> str:
    """Return a value as Hudi's options spell it."""
    return str(raw).lower() if isinstance(raw, bool) else str(raw).strip()
