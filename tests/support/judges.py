"""Known faults of the foreign readers, as data: which table, which reader, why.

A fault is never skipped in silence: the reader is asked all the same and must still show it, so
that a judge that was mended is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from table_matrix import Cell, TableState

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Fault:
    judge: str
    applies: Callable[[Cell], bool]
    reason: str


FAULTS = (
    Fault(
        "hudi-rs",
        lambda cell: cell.shape.local_timestamp,
        "panics at a timestamp without zone (hudi-format 7.2)",
    ),
    Fault(
        "hudi-rs",
        lambda cell: cell.shape.version == 6 and cell.state is TableState.COMPACTION_PENDING,
        "hides what was written over a pending compaction of version 6 (hudi-format 7.2)",
    ),
)


def fault_of(judge: str, cell: Cell) -> Fault | None:
    return next((fault for fault in FAULTS if fault.judge == judge and fault.applies(cell)), None)
