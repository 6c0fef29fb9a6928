"""What becomes of rows whose keys a global index finds in another partition, or more than once.

::

    keys + where they were found ─► contest ─► the keys that are in doubt, mostly none
    contest ─► tasks (``standing``) ─► which rows stand; which incoming row of a key counts
    both    ─► decide ─► Verdict ─► settled: every row's group, and what leaves its old one

The incoming row meets the one that stands as if it were written on top of it:

* It loses, or it deletes: it goes to the group of the row that stands, which merges the two.
* It wins and names another partition: the old group loses the key, by a deletion without an
  ordering value, which always wins; and the row is inserted where it says, like one of a new key.
* Nothing stands, because logs deleted the key wherever it was found: it is inserted.

Of a key that comes with several partitions the row that wins among them counts; rows of the others
go nowhere. Should a key stand in several groups, ``index`` says which of them is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.read.columns import joined, row_numbers
from lakehand.read.log_winners import base_row_wins
from lakehand.write import standing
from lakehand.write.index import LOST, NEW
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY
from lakehand.write.standing import DELETES, PLACE, StandingTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from lakehand.read.columns import Flags
    from lakehand.write.index import Groups, IncomingKeys, Located, LookupPlan, Numbers

    Ordering = Sequence[pa.Array[Any]]


class Doubts(NamedTuple):
    """What a write does with keys in doubt, and how the tasks are asked that know of them."""

    moves: bool
    """Whether rows move to the partition that they name."""
    unites: bool
    """Whether of the rows of one key one counts, in whatever partitions."""
    standing: Callable[[Sequence[StandingTask]], list[bytes]]
    best: Callable[[Sequence[Groups]], list[bytes]] | None
    """None: it does not matter what the incoming rows say."""
    spread: int
    """Over so many targets the rows in doubt are spread."""


class Contest(NamedTuple):
    """The keys in doubt, and where each was found."""

    keys: Numbers
    """Their numbers, in order."""
    place: Numbers
    """Of each finding the place of its key among them; findings are in order of groups."""
    group: Groups


class Standing(NamedTuple):
    """Rows that stand, each in a group of its own if they are of one key."""

    place: Numbers
    group: Groups
    ordering: Ordering


class Best(NamedTuple):
    """Of each key in doubt the incoming row that counts."""

    partition: Groups
    deletes: Flags
    ordering: Ordering


class Verdict(NamedTuple):
    """Of each key in doubt: where its rows go, and which group loses it."""

    group: Groups
    """NEW: to where there is room."""
    leaves: Groups
    """NEW: it leaves none."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The keys that leave their groups."""

    keys: Mapping[int, pa.StringArray]
    """By the number of the group."""
    group_of_row: tuple[Groups, ...]
    """Of each parcel the group that each row's key leaves, or NEW."""


def settle(
    incoming: IncomingKeys, plan: LookupPlan, located: Located, doubts: Doubts
) -> tuple[Located, Leaving | None]:
    """Return where the rows go once all doubts are settled, and what leaves its group."""
    if not (doubts.moves or doubts.unites or located.copies):
        return located, None
    contest = find_contest(incoming, plan, located, doubts)
    if not len(contest.keys):
        return located, None
    texts = incoming.keys_at(contest.keys)
    stands = _ask_standing(plan, contest, texts, doubts)
    best = None
    if doubts.best is not None:
        best = _ask_best(incoming, contest, texts, doubts.best, spread=doubts.spread)
    owners = _owners(incoming, plan)
    verdict = decide(len(contest.keys), stands, best, owners, moves=doubts.moves)
    recounted = _copies(contest, stands.place) - _copies(contest, contest.place)
    return _applied(incoming, located, contest, verdict, best, recounted), _leaving(
        incoming, contest, verdict, texts
    )


# -- gathering --------------------------------------------------------------------------------


def find_contest(
    incoming: IncomingKeys, plan: LookupPlan, located: Located, doubts: Doubts
) -> Contest:
    """Return the keys whose rows cannot simply go to where they were found, or to a new place."""
    is_contested = np.zeros(incoming.count, dtype=np.bool_)
    if doubts.moves:
        for keys, moved in zip(incoming.key_of_row, located.moved, strict=True):
            is_contested[keys[moved]] = True
    times = np.bincount(located.found_keys, minlength=incoming.count)
    if doubts.unites and len(incoming.partitions) > 1:
        is_contested |= _in_several_partitions(incoming) & (times == 0)
    if located.copies:
        has_logs = np.array([bool(part.log_files) for part in plan.groups])
        is_stale = (times[located.found_keys] > 1) & has_logs[located.found_groups]
        is_contested[located.found_keys[is_stale]] = True
    chosen = is_contested[located.found_keys]
    groups = located.found_groups[chosen]
    order = np.argsort(groups, kind="stable")
    keys = np.flatnonzero(is_contested)
    places = np.searchsorted(keys, located.found_keys[chosen])
    return Contest(keys, places[order], groups[order])


def _in_several_partitions(incoming: IncomingKeys) -> Flags:
    owner = np.zeros(incoming.count, dtype=np.int32)
    pairs = list(zip(incoming.key_of_row, incoming.partition_of_row, strict=True))
    for keys, partitions in pairs:
        owner[keys] = partitions
    found = np.zeros(incoming.count, dtype=np.bool_)
    for keys, partitions in pairs:
        found[keys[owner[keys] != partitions]] = True
    return found


def _owners(incoming: IncomingKeys, plan: LookupPlan) -> Groups:
    """Return of each group the number of its partition; -1: no row names it."""
    number_of = {name: number for number, name in enumerate(incoming.partitions)}
    return np.array([number_of.get(part.partition, -1) for part in plan.groups], dtype=np.int32)


def _ask_standing(
    plan: LookupPlan, contest: Contest, texts: pa.StringArray, doubts: Doubts
) -> Standing:
    numbers, first = np.unique(contest.group, return_index=True)
    spans = list(pairwise([*first.tolist(), len(contest.group)]))
    questions = [
        StandingTask(plan.groups[number], texts.take(row_numbers(contest.place[start:end])))
        for number, (start, end) in zip(numbers.tolist(), spans, strict=True)
    ]
    answers = [standing.received(one) for one in doubts.standing(questions)]
    places, groups, rows = [], [], []
    for number, (start, end), answer in zip(numbers, spans, answers, strict=True):
        # A base file may have several rows of one key: inserts that nobody looked up make them.
        found, at = np.unique(answer.column(PLACE).to_numpy(), return_index=True)
        places.append(contest.place[start:end][found])
        groups.append(np.full(len(found), number, dtype=np.int32))
        rows.append(answer.drop_columns([PLACE]).take(row_numbers(at)))
    table = pa.concat_tables(rows) if rows else pa.table({})
    return Standing(
        np.concatenate(places) if places else np.empty(0, dtype=np.int64),
        np.concatenate(groups) if groups else np.empty(0, dtype=np.int32),
        [joined([column]) for column in table.columns],
    )


def _ask_best(
    incoming: IncomingKeys,
    contest: Contest,
    texts: pa.StringArray,
    best: Callable[[Sequence[Groups]], list[bytes]],
    *,
    spread: int,
) -> Best:
    target_of_key = np.full(incoming.count, NEW, dtype=np.int32)
    target_of_key[contest.keys] = np.arange(len(contest.keys)) % spread
    routes = [target_of_key[keys] for keys in incoming.key_of_row]
    table = pa.concat_tables([standing.received(one) for one in best(routes)])
    order: Any = pc.index_in(texts, value_set=joined([table.column(RECORD_KEY)]))
    table = table.take(order)
    names: Any = pa.array(incoming.partitions)
    numbers: Any = pc.index_in(joined([table.column(PARTITION_PATH)]), value_set=names)
    decided_by = table.drop_columns([RECORD_KEY, PARTITION_PATH, DELETES])
    return Best(
        numbers.to_numpy(),
        table.column(DELETES).to_numpy(),
        [joined([column]) for column in decided_by.columns],
    )


# -- deciding ---------------------------------------------------------------------------------


def decide(
    count: int, stands: Standing, best: Best | None, owners: Groups, *, moves: bool
) -> Verdict:
    """Return what becomes of ``count`` keys."""
    is_away = np.zeros(len(stands.place), dtype=np.bool_)
    if best is not None:
        is_away = owners[stands.group] != best.partition[stands.place]
    order = np.lexsort((stands.group, is_away, stands.place))
    known, first = np.unique(stands.place[order], return_index=True)
    row = order[first]
    group = np.full(count, NEW, dtype=np.int32)
    group[known] = stands.group[row]
    leaves = np.full(count, NEW, dtype=np.int32)
    if best is not None and moves and len(known):
        may_move = is_away[row] & ~best.deletes[known]
        known, row = known[may_move], row[may_move]
        loses = base_row_wins(
            [values.take(row_numbers(row)) for values in stands.ordering],
            [values.take(row_numbers(known)) for values in best.ordering],
            np.zeros(len(known), dtype=np.bool_),
        )
        moving = known[~loses]
        leaves[moving] = group[moving]
        group[moving] = NEW
    return Verdict(group, leaves)


# -- applying ---------------------------------------------------------------------------------


def _copies(contest: Contest, places: Numbers) -> int:
    """Return how many keys are among the places more than once."""
    return int(np.count_nonzero(np.bincount(places, minlength=len(contest.keys)) > 1))


def _applied(
    incoming: IncomingKeys,
    located: Located,
    contest: Contest,
    verdict: Verdict,
    best: Best | None,
    recounted: int,
) -> Located:
    def settled(groups: Groups, keys: Numbers, partitions: npt.NDArray[np.int32]) -> Groups:
        place, hit = _places(contest, keys)
        found = groups.copy()
        found[hit] = verdict.group[place]
        if best is not None:
            at = np.flatnonzero(hit)
            found[at[partitions[hit] != best.partition[place]]] = LOST
        return found

    rows = zip(located.group_of_row, incoming.key_of_row, incoming.partition_of_row, strict=True)
    return replace(
        located,
        group_of_row=tuple(settled(*one) for one in rows),
        copies=located.copies + recounted,
    )


def _places(contest: Contest, keys: Numbers) -> tuple[Numbers, Flags]:
    """Return which rows have a key in doubt, and the places of these keys."""
    place = np.searchsorted(contest.keys, keys)
    place[place == len(contest.keys)] = 0
    hit = contest.keys[place] == keys
    return place[hit], hit


def _leaving(
    incoming: IncomingKeys, contest: Contest, verdict: Verdict, texts: pa.StringArray
) -> Leaving | None:
    moving = np.flatnonzero(verdict.leaves != NEW)
    if not len(moving):
        return None
    moving = moving[np.argsort(verdict.leaves[moving], kind="stable")]
    numbers, first = np.unique(verdict.leaves[moving], return_index=True)
    spans = pairwise([*first.tolist(), len(moving)])
    keys = {
        number: texts.take(row_numbers(moving[start:end]))
        for number, (start, end) in zip(numbers.tolist(), spans, strict=True)
    }
    leaving = []
    for of_row in incoming.key_of_row:
        place, hit = _places(contest, of_row)
        groups = np.full(len(of_row), NEW, dtype=np.int32)
        groups[hit] = verdict.leaves[place]
        leaving.append(groups)
    return Leaving(keys, tuple(leaving))
