"""What the command's exit code says, and what its user can do then: one table for all commands.

The first row whose kind fits an error is its row. docs/cli.md shows the same table (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique

from lakehand.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Invalid,
    InvariantBroken,
    LakehandError,
    LockTimeout,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)


@unique
class ExitCode(IntEnum):
    """What a shell sees."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    CONFLICT = 3
    UNAVAILABLE = 4
    CORRUPT = 5
    FENCED = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


MEANINGS = {
    ExitCode.OK: "done, or nothing had to be done",
    ExitCode.UNEXPECTED: "a fault of Lakehand itself",
    ExitCode.USAGE: "something has to be said or set up differently",
    ExitCode.CONFLICT: "somebody else was first, or is at work",
    ExitCode.UNAVAILABLE: "the store or the lock did not answer in time",
    ExitCode.CORRUPT: "bytes on storage are broken; what could be read is shown",
    ExitCode.FENCED: "this process was replaced by another",
    ExitCode.INTERRUPTED: "Ctrl-C; nothing is half done, the lock is released",
    ExitCode.BROKEN_PIPE: "whoever read the output went away, as `head` does",
    ExitCode.TERMINATED: "SIGTERM; as 130",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of error, what the process answers, and what its user can do."""

    kind: type[Exception]
    code: ExitCode
    remedy: str


FAILURES = (
    Failure(LockTimeout, ExitCode.UNAVAILABLE, "try again; a dead holder: lakehand unlock URI"),
    Failure(
        OutcomeUnknown, ExitCode.UNAVAILABLE, "look at lakehand timeline URI before trying again"
    ),
    Failure(Unavailable, ExitCode.UNAVAILABLE, "wait a little and try again"),
    Failure(Conflict, ExitCode.CONFLICT, "look at lakehand timeline URI, then decide again"),
    Failure(Fenced, ExitCode.FENCED, "nothing is left to do here; see lakehand timeline URI"),
    Failure(Corrupt, ExitCode.CORRUPT, "look at the file that is named; restore it from a backup"),
    Failure(Unsupported, ExitCode.USAGE, "use what the message names, or do without"),
    Failure(NotFound, ExitCode.USAGE, "check the URI, the instant and the storage options"),
    Failure(Invalid, ExitCode.USAGE, "change what the message names; see lakehand COMMAND --help"),
    Failure(InvariantBroken, ExitCode.UNEXPECTED, "run it again with -v and report what it prints"),
    Failure(LakehandError, ExitCode.UNEXPECTED, "run it again with -v and report what it prints"),
)

UNEXPECTED = Failure(
    Exception, ExitCode.UNEXPECTED, "run it again with -v and report what it prints"
)


def failure_of(error: Exception) -> Failure:
    """Return the row of an error."""
    return next((row for row in FAILURES if isinstance(error, row.kind)), UNEXPECTED)


def as_markdown() -> str:
    """Return the table of docs/cli.md."""
    lines = ["| code | what happened | errors |", "|---|---|---|"]
    for code in ExitCode:
        kinds = [f"`{row.kind.__name__}`" for row in FAILURES if row.code is code]
        lines.append(f"| {code.value} | {MEANINGS[code]} | {', '.join(kinds) or '-'} |")
    return "\n".join(lines)
