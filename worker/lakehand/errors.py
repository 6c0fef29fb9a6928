"""Every error that Lakehand raises, as one tree whose kinds say what the caller does next.

::

    LakehandError
    ├── Conflict          somebody else was first: reload and try again
    ├── Unavailable       the store or a lock did not answer: back off and try again
    ├── Fenced            this worker was replaced: stop at once, touch nothing
    ├── Invalid           the caller or the user must change something
    │   ├── NotFound      the named table, file or instant is not there
    │   ├── Unsupported   a version or feature that Lakehand does not keep true, refused by name
    │   └── LimitExceeded an input asks for more than a limit allows
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


class Unavailable(LakehandError):
    """A store or service did not answer; nothing is known to have changed."""


class Fenced(LakehandError):
    """A newer attempt took over; the caller must stop and must not clean up."""


class Invalid(LakehandError):
    """Input, settings or usage that only the user can mend."""


class NotFound(Invalid):
    """What was asked for does not exist."""


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
