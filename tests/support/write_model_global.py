"""The model of a table that is written with a global index: a key is one record, wherever it is.

What it adds to ``write_model`` is where a row goes whose key is known. Readers see at most one row
of a key. Files may have more: what a log of a merge-on-read table deleted is still found in its
base file, and while a key is found in one place, in the partition of the incoming row, nobody looks
whether it still stands there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakehand.core.merge_rules import Version, merge, winner
from write_model import Model, Operation, Record, Step, Touch, no_doubt, one_each
from write_rows import KEYS, PARTITION_PATH, SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from write_model import Write
    from write_rows import Id

_ADDING = {
    Operation.INSERT,
    Operation.BULK_INSERT,
    Operation.OVERWRITE,
    Operation.OVERWRITE_TABLE,
}


def _key(touch: Touch) -> int:
    return touch.slot % KEYS


@dataclass(slots=True)
class GlobalModel(Model):
    """``moves``: rows go where they say; else they stay where their keys are."""

    moves: bool = True
    buried: Counter[Id] = field(default_factory=Counter)
    """How many file groups have a key that was deleted there, beside that of ``records``."""

    @property
    def options(self) -> dict[str, Any]:
        index = "GLOBAL_BLOOM" if self.kind.event_time else "GLOBAL_SIMPLE"
        return {
            **Model.options.fget(self),  # type: ignore[attr-defined]
            "index": index,
            "update_partition_path": self.moves,
        }

    # -- what a step writes -----------------------------------------------------------------------

    def chosen(self, step: Step) -> list[Touch]:
        """Rows that are added without a look-up are of keys that the table will not have twice."""
        combines = step.operation is Operation.UPSERT and self.kind.event_time
        touches = no_doubt(step.touches, _key) if combines else one_each(step.touches, _key)
        if step.operation not in _ADDING:
            return touches
        return [one for one in touches if not self._places_after(step.operation, one)]

    def _places_after(self, operation: Operation, touch: Touch) -> list[Id]:
        """Where the table has the key of a row when what the row replaces is gone."""
        partition, key = self.kind.id_of(touch.slot)
        if operation is Operation.OVERWRITE_TABLE:
            return []
        replaced = [partition] if operation is Operation.OVERWRITE else []
        return [one for one in self._places(key) if one[0] not in replaced]

    def slots_of(self, writer: int, writers: int) -> list[int]:
        return [slot for slot in range(SLOTS) if slot % KEYS % writers == writer]

    def known_slots(self) -> list[int]:
        visible = {key for _, key in self.visible()}
        return [slot for slot in range(SLOTS) if self.kind.id_of(slot)[1] in visible]

    # -- what a write does ------------------------------------------------------------------------

    def apply(self, write: Write, time: str) -> None:
        for one in [each for each in self.buried if each[0] in write.partitions]:
            del self.buried[one]
        Model.apply(self, write, time)

    def delete(self, one: Id) -> None:
        places = self._places(one[1])
        place = places[0] if len(places) == 1 else self._standing(one[1])
        if place is not None:
            self.meet(place, Version(None, None))

    def upsert(self, write: Write, time: str) -> None:
        for home, version in self._counting(write, time):
            places = self._places(home[1])
            standing = self._standing(home[1])
            if standing is None and not self._stays(home, places):
                self._add(home, version)
                continue
            place = standing or places[0]
            if place != home and self._wins(place, version):
                self.meet(place, Version(None, None))
                self._add(home, version)
            else:
                self.meet(place, _within(place[0], version))

    def _stays(self, home: Id, places: list[Id]) -> bool:
        """Whether a key that stands nowhere is taken for one that stands where it is found."""
        return len(places) == 1 and (places[0] == home or not self.moves)

    def _wins(self, place: Id, version: Version) -> bool:
        """Whether a row moves the one that stands."""
        if not self.moves or version.is_delete:
            return False
        record = self.records[place]
        stands = merge(self.rule, record.base, record.logs)
        assert stands is not None
        return winner(self.rule, stands, version) is version

    def _add(self, one: Id, version: Version) -> None:
        if version.is_delete:
            return
        if one in self.records:
            self.buried[one] += 1
        self.records[one] = Record(version)

    def _counting(self, write: Write, time: str) -> Iterator[tuple[Id, Version]]:
        """Of the rows of one key one counts, in whatever partitions they are."""
        versions: dict[str, list[tuple[Id, Version]]] = {}
        for one, row in zip(write.ids, write.rows, strict=True):
            versions.setdefault(one[1], []).append((one, self.version(one, row, time)))
        for several in versions.values():
            counts = merge(self.rule, None, [version for _, version in several])
            yield next(pair for pair in several if pair[1] is counts)

    # -- where keys are ---------------------------------------------------------------------------

    def _places(self, key: str) -> list[Id]:
        """Where a key is found, whether it still stands there or not."""
        return [one for one in (*self.records, *self.buried.elements()) if one[1] == key]

    def _standing(self, key: str) -> Id | None:
        return next((one for one in self.visible() if one[1] == key), None)

    def copy(self) -> GlobalModel:
        plain = Model.copy(self)
        return GlobalModel(
            self.kind,
            self.row_deletions,
            plain.records,
            plain.commits,
            self.steps,
            self.moves,
            self.buried.copy(),
        )


def _within(partition: str, version: Version) -> Version:
    """The version as a row of a partition that may be another than it names."""
    if version.record is None:
        return version
    return replace(version, record={**version.record, PARTITION_PATH: partition})
