"""What a failed request to an object store means to whoever sent it.

The difference that matters is between a request that surely changed nothing and one that may
have been carried out although its reply was lost: when in doubt it is ``LOST``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING

from lakehand.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from lakehand.errors import LakehandError


@unique
class Kind(Enum):
    """What became of a request that failed."""

    ABSENT = "no such object"
    NO_UPLOAD = "no such multipart upload"
    CONDITION = "the condition did not hold"
    CONFLICTING = "turned away because of another request for the same name"
    BUSY = "turned away before anything was done"
    REFUSED = "refused: the user must change something"
    LOST = "no answer, or none that says what was done"


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed request: what it means, the server's word for it, and the server's time."""

    kind: Kind
    code: str
    date: str | None = None

    def as_error(self, what: str) -> LakehandError:
        """Return the error to raise for a request whose failure nobody can use."""
        problem = f"{what}: {self.kind.value} ({self.code})"
        match self.kind:
            case Kind.REFUSED:
                return Invalid(problem)
            case _:
                return Unavailable(problem)
