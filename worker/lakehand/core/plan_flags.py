"""What a plan says of itself in its own extra metadata, for everybody who reads it.

Hudi's plan documents have a map of further strings; Java keeps keys that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.journal_entries import CancellationPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMOVABLE = "lakehand.removable"
_CANCELLABLE = "lakehand.cancellable"
_HOURS = "lakehand.cancellation-policy.hours"
_WRITES = "lakehand.cancellation-policy.completed-writes"
_MADE_ON = "lakehand.made-on"


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """How a plan may end other than by completing."""

    removable: bool = False
    cancellable: bool = False
    policy: CancellationPolicy | None = None
    made_on: str | None = None


def to_extra_metadata(flags: PlanFlags) -> dict[str, str]:
    """Return what goes into the plan's extra metadata."""
    extra: dict[str, str] = {}
    if flags.removable:
        extra[_REMOVABLE] = "true"
    if flags.cancellable:
        extra[_CANCELLABLE] = "true"
    if flags.policy is not None and flags.policy.hours is not None:
        extra[_HOURS] = str(flags.policy.hours)
    if flags.policy is not None and flags.policy.completed_writes is not None:
        extra[_WRITES] = str(flags.policy.completed_writes)
    if flags.made_on is not None:
        extra[_MADE_ON] = flags.made_on
    return extra


def from_extra_metadata(extra: Mapping[str, str] | None) -> PlanFlags:
    """Read a plan's extra metadata. Numbers that are none count as not given."""
    if not extra:
        return PlanFlags()
    cancellable = extra.get(_CANCELLABLE) == "true"
    return PlanFlags(
        removable=extra.get(_REMOVABLE) == "true",
        cancellable=cancellable,
        policy=_policy(extra) if cancellable else None,
        made_on=extra.get(_MADE_ON),
    )


def _policy(extra: Mapping[str, str]) -> CancellationPolicy:
    hours, writes = extra.get(_HOURS), extra.get(_WRITES)
    if hours is None and writes is None:
        return CancellationPolicy()
    return CancellationPolicy(
        hours=float(hours) if hours and hours.replace(".", "", 1).isdecimal() else None,
        completed_writes=int(writes) if writes and writes.isdecimal() else None,
    )
