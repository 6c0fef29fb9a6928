"""A writer that is killed at any of its store calls leaves a table that every reader reads right.

They see all of its write or nothing, and the next writer clears away what it left. By default a
few calls of each kind of table are tried; ``KILL_AT_EVERY_CALL=1`` tries all of them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import s3_server
from kernel_faults import Counting, TappedStore
from kernel_rows import age_heartbeats
from killed_writer import KilledWriters
from lakehand.core.instants import State
from lakehand.protocol import failed_writes
from lakehand.protocol.workbench import ProtocolSettings
from lakehand.store.open import open_store
from lakehand.table import Table
from write_judges import HudiRs, Ours
from write_model import Model, Operation, Step, Touch, differences
from write_rows import COMMIT_TIME, KEYS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from write_model import Write
    from write_rows import Row

EVERY = bool(os.environ.get("KILL_AT_EVERY_CALL"))
APART = 16
SMALL = {"bloom_entries": 100}

UPSERT = Step(
    Operation.UPSERT,
    (*(Touch(slot, 5) for slot in (0, 3, 25, 44)), Touch(1, 5, deletes=True), Touch(59, 1)),
)
FOLLOWING = Step(Operation.UPSERT, (Touch(5, 5), Touch(29, 5), Touch(58, 5)))
CASES = [
    (Kind(9, "mor"), UPSERT),
    (Kind(9, "cow"), UPSERT),
    (Kind(8, "mor"), UPSERT),
    (Kind(6, "mor"), UPSERT),
    (Kind(6, "cow"), UPSERT),
    (Kind(9, "mor"), Step(Operation.DELETE, (Touch(0, 0), Touch(25, 0)))),
    (Kind(9, "cow"), Step(Operation.BULK_INSERT, (Touch(15, 0), Touch(35, 0), Touch(55, 0)))),
    (Kind(9, "mor"), Step(Operation.OVERWRITE, (Touch(2, 0), Touch(19, 0)))),
    (Kind(6, "cow"), Step(Operation.DELETE_PARTITION, (Touch(0, 0),))),
]


@pytest.fixture(scope="module")
def killed() -> Iterator[KilledWriters]:
    with KilledWriters() as nursery:
        yield nursery


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[s3_server.S3Server, str]]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(s3_server.running(s3_server.VERSITYGW))
        except s3_server.NoGo as no_go:
            pytest.skip(str(no_go))
        s3_server.make_bucket(server, "killed")
        yield server, "killed"


def begin(kind: Kind, uri: str, storage_options: dict[str, Any] | None = None) -> Model:
    """A table with rows in three partitions, updated once."""
    kind.create(uri, storage_options)
    model = Model(kind)
    some = tuple(Touch(slot, 1) for slot in range(3 * KEYS) if slot % KEYS < 10)
    for step in (Step(Operation.BULK_INSERT, some), Step(Operation.UPSERT, some[::3])):
        write = model.write_of(step)
        assert write is not None
        done = write.run(Table.open(uri, storage_options).writer(**SMALL))
        model.commit(write, done.time, done.completion_time)
    return model


def calls_of(uri: str, write: Write, storage_options: dict[str, Any] | None = None) -> int:
    """How many store calls the write makes if nobody kills it."""
    counting = Counting()
    write.run(Table.over(TappedStore(open_store(uri, storage_options), counting)).writer(**SMALL))
    return len(counting.calls)


def tried(calls: int, *, first: int) -> range:
    """The calls to be killed at: all of them, or each case some others."""
    return range(1, calls + 1) if EVERY else range(first, calls + 1, APART)


def after(model: Model, write: Write, time: str) -> Model:
    changed = model.copy()
    changed.apply(write, time)
    return changed


def standing(model: Model, write: Write, found: list[Row]) -> Model | None:
    """Which state the rows show: before the write or after it; None: neither."""
    newest = max((row[COMMIT_TIME] for row in found), default="")
    for state in (model, after(model, write, newest)):
        if not differences(state.visible(), found):
            return state
    return None


def bury(place: Path) -> None:
    """The dead writer's heartbeats expired long ago, and so did its lock."""
    age_heartbeats(place)
    break_lock(Table.open(str(place)))


def break_lock(table: Table) -> None:
    locks = table.lock()
    holder = locks.holder()
    if holder is not None:
        locks.break_lock(holder)


def require_clean(place: Path, table: Table, problem: str) -> None:
    """Nothing staged, no marker, no heartbeat, nothing pending, no file that nobody names.

    What was staged for a plan that was never decided is swept when it is older than a heartbeat
    may be: until then it may be about to be decided.
    """
    patience = ProtocolSettings(heartbeat_interval_s=0.001, foreign_writers=False)
    failed_writes.sweep(table.workbench(settings=patience))
    left = [one for one in (place / ".hoodie" / ".temp").rglob("*") if one.is_file()]
    assert left == [], problem
    assert list((place / ".hoodie" / ".heartbeat").glob("*")) == [], problem
    timeline = table.timeline()
    assert timeline.pending == (), problem
    known = {one.time for one in timeline.instants if one.state is State.COMPLETED}
    for file in [*place.rglob("*.parquet"), *place.rglob(".*.log.*")]:
        assert any(time in file.name for time in known), (problem, file)


class Scene:
    """A table, a write to be killed, and the write that follows."""

    def __init__(self, kind: Kind, step: Step, scratch: Path) -> None:
        self.kind = kind
        self.scratch = scratch
        self.model = begin(kind, str(scratch / "whole"))
        write = self.model.write_of(step)
        following = self.model.write_of(FOLLOWING)
        assert write is not None
        assert following is not None
        self.write, self.following = write, following
        self.is_done = False
        """Whether the write was seen in the table when it was killed at an earlier call."""

    def calls(self) -> int:
        return calls_of(str(self._copy("counted")), self.write)

    def kill(self, killed: KilledWriters, at: int) -> None:
        place = self._copy(f"killed-{at}")
        call = killed.run(str(place), self.write, at=at, options=SMALL)
        assert call is not None, f"it made fewer than {at} calls"
        problem = f"{self.kind}, killed at call {at}: {call}"
        found = Ours(str(place)).snapshot()
        state = standing(self.model, self.write, found)
        assert state is not None, (problem, differences(self.model.visible(), found))
        assert differences(state.visible(), HudiRs(place).snapshot()) == [], problem
        assert state is not self.model or not self.is_done, f"{problem}: it was done before"
        self.is_done = state is not self.model
        bury(place)
        done = self.following.run(Table.open(str(place)).writer(**SMALL))
        expected = self._end(place, state, done.time).visible()
        for judge in (Ours(str(place)), HudiRs(place)):
            assert differences(expected, judge.snapshot()) == [], (problem, judge.name)
        require_clean(place, Table.open(str(place)), problem)
        shutil.rmtree(place)

    def _end(self, place: Path, state: Model, following_time: str) -> Model:
        """A commit that was decided, and not shown yet, is carried out by whoever comes next."""
        if not self.is_done:
            times = {one.time for one in Table.open(str(place)).timeline().completed_writes}
            known = {one.time for one in self.model.commits}
            for time in times - known - {following_time}:
                state = after(self.model, self.write, time)
        return after(state, self.following, following_time)

    def _copy(self, name: str) -> Path:
        return Path(shutil.copytree(self.scratch / "whole", self.scratch / name))


@pytest.mark.parametrize(
    ("kind", "step"), CASES, ids=[f"{kind}-{step.operation.value}" for kind, step in CASES]
)
def test_a_killed_write_is_all_there_or_not_at_all_and_the_next_write_clears_it_away(
    kind, step, killed, tmp_path
):
    scene = Scene(kind, step, tmp_path)
    for at in tried(scene.calls(), first=1 + CASES.index((kind, step)) * 5 % APART):
        scene.kill(killed, at)


@pytest.mark.s3
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [Kind(9, "mor"), Kind(6, "cow")], ids=str)
def test_a_killed_write_on_s3_is_all_there_or_not_at_all(kind, killed, bucket):
    server, name = bucket
    options = {**server.storage_options, "part_size": 5 << 20}
    counted = f"s3://{name}/{uuid.uuid4().hex}"
    write = begin(kind, counted, options).write_of(UPSERT)
    assert write is not None
    calls = calls_of(counted, write, options)
    for at in range(3, calls + 1, 1 if EVERY else calls // 6):
        uri = f"s3://{name}/{uuid.uuid4().hex}"
        model = begin(kind, uri, options)
        write, following = model.write_of(UPSERT), model.write_of(FOLLOWING)
        assert write is not None
        assert following is not None
        call = killed.run(uri, write, at=at, storage_options=options, options=SMALL)
        problem = f"{kind} on S3, killed at call {at} of {calls}: {call}"
        state = standing(model, write, Ours(uri, options).snapshot())
        assert state is not None, problem
        table = Table.open(uri, options)
        break_lock(table)
        # Its heartbeat is still fresh, and nobody can make it older: who is alone need not wait.
        done = following.run(table.writer(failed_writes="EAGER", **SMALL))
        found = Ours(uri, options).snapshot()
        ends = [after(state, following, done.time)]
        for instant in table.timeline().completed_writes:
            decided = after(after(model, write, instant.time), following, done.time)
            ends += [decided] if state is model else []
        assert any(not differences(end.visible(), found) for end in ends), problem
        assert table.timeline().pending == (), problem
        # What an ended instant left is swept when the dead writer's heartbeat has expired.
        fresh = table.store.names(".hoodie/.heartbeat")
        left = [one.path for one in table.store.walk(".hoodie/.temp")]
        assert [path for path in left if path.split("/")[2] not in fresh] == [], problem
