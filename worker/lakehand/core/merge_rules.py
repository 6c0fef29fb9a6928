"""Merge rules as data: which of several versions of one record is the row.

Hudi names the rule in four generations of settings (payload class, merge strategy id, merge mode,
merge mode plus migrated payload); ``infer`` reads them all, as Hudi 1.x and hudi-rs do. Two rules
come out, **event time** and **commit time**; anything else is refused by name, but only once
records must be merged: base files alone can be read whatever the rule.

Hudi 0.14 and 0.15 merge differently from 1.x in two points (``Dialect``). A table of version 6 is
merged as the release does that writes it, which its properties show: 1.x leaves keys of its own.

``winner`` and ``merge`` say on single records what the vectorised reader does on columns: they
are its model, and too slow for anything but tests and a handful of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from lakehand.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

IS_DELETED_COLUMN = "_hoodie_is_deleted"
"""A boolean column of the user's: true deletes the record."""

OPERATION_COLUMN = "_hoodie_operation"
"""A meta column of CDC-style writers: ``D`` deletes the record."""

DELETE_OPERATION = "D"

EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"

_MODEL = "org.apache.hudi.common.model."
DEFAULT_PAYLOAD = _MODEL + "DefaultHoodieRecordPayload"
OVERWRITE_PAYLOAD = _MODEL + "OverwriteWithLatestAvroPayload"
EVENT_TIME_PAYLOAD = _MODEL + "EventTimeAvroPayload"


@unique
class MergeMode(Enum):
    """Which version of a record wins; the values are Hudi's words."""

    EVENT_TIME = "EVENT_TIME_ORDERING"
    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


@unique
class Dialect(Enum):
    """Whose habits a merge follows where Hudi's releases differ."""

    MODES = "1.x"
    """The merge mode decides everywhere; a delete entry is ordered like any other record."""

    PAYLOADS = "0.x"
    """Log records are compared by ordering value in commit-time mode too (the newest then wins
    over the base file). A delete entry that stands among the log records deletes whatever the
    base file has, and gives way to any later record."""


_MODE_OF_PAYLOAD = {
    DEFAULT_PAYLOAD: MergeMode.EVENT_TIME,
    EVENT_TIME_PAYLOAD: MergeMode.EVENT_TIME,
    OVERWRITE_PAYLOAD: MergeMode.COMMIT_TIME,
}
_MODE_OF_STRATEGY = {
    EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME,
    COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME,
}
PAYLOAD_OF_MODE = {
    MergeMode.EVENT_TIME: DEFAULT_PAYLOAD,
    MergeMode.COMMIT_TIME: OVERWRITE_PAYLOAD,
}
STRATEGY_OF_MODE = {mode: strategy for strategy, mode in _MODE_OF_STRATEGY.items()}


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """What a table's properties say about merging; empty strings where they say nothing."""

    version: int
    ordering_fields: tuple[str, ...] = ()
    mode: str = ""
    payload_class: str = ""
    strategy_id: str = ""
    partial_update_mode: str = ""
    delete_field: str = ""
    delete_marker: str = ""
    dialect: Dialect = Dialect.MODES


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How the versions of one record become one row.

    ``delete_field`` and ``delete_marker`` are set together: a record whose field, as text, equals
    the marker is a delete. ``refusal`` says why the rule cannot be followed, if so.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    delete_field: str | None = None
    delete_marker: str | None = None
    refusal: str | None = None
    dialect: Dialect = Dialect.MODES

    @property
    def orders_log(self) -> bool:
        """Whether ordering values decide among log records."""
        by_payload = self.mode is MergeMode.COMMIT_TIME and self.dialect is Dialect.PAYLOADS
        return self.uses_ordering or (by_payload and bool(self.ordering_fields))

    @property
    def uses_ordering(self) -> bool:
        """Whether ordering values decide against the base; without fields the newest wins."""
        return self.mode is MergeMode.EVENT_TIME and bool(self.ordering_fields)

    def require_supported(self) -> None:
        """Raise ``Unsupported`` if records cannot be merged by this rule."""
        if self.refusal is not None:
            raise Unsupported(self.refusal)

    def is_delete(self, record: Mapping[str, Any]) -> bool:
        """Whether a data record says of itself that it is a delete."""
        if record.get(IS_DELETED_COLUMN) is True:
            return True
        if record.get(OPERATION_COLUMN) == DELETE_OPERATION:
            return True
        if self.delete_field is None:
            return False
        value = record.get(self.delete_field)
        return value is not None and str(value) == self.delete_marker


def infer(settings: MergeSettings) -> MergeRule:
    """Return the rule that the settings mean, as Hudi 1.x infers it."""
    mode = _infer_mode(settings)
    marked = bool(settings.delete_field and settings.delete_marker)
    return MergeRule(
        mode=mode,
        ordering_fields=settings.ordering_fields,
        delete_field=settings.delete_field if marked else None,
        delete_marker=settings.delete_marker if marked else None,
        refusal=_refusal(settings, mode),
        dialect=settings.dialect,
    )


def _infer_mode(settings: MergeSettings) -> MergeMode:
    """Return the mode; up to version 7 the payload class outweighs the strategy id."""
    if settings.mode:
        try:
            return MergeMode(settings.mode.upper())
        except ValueError:
            raise Unsupported(
                f"record merge mode {settings.mode!r} is not known; "
                f"known are {', '.join(mode.value for mode in MergeMode)}"
            ) from None
    by_payload = _mode_named(settings.payload_class, _MODE_OF_PAYLOAD)
    by_strategy = _mode_named(settings.strategy_id, _MODE_OF_STRATEGY)
    first, second = (by_payload, by_strategy) if settings.version < 8 else (by_strategy, by_payload)
    if first is not None:
        return first
    if second is not None:
        return second
    return MergeMode.EVENT_TIME if settings.ordering_fields else MergeMode.COMMIT_TIME


def _mode_named(text: str, known: Mapping[str, MergeMode]) -> MergeMode | None:
    return known.get(text, MergeMode.CUSTOM) if text else None


def _refusal(settings: MergeSettings, mode: MergeMode) -> str | None:
    partial = settings.partial_update_mode
    if partial and partial.upper() != "NONE":
        return (
            f"partial update mode {partial} is not supported: merge this table with Hudi itself, "
            "compact it there, and read its base files"
        )
    if mode is not MergeMode.CUSTOM:
        return None
    by_payload = settings.strategy_id in {"", PAYLOAD_STRATEGY} or settings.version < 8
    if settings.payload_class and by_payload:
        what = f"payload class {settings.payload_class}"
    else:
        what = f"merge strategy {settings.strategy_id or 'CUSTOM without an id'}"
    return (
        f"{what} runs code of its own and is not supported: Lakehand merges by event time "
        f"({DEFAULT_PAYLOAD}) and by commit time ({OVERWRITE_PAYLOAD})"
    )


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a record: its ordering values, and the record (None: a delete).

    ``ordering`` is None for deletes by natural order (Hudi writes the int 0, or nothing) and for
    data whose ordering value is null.
    """

    record: Mapping[str, Any] | None
    ordering: tuple[Any, ...] | None = None

    @property
    def is_delete(self) -> bool:
        """Whether this version deletes the record."""
        return self.record is None


def winner(rule: MergeRule, older: Version, newer: Version) -> Version:
    """Return which of two versions stands; ``newer`` was written later."""
    return _winner(rule, older, newer, by_ordering=rule.uses_ordering)


def _winner(rule: MergeRule, older: Version, newer: Version, *, by_ordering: bool) -> Version:
    rule.require_supported()
    if not by_ordering or older.ordering is None:
        return newer
    if newer.ordering is None:
        return newer if newer.is_delete else older
    if newer.is_delete and not _comparable(older.ordering, newer.ordering):
        return newer
    return older if older.ordering > newer.ordering else newer


def merge(rule: MergeRule, base: Version | None, logs: Iterable[Version]) -> Version | None:
    """Return the version that stands of a base record and its log records, oldest log first.

    Hudi merges the logs among themselves before it looks at the base record, and that shows: a
    delete by natural order followed by an older insert leaves the insert to compete with the base.
    """
    latest: Version | None = None
    for version in logs:
        latest = version if latest is None else _log_winner(rule, latest, version)
    if base is None or latest is None:
        return base if latest is None else latest
    if rule.dialect is Dialect.PAYLOADS and latest.is_delete:
        return latest
    return winner(rule, base, latest)


def _log_winner(rule: MergeRule, older: Version, newer: Version) -> Version:
    if rule.dialect is Dialect.PAYLOADS and older.is_delete:
        return newer
    return _winner(rule, older, newer, by_ordering=rule.orders_log)


def _comparable(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Hudi compares a delete's ordering value only with values of its own type."""
    return [type(value) for value in one] == [type(value) for value in other]
