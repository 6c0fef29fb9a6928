"""The orders of the demo, and what they must be after each change: told without any table.

A change sets the status of a range of orders at a point of event time. Of two changes of one order
the later one counts (``changed`` is the table's ordering field), whichever was written first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("city", pa.string()),
    pa.field("status", pa.string()),
    pa.field("amount", pa.float64()),
    pa.field("changed", pa.int64()),
]
SCHEMA = pa.schema(_FIELDS)
CITIES = ("cairo", "lima", "oslo")


@dataclass(frozen=True, slots=True)
class Change:
    """The orders ``first`` to ``end`` (not included) get a status."""

    status: str
    first: int
    end: int
    changed: int

    def rows(self) -> pa.Table:
        """Return them as rows."""
        numbers = range(self.first, self.end)
        return pa.table(
            {
                "id": [_id(number) for number in numbers],
                "city": [CITIES[number % len(CITIES)] for number in numbers],
                "status": [self.status] * len(numbers),
                "amount": [number % 500 / 4 for number in numbers],
                "changed": [self.changed] * len(numbers),
            },
            schema=SCHEMA,
        )

    def save(self, folder: Path) -> Path:
        """Write them to a Parquet file, as a source would deliver them."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.status}.parquet"
        pq.write_table(self.rows(), path)
        return path


@dataclass(slots=True)
class Truth:
    """What the table must hold: id to (city, status, amount)."""

    orders: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    _changed: dict[str, int] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Take a change that was committed."""
        for number in range(change.first, change.end):
            key = _id(number)
            if change.changed >= self._changed.get(key, 0):
                self._changed[key] = change.changed
                city = CITIES[number % len(CITIES)]
                self.orders[key] = (city, change.status, number % 500 / 4)

    def counts(self) -> Counter[str]:
        """Return the number of orders per status."""
        return Counter(status for _, status, _ in self.orders.values())

    def wrong(self, rows: pa.Table) -> int:
        """Return how many rows of a reader are wrong, missing or too many."""
        expected: Counter[tuple[object, ...]] = Counter()
        expected.update((key, *values) for key, values in self.orders.items())
        expected.subtract(_tuples(rows, ("id", "city", "status", "amount")))
        return sum(map(abs, expected.values()))


def counts_of(rows: pa.Table) -> Counter[str]:
    """Return the number of orders per status that a reader found."""
    return Counter(map(str, rows.column("status").to_pylist()))


def _tuples(rows: pa.Table, columns: Sequence[str]) -> zip[tuple[object, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in columns), strict=True)


def _id(number: int) -> str:
    return f"order-{number:06d}"
