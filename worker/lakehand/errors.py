"""Every error that Lakehand raises, as one tree whose kinds say what the caller does next.

::

    LakehandError
    ├── Conflict          somebody else was first: reload and try again
    │   ├── PlanBusy          another attempt is live: come back after ``retry_after_s``
    │   ├── MustRollBack      a removable plan was tried before: clean rolls it back
    │   ├── AlreadyCommitted  too late to cancel or to roll back
    │   ├── ForeignExecutor   a writer that knows no journal executes the plan: no promise
    │   ├── WriteConflict     another write changed the same file groups: do the whole write again
    │   └── RestoreOpen       a restore is under way: nothing else may be decided
    ├── Unavailable       the store or a lock did not answer: back off and try again
    │   ├── LockTimeout       somebody held the table lock all the time
    │   ├── LockLost          the lease of the table lock ran out under us: nothing was decided
    │   ├── OutcomeUnknown    it is not known whether a decision was taken: start from a fresh view
    │   └── ClockAhead        the timeline lies in the future of the store's clock
    ├── Fenced            this worker was replaced: stop at once, touch nothing
    │   └── PlanCancelled     the plan was cancelled: end, the abort is done in one place
    ├── Invalid           the caller or the user must change something
    │   ├── NotFound      the named table, file or instant is not there
    │   │   └── PlanNotFound
    │   ├── Unsupported   a version or feature that Lakehand does not keep true, refused by name
    │   ├── LimitExceeded an input asks for more than a limit allows
    │   ├── PlanAborted       the plan was cancelled and is gone for good
    │   ├── NotCancellable    the plan was not made to be cancelled
    │   └── WrongLockProvider the table's other workers exclude each other by another lock
    ├── Corrupt           bytes break the format's rules: a person must look
    └── InvariantBroken   Lakehand itself is wrong: report it

A message says what happened, where (file, offset), and what to do. Foreign exceptions are
translated, and chained, at the edge of the adapter that met them.
"""

from __future__ import annotations


class LakehandError(Exception):
    """Base of everything that Lakehand raises on purpose."""


class Conflict(LakehandError):
    """Somebody else changed the table first; reload and decide again."""


class PlanBusy(Conflict):
    """Another attempt at the instant is live."""

    def __init__(
        self, time: str, *, owner: str, epoch: int, age_s: float, retry_after_s: float
    ) -> None:
        """Say who is at work on instant ``time``, since when, and when to come back."""
        self.time = time
        self.owner = owner
        self.epoch = epoch
        self.age_s = age_s
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{time} is being worked on by {owner} (epoch {epoch}, last heartbeat "
            f"{age_s:.0f} s ago); if it is dead, its heartbeat expires in {retry_after_s:.0f} s"
        )


class MustRollBack(Conflict):
    """A removable plan that was tried before, or is being rolled back; clean removes it."""


class AlreadyCommitted(Conflict):
    """The instant completed before it could be cancelled or rolled back."""


class ForeignExecutor(Conflict):
    """A writer that knows no journal executes the plan, so nothing can be promised about it."""


class WriteConflict(Conflict):
    """Another write changed the same file groups; the whole write has to be done again."""


class RestoreOpen(Conflict):
    """A restore is under way; until it completes nothing else may be decided."""


class Unavailable(LakehandError):
    """A store or service did not answer; nothing is known to have changed."""


class LockTimeout(Unavailable):
    """The table lock was held by somebody else all the time."""

    def __init__(self, *, holder: str, age_s: float, waited_s: float) -> None:
        """Say who held it, for how long we watched the holder's record, and how long we waited."""
        self.holder = holder
        self.age_s = age_s
        self.waited_s = waited_s
        super().__init__(
            f"the table lock is held by {holder} ({age_s:.1f} s); waited {waited_s:.1f} s. "
            "If the holder is dead and its lease never ends, see: lakehand unlock"
        )


class LockLost(Unavailable):
    """The lease of the table lock ran out, or nearly; nothing was decided."""


class OutcomeUnknown(Unavailable):
    """The journal moved on so far that it cannot say whether a decision of ours was taken."""


class ClockAhead(Unavailable):
    """The last time on the timeline lies further ahead of the store's clock than is allowed."""


class Fenced(LakehandError):
    """A newer attempt took over; the caller must stop and must not clean up."""


class PlanCancelled(Fenced):
    """The plan was cancelled while we worked on it; end, and leave the abort to its one place."""


class Invalid(LakehandError):
    """Input, settings or usage that only the user can mend."""


class NotFound(Invalid):
    """What was asked for does not exist."""


class PlanNotFound(NotFound):
    """No instant of this time is on the timeline or in the journal."""


class PlanAborted(Invalid):
    """The plan was cancelled and aborted; it never runs again."""


class NotCancellable(Invalid):
    """The plan was not made to be cancelled."""


class WrongLockProvider(Invalid):
    """Workers of one table must exclude each other by one lock, and this is another one."""


class Unsupported(Invalid):
    """A table version or feature that Lakehand refuses rather than gets wrong."""


class LimitExceeded(Invalid):
    """An input is larger than the limit that guards memory or time."""


class Corrupt(LakehandError):
    """Bytes that break their format's rules, with the place where they do."""

    def __init__(self, problem: str, *, where: str, offset: int | None = None) -> None:
        """Say what is broken (``problem``), in which file (``where``) and at which byte."""
        self.problem = problem
        self.where = where
        self.offset = offset
        place = where if offset is None else f"{where}, byte {offset}"
        super().__init__(f"{place}: {problem}")


class InvariantBroken(LakehandError):
    """A rule that Lakehand's own code guarantees does not hold."""
