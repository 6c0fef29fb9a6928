"""``HoodieRestorePlan`` and ``HoodieRestoreMetadata``: how a table goes back to a savepoint.

A restore rolls back every later instant, newest first; the rollbacks leave no instants of their own
and are reported here, under the time of the instant that each undid.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by Document
from dataclasses import dataclass

from lakehand.formats.document_values import Document
from lakehand.formats.plans.rollback import (  # noqa: TC001 - read at run time by Document
    InstantInfo,
    RollbackMetadata,
)

PLAN_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore will undo."""

    instants_to_rollback: tuple[InstantInfo, ...] = ()
    version: int | None = PLAN_VERSION
    savepoint_to_restore_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata:
    """What a restore has undone."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: tuple[str, ...]
    hoodie_restore_metadata: Mapping[str, tuple[RollbackMetadata | None, ...]]
    version: int | None = 1
    restore_instant_info: tuple[InstantInfo, ...] = ()


_PLAN = Document(RestorePlan, "HoodieRestorePlan")
_METADATA = Document(RestoreMetadata, "HoodieRestoreMetadata")
decode_plan = _PLAN.decode
encode_plan = _PLAN.encode
decode_metadata = _METADATA.decode
encode_metadata = _METADATA.encode
