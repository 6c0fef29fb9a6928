"""What a write or a query asks of the place where its work is done.

Rows come in as whatever the engine's users have: Spark DataFrames, Arrow tables. Work is a callable
that pickles; it sees Arrow batches and answers with bytes, once for each time it is asked, never
evaluated again afterwards.

``hold`` keeps rows, so that every later step sees the same rows in the same order whatever the
source would say if it were asked again. ``scatter`` sends each row that is held to a target, and
the work of a target sees its rows alone, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

Batches: TypeAlias = Iterator[pa.RecordBatch]
Targets: TypeAlias = npt.NDArray[np.int32]
"""The target of each row of a parcel; negative: the row goes nowhere."""

Apart: TypeAlias = Callable[[pa.RecordBatch], Iterator[tuple[str, pa.RecordBatch]]]
"""Deals the rows of a batch out by kind; rows of two kinds never share a parcel."""

T = TypeVar("T")


class Turn(NamedTuple):
    """Which task runs, and which try of it: no two tries of one engine have the same turn."""

    task: int
    attempt: int


class Parcel(NamedTuple):
    """Rows that are held together, known by what ``hold``'s digest says of them."""

    rows: int
    digest: bytes


class Held(Protocol):
    """Rows that are kept until they are released; leaving the ``with`` block does that."""

    @property
    def parcels(self) -> Sequence[Parcel]:
        """What is held, in order."""

    def scatter(
        self,
        routes: Sequence[Targets],
        work: Callable[[Turn, int, Batches], Iterator[bytes]],
        *,
        tasks: int | None = None,
    ) -> list[bytes]:
        """Do the work of every target that gets rows; ``routes`` has an entry for each parcel.

        ``tasks`` is how many tasks to divide it into at most; None: as many as are worth having.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Engine(Protocol):
    """Where work is done."""

    @property
    def parallelism(self) -> int:
        """How many tasks are worth having."""

    def schema_of(self, data: Any) -> pa.Schema:  # noqa: ANN401 - whatever the engine's users have
        """Return the schema of incoming rows. Raises ``Invalid`` for what it cannot read."""

    def can_read_again(self, data: Any) -> bool:  # noqa: ANN401
        """Tell whether the rows are still there after they were read once."""

    def say(self, step: str) -> None:
        """Tell people who watch the engine what it does from here on."""

    def rows_taken(self) -> int:
        """Return how many rows tasks took so far, all in all; for people to see, not to count on.

        An engine learns of them while they are taken or when their task ends, of tasks that are
        done again twice.
        """

    def ordered(
        self,
        data: Any,  # noqa: ANN401
        columns: Sequence[str],
        *,
        within_tasks: bool,
    ) -> Any:  # noqa: ANN401
        """Return the rows sorted by some columns: all of them, or each task's share."""

    def each(self, tasks: Sequence[T], work: Callable[[T], bytes]) -> list[bytes]:
        """Do the work of every task; return the answers in the order of the tasks."""

    def consume(
        self,
        data: Any,  # noqa: ANN401
        work: Callable[[Turn, Batches], Iterator[bytes]],
    ) -> list[bytes]:
        """Pass over the rows once, each task over its share; return all answers."""

    def hold(
        self,
        data: Any,  # noqa: ANN401
        prepare: Callable[[Batches], Batches],
        digest: Callable[[pa.RecordBatch], bytes],
        apart: Apart | None = None,
    ) -> Held:
        """Prepare the rows and keep them; ``digest`` says of each parcel what the driver needs.

        Without ``apart`` all rows are of one kind.
        """
