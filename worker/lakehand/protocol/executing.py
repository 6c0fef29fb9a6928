"""Executing a plan from claim to commit, with every way out in one place.

::

    claim                      cancelled meanwhile: execute_cancel, PlanAborted
    work, outside the lock     ``look_out`` between its units
    prepare, promote, commit   cancelled, or refused for a conflict: execute_cancel with our own
                               heartbeat, PlanCancelled

Any other failure leaves the plan to its next attempt: the stage is dropped, the heartbeat removed.
When it is not known whether the commit was decided, nothing is dropped: the next transaction of
anybody finds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.journal_moves import Standing
from lakehand.errors import (
    Fenced,
    InvariantBroken,
    LakehandError,
    OutcomeUnknown,
    PlanAborted,
    PlanCancelled,
    WriteConflict,
)
from lakehand.protocol import cancelling, committing, conflict_check
from lakehand.protocol.claiming import AlreadyCompleted, Attempt, claim
from lakehand.protocol.transaction import load_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.instants import Instant
    from lakehand.core.journal_entries import StagedFile
    from lakehand.protocol.workbench import Workbench


@dataclass(frozen=True, slots=True)
class Output:
    """What an attempt wrote: its staged files, and the completed file given a completion time."""

    files: tuple[StagedFile, ...]
    content: Callable[[str], bytes]


def execute_plan(bench: Workbench, time: str, work: Callable[[Attempt], Output]) -> Instant:
    """Execute a plan; return its completed instant, also when somebody else completed it."""
    try:
        claimed = claim(bench, time)
    except PlanCancelled as cancelled:
        cancelling.execute_cancel(bench, time)
        raise PlanAborted(f"{time} was cancelled; its abort is finished: plan anew") from cancelled
    if isinstance(claimed, AlreadyCompleted):
        return claimed.instant
    return run_attempt(bench, claimed, work)


def run_attempt(bench: Workbench, attempt: Attempt, work: Callable[[Attempt], Output]) -> Instant:
    """Do the work of an attempt that was claimed (or of a write that was begun), and commit it."""
    files: tuple[StagedFile, ...] = ()
    try:
        output = work(attempt)
        files = output.files
        manifest = committing.prepare(bench, attempt, files)
        committing.promote_outputs(bench, attempt, manifest)
        return committing.commit(bench, attempt, output.content)
    except PlanCancelled:
        if attempt.cancellable:
            cancelling.execute_cancel(bench, attempt.time, own=attempt.heartbeat)
        raise
    except (OutcomeUnknown, InvariantBroken):
        attempt.heartbeat.stop()
        raise
    except BaseException as failure:
        try:
            committing.give_up(bench, attempt, files)
        except LakehandError as left:
            failure.add_note(f"and its stage could not be dropped: {left}")
        raise


def look_out(bench: Workbench, attempt: Attempt) -> None:
    """Look, between two units of work, whether there is any point in going on.

    Raises ``Fenced`` if the attempt was replaced, ``PlanCancelled`` if it was cancelled, and
    ``WriteConflict`` if it could not commit as things are. Takes no lock and changes nothing.
    """
    attempt.heartbeat.check()
    view = load_view(bench)
    record = view.fold.record(attempt.time)
    if record.standing is Standing.FOREIGN:
        raise Fenced(f"{attempt.time} has ended without us")
    committing.require_last_claim(record, attempt)
    judgement = conflict_check.look(bench, view, attempt)
    if not judgement.may_commit:
        raise WriteConflict(conflict_check.explain(attempt, judgement))
