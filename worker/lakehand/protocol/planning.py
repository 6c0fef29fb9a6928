"""Scheduling: an instant is requested, and from then on everybody knows of it.

A service's plan is made on a snapshot before the lock; inside, ``still_valid`` looks whether what
it stands on is still so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.core.footprints import FileGroupKey, Footprint
from lakehand.core.instants import Action, Instant, State
from lakehand.core.journal_entries import CancellationPolicy, GroupKey, Plan, RollbackTarget, RunKey
from lakehand.core.plan_flags import PlanFlags, to_extra_metadata
from lakehand.errors import Conflict, Invalid, Unsupported
from lakehand.protocol import staging
from lakehand.protocol.conflict_check import pending_plans
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import Append, Done, View, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehand.protocol.transaction import Transaction
    from lakehand.protocol.workbench import Workbench

GROUPS_INLINE = 128
"""The journal names so many file groups of an instant; more are left to its own file."""

_REMOVABLE = frozenset({Action.LOG_COMPACTION, Action.CLUSTERING})
_CANCELLABLE_COMPACTION_FROM = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A plan as a planner made it.

    ``content`` returns the requested file's bytes, given what has to stand in its extra metadata.
    ``still_valid`` raises ``Conflict`` if the table changed under the plan; plan again then.
    """

    action: Action
    content: Callable[[Mapping[str, str]], bytes] = field(default=lambda _extra: b"")
    groups: tuple[GroupKey, ...] = ()
    removable: bool = False
    cancellable: bool = False
    policy: CancellationPolicy | None = None
    run: RunKey | None = None
    still_valid: Callable[[View], None] | None = None


def schedule(bench: Workbench, request: PlanRequest) -> str:
    """Publish a service's plan and return its time. A run that is known returns the same time."""
    require_offered(bench, request)
    with transaction(bench) as tx:
        return tx.decide(lambda view: _schedule(view, request))


def _schedule(view: View, request: PlanRequest) -> Done[str] | Append[str]:
    view.require_no_restore()
    known = None if request.run is None else view.fold.run_time(request.run)
    if known is not None:
        return Done(known)
    if request.still_valid is not None:
        request.still_valid(view)
    require_free_groups(view, request)
    plan = draw_plan(view, request, is_ingestion=False)
    return Append(plan, plan.time)


def require_free_groups(view: View, request: PlanRequest) -> None:
    """Refuse a plan of file groups that another pending plan has: one of the two could never end.

    Cancellable plans may share a group with any other: one of the two cancels the other, or itself.
    """
    for other in pending_plans(view.bench, view):
        if request.cancellable or other.cancellable:
            continue
        groups = frozenset(FileGroupKey(*group) for group in request.groups)
        shared = Footprint(groups).shared_with(other.footprint) if groups else frozenset()
        if shared:
            first = min(shared)
            raise Conflict(
                f"the pending {other.action.value} {other.time} has {first.partition}/"
                f"{first.file_id}: leave its file groups out of the plan, or wait for it"
            )


def request_rollback(tx: Transaction, target: RollbackTarget, content: bytes) -> str:
    """Publish the plan of a rollback, inside a transaction that found it necessary."""
    request = PlanRequest(action=Action.ROLLBACK, content=lambda _extra: content)

    def recipe(view: View) -> Append[str]:
        plan = draw_plan(view, request, is_ingestion=False, target=target)
        return Append(plan, plan.time)

    return tx.decide(recipe)


def draw_plan(
    view: View, request: PlanRequest, *, is_ingestion: bool, target: RollbackTarget | None = None
) -> Plan:
    """Draw a time and stage the requested file: the last step before the decision."""
    time = view.draw_time()
    flags = PlanFlags(
        removable=request.removable,
        cancellable=request.cancellable,
        policy=(request.policy or CancellationPolicy()) if request.cancellable else None,
        made_on=view.known_until,
    )
    requested = instant_path(view.config, Instant(time, request.action, State.REQUESTED))
    content = request.content(to_extra_metadata(flags))
    return Plan(
        time=time,
        action=request.action,
        requested=staging.stage(view.bench.store, requested, content, time=time, epoch=0),
        is_ingestion=is_ingestion,
        removable=flags.removable,
        cancellable=flags.cancellable,
        policy=flags.policy,
        made_on=flags.made_on,
        seen=view.completions_seen,
        pending=view.pending_at_start,
        target=target,
        groups=inline(request.groups),
        run=request.run,
    )


def inline(groups: tuple[GroupKey, ...]) -> tuple[GroupKey, ...] | None:
    """Return what the journal names of an instant's groups; None: its file says."""
    return groups if len(groups) <= GROUPS_INLINE else None


def require_offered(bench: Workbench, request: PlanRequest) -> None:
    """Refuse flags that a plan of its action cannot have."""
    if request.removable and request.action not in _REMOVABLE:
        raise Invalid(f"a {request.action.value} plan is always kept: it cannot be removable")
    if request.removable and request.cancellable:
        raise Invalid("a plan is either removable or cancellable: choose one")
    if (
        request.cancellable
        and request.action is Action.COMPACTION
        and bench.config.version < _CANCELLABLE_COMPACTION_FROM
    ):
        raise Unsupported(
            f"cancellable compaction needs table version {_CANCELLABLE_COMPACTION_FROM}; this "
            f"table is version {bench.config.version.value}: upgrade it, or do without"
        )
