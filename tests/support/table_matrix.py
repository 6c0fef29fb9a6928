"""The generated matrix: few tables, and every pair of values occurs in one of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

from table_builder_rows import Partitioning, Shape


class TableState(Enum):
    PLAIN = "plain"
    DELETES = "deletes"
    PENDING_WRITE = "pending-write"
    ROLLED_BACK = "rolled-back"
    REPLACED = "replaced"
    CLUSTERED = "clustered"
    COMPACTION_PENDING = "compaction-pending"
    COMPACTED = "compacted"
    LOG_COMPACTED = "log-compacted"
    CLEANED = "savepointed-cleaned"


NEEDS_LOGS = frozenset(
    {TableState.COMPACTION_PENDING, TableState.COMPACTED, TableState.LOG_COMPACTED}
)

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "version": (9, 8, 6),
    "kind": ("cow", "mor-avro", "mor-parquet"),
    "partitioning": tuple(Partitioning),
    "state": tuple(TableState),
    "merge": ("event-time", "commit-time"),
    "extra": ("none", "decimal-in-struct", "null-elements", "local-timestamp"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One table of the matrix."""

    shape: Shape
    state: TableState

    @property
    def name(self) -> str:
        shape = self.shape
        words = [
            f"v{shape.version}",
            f"mor-{shape.blocks}" if shape.merge_on_read else "cow",
            shape.partitioning.value,
            self.state.value,
            "event" if shape.event_time else "newest",
        ]
        if shape.decimal_in_struct:
            words.append("decimal-in-struct")
        if shape.null_elements:
            words.append("null-elements")
        if shape.local_timestamp:
            words.append("local-timestamp")
        return "_".join(words)


def _possible(choice: dict[str, Any]) -> bool:
    if choice.get("kind") == "cow" and choice.get("state") in NEEDS_LOGS:
        return False
    # Java 1.0.2 and 0.15.0 refuse the type, so no table of theirs has it.
    return not (choice.get("extra") == "local-timestamp" and choice.get("version") in (8, 6))


def _pairs(choice: dict[str, Any]) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    return set(itertools.combinations(choice.items(), 2))


def all_pairs() -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    found = set()
    for (one, its_values), (other, others) in itertools.combinations(DIMENSIONS.items(), 2):
        for value, partner in itertools.product(its_values, others):
            if _possible({one: value, other: partner}):
                found.add(((one, value), (other, partner)))
    return found


def choices(seed: int = 3) -> list[dict[str, Any]]:
    """Greedy: each table is the best of a hundred random ones that hold a pair still missing."""
    random_ = random.Random(seed)
    missing = all_pairs()
    taken: list[dict[str, Any]] = []
    while missing:
        wanted = dict(min(missing, key=str))
        candidates = []
        for _ in range(100):
            drawn = {
                name: wanted.get(name, random_.choice(values))
                for name, values in DIMENSIONS.items()
            }
            if _possible(drawn):
                candidates.append(drawn)
        best = max(candidates, key=lambda drawn: len(_pairs(drawn) & missing))
        missing -= _pairs(best)
        taken.append(best)
    return taken


def cell_of(choice: dict[str, Any]) -> Cell:
    shape = Shape(
        version=choice["version"],
        merge_on_read=choice["kind"] != "cow",
        partitioning=choice["partitioning"],
        blocks="parquet" if choice["kind"] == "mor-parquet" else "avro",
        event_time=choice["merge"] == "event-time",
        decimal_in_struct=choice["extra"] == "decimal-in-struct",
        null_elements=choice["extra"] == "null-elements",
        local_timestamp=choice["extra"] == "local-timestamp",
    )
    return Cell(shape, choice["state"])


def matrix() -> list[Cell]:
    cells = [cell_of(choice) for choice in choices()]
    return sorted(set(cells), key=lambda cell: cell.name)
