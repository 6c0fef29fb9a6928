"""Where each row goes: its file group if its key is there already, else a small or a new one.

``Routing`` collects targets by number; the rows of a parcel are routed by one array of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lakehand.core.file_sizing import NewRows, Share, SizeLimits, plan_new_rows
from lakehand.core.table_kinds import TableType
from lakehand.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakehand.write.ground import next_log
from lakehand.write.index import LOST, NEW
from lakehand.write.shapes import GroupTask, GroupWork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig
    from lakehand.write.ground import Ground
    from lakehand.write.index import IncomingKeys, Located
    from lakehand.write.moving import Leaving

Targets = npt.NDArray[np.int32]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Sizing:
    """What decides how many new file groups there are."""

    limits: SizeLimits
    row_bytes: float


@dataclass(frozen=True, slots=True)
class _NewRows:
    """What is done with rows whose key is in no file group."""

    sizing: Sizing
    is_insert: bool
    """They are added whatever stands in the file group."""
    fill: bool
    """Small file groups take some."""


@dataclass(slots=True)
class Routing:
    """The targets of a write, and how many rows go to each."""

    config: TableConfig
    ground: Ground
    new_file_id: Callable[[], str]
    tasks: list[GroupTask] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    inserts: list[int] = field(default_factory=list)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def existing(self, part: FileSlice, *, takes_new_rows: bool, is_insert: bool = False) -> int:
        """Return the target of a file group that is there.

        On a merge-on-read table updates are appended, but to a group that also takes new rows:
        its base file is written anew.
        """
        number = self._numbers.get((part.partition, part.file_id))
        appends = self.config.table_type is TableType.MERGE_ON_READ and not takes_new_rows
        work = GroupWork.APPEND if appends else GroupWork.MERGE
        if takes_new_rows and is_insert:
            work = GroupWork.EXTEND
        group = self.ground.groups[part.partition][part.file_id]
        base_instant, log_version = next_log(group, int(self.config.version))
        task = GroupTask(work, part.partition, part.file_id, part, base_instant, log_version)
        if number is None:
            number = self._add(task)
            self._numbers[part.partition, part.file_id] = number
        elif takes_new_rows:
            self.tasks[number] = task
        return number

    def new(self, partition: str) -> int:
        """Return a target that is a new file group."""
        return self._add(GroupTask(GroupWork.CREATE, partition, self.new_file_id()))

    def _add(self, task: GroupTask) -> int:
        self.tasks.append(task)
        self.updates.append(0)
        self.inserts.append(0)
        return len(self.tasks) - 1

    @property
    def touched(self) -> tuple[tuple[str, str], ...]:
        """The file groups that are there already, and will be written."""
        return tuple(self._numbers)

    def workload(self) -> dict[str, tuple[WriteStat, ...]]:
        """Return what the inflight file says, by partition."""
        found: dict[str, list[WriteStat]] = {}
        for task, updates, inserts in zip(self.tasks, self.updates, self.inserts, strict=True):
            found.setdefault(task.partition, []).append(
                WriteStat(
                    file_id=task.file_id,
                    partition_path=task.partition,
                    prev_commit=task.base_instant or NO_PREVIOUS_COMMIT,
                    num_update_writes=updates,
                    num_inserts=inserts,
                )
            )
        return {partition: tuple(stats) for partition, stats in found.items()}


def route_by_key(
    routing: Routing,
    incoming: IncomingKeys,
    located: Located,
    groups: Sequence[FileSlice],
    sizing: Sizing | None,
) -> list[Targets]:
    """Send rows to where their keys are, new keys to where there is room.

    Without ``sizing`` (a deletion) rows whose key is nowhere go nowhere.
    """
    target_of_group = np.full(len(groups) - LOST, NOWHERE, dtype=np.int32)
    target_of_group[LOST] = LOST
    for number, count in _counted(located.group_of_row):
        target = routing.existing(groups[number], takes_new_rows=False)
        routing.updates[target] += count
        target_of_group[number] = target
    routes = [target_of_group[rows] for rows in located.group_of_row]
    if sizing is None:
        return routes
    return _with_new_keys(routing, incoming, routes, _NewRows(sizing, is_insert=False, fill=True))


def route_new_keys(
    routing: Routing, incoming: IncomingKeys, sizing: Sizing, *, fill: bool
) -> list[Targets]:
    """Send rows to where there is room in their partitions, all rows of one key to one place."""
    nowhere = [np.full(len(rows), NOWHERE, dtype=np.int32) for rows in incoming.key_of_row]
    return _with_new_keys(routing, incoming, nowhere, _NewRows(sizing, is_insert=True, fill=fill))


def route_leaving(routing: Routing, leaving: Leaving, groups: Sequence[FileSlice]) -> list[Targets]:
    """Have keys leave their groups, after all else was routed.

    Returned are the routes of rows with these keys to groups that get no row otherwise, so that
    there is a task for each.
    """
    target_of_group = np.full(len(groups) - NEW, NOWHERE, dtype=np.int32)
    for number, keys in leaving.keys.items():
        target = routing.existing(groups[number], takes_new_rows=False)
        if not routing.updates[target] and not routing.inserts[target]:
            target_of_group[number] = target
        routing.updates[target] += len(keys)
        routing.tasks[target] = routing.tasks[target]._replace(leaving=keys)
    return [target_of_group[rows] for rows in leaving.group_of_row]


def _counted(numbers: Sequence[Targets]) -> list[tuple[int, int]]:
    found, counts = np.unique(_joined(numbers), return_counts=True)
    pairs = zip(found.tolist(), counts.tolist(), strict=True)
    return [(number, count) for number, count in pairs if number >= 0]


def _with_new_keys(
    routing: Routing, incoming: IncomingKeys, routes: list[Targets], new_rows: _NewRows
) -> list[Targets]:
    """Give each key that has no target yet, with all its rows, to one share of its partition."""
    partitions, keys = _joined(incoming.partition_of_row), _joined(incoming.key_of_row)
    joined = _joined(routes)
    is_new = joined == NOWHERE
    pair = partitions[is_new].astype(np.int64) * max(1, incoming.count) + keys[is_new]
    distinct, place = np.unique(pair, return_inverse=True)
    starts = np.searchsorted(
        distinct, np.arange(len(incoming.partitions) + 1) * max(1, incoming.count)
    )
    counts = {
        name: int(starts[number + 1] - starts[number])
        for number, name in enumerate(incoming.partitions)
    }
    target_of_key = np.full(len(distinct), NOWHERE, dtype=np.int32)
    for name, targets in _share_targets(routing, counts, new_rows).items():
        first = starts[incoming.partitions.index(name)]
        target_of_key[first : first + len(targets)] = targets
    joined[is_new] = target_of_key[place]
    ends = np.cumsum([len(rows) for rows in routes], dtype=np.int64)
    return list(np.split(joined, ends[:-1])) if len(ends) else []


def route_by_partition(
    routing: Routing,
    partition_of_parcel: Sequence[str],
    rows_of_parcel: Sequence[int],
    sizing: Sizing,
    *,
    fill: bool,
) -> list[Targets]:
    """Send rows to where there is room in their partitions, whatever their keys are."""
    counts: dict[str, int] = dict.fromkeys(sorted(partition_of_parcel), 0)
    for name, rows in zip(partition_of_parcel, rows_of_parcel, strict=True):
        counts[name] += rows
    shares = _share_targets(routing, counts, _NewRows(sizing, is_insert=True, fill=fill))
    taken = dict.fromkeys(counts, 0)
    routes = []
    for name, rows in zip(partition_of_parcel, rows_of_parcel, strict=True):
        routes.append(shares[name][taken[name] : taken[name] + rows])
        taken[name] += rows
    return routes


def _share_targets(
    routing: Routing, counts: Mapping[str, int], new_rows: _NewRows
) -> dict[str, Targets]:
    """Return, for each partition with new rows, the target of every one of them."""
    incoming = {
        name: NewRows(count, routing.ground.fillable(name) if new_rows.fill else ())
        for name, count in counts.items()
        if count
    }
    planned = plan_new_rows(
        incoming,
        routing.config.table_type,
        row_bytes=new_rows.sizing.row_bytes,
        limits=new_rows.sizing.limits,
    )
    return {
        name: np.concatenate(
            [_targets_of(routing, name, share, is_insert=new_rows.is_insert) for share in shares]
        )
        for name, shares in planned.items()
    }


def _targets_of(routing: Routing, partition: str, share: Share, *, is_insert: bool) -> Targets:
    if share.file_id is None:
        target = routing.new(partition)
    else:
        part = routing.ground.groups[partition][share.file_id].latest_slice
        target = routing.existing(part, takes_new_rows=True, is_insert=is_insert)
    routing.inserts[target] += share.rows
    return np.full(share.rows, target, dtype=np.int32)


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if len(arrays) else np.empty(0, dtype=np.int32)
