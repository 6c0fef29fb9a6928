"""A writer of Java and ours at one table: they take turns and collide, and nothing is lost.

Both exclude each other by Hudi's file lock and know no more of each other than the timeline: Java
by optimistic concurrency, we by our policy tables. The metadata table is off.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakehand.table import Table
from write_by_java import LOCK_MINUTES, LOCKED, JavaWriter, completed
from write_judges import HudiRs, Java, Ours, judge_snapshot
from write_model import Commit, Model, Operation, Step, Touch, differences, first_step
from write_rows import KEYS, SLOTS, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from write_model import Write

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

KINDS = [Kind(9, "cow"), Kind(9, "mor"), Kind(8, "mor"), Kind(9, "mor", event_time=False)]
OURS_PER_ROUND = 3


class Pair:
    """Java and we, at one table full of rows."""

    def __init__(self, kind: Kind, java, place: Path, scratch: Path) -> None:
        kind.create(str(place))
        self.kind = kind
        self.place = place
        self.rng = random.Random(str(kind))
        self.model = Model(kind, row_deletions=False)
        self.theirs = JavaWriter(java, kind, place, scratch, LOCKED)
        self.ours = Table.open(str(place)).writer(
            lock="filesystem",
            lock_options={"lease_s": str(60 * LOCK_MINUTES)},
            retries=20,
            **self.model.options,
        )
        self.judges = [Java(java, place), HudiRs(place), Ours(str(place))]
        self.our_turn(first_step(self.rng))

    def our_turn(self, step: Step) -> None:
        write = self.model.write_of(step)
        assert write is not None
        done = write.run(self.ours)
        self.model.commit(write, done.time, done.completion_time)

    def upsert(self, slots) -> Step:
        chosen = self.rng.sample(list(slots), 8)
        return Step(Operation.UPSERT, tuple(Touch(slot, self.rng.randrange(9)) for slot in chosen))

    def collide(self, theirs: Write, ours: list[Write]) -> str:
        """Do Java's write and, one after the other, ours at the same time; return Java's problem.

        The table must be as if Java's write, if it was acknowledged, had come somewhere among ours.
        """
        before = completed(self.place)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.theirs.run, theirs)
            times = [write.run(self.ours).time for write in ours]
            problem = running.result()
        new = completed(self.place).items() - before.items()
        by_java = {time for time, _ in new} - set(times)
        assert len(by_java) == (0 if problem else 1), (problem, by_java)
        written = list(zip(ours, times, strict=True))
        found = Ours(str(self.place)).snapshot()
        problems = []
        for place in range(len(ours) + 1 if by_java else 1):
            order = [*written[:place], *((theirs, time) for time in by_java), *written[place:]]
            after = self.model.copy()
            for write, time in order:
                after.apply(write, time)
            problems.append(differences(after.visible(), found))
            if not problems[-1]:
                self.model = after
                break
        assert not problems[-1], problems
        done = max(completion or time for time, completion in new)
        times_of_all = tuple(time for time, _ in new)
        self.model.commits.append(Commit(times_of_all, done, self.model.visible()))
        judge_snapshot(self.model, self.judges)
        return problem

    def writes(self, steps: list[Step]) -> list[Write]:
        found = [self.model.write_of(step) for step in steps]
        return [write for write in found if write is not None]


def known(model: Model) -> list[int]:
    return [slot for slot in range(SLOTS) if model.kind.id_of(slot) in model.records]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_take_turns(kind, javas, tmp_path):
    pair = Pair(kind, javas["1.2.0"], tmp_path / "table", tmp_path)
    for _ in range(2):
        write = pair.model.write_of(pair.upsert(range(SLOTS)))
        assert write is not None
        pair.theirs.commit(pair.model, write)
        pair.our_turn(pair.upsert(range(SLOTS)))
        judge_snapshot(pair.model, pair.judges)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_collide_on_the_same_records_and_nothing_acknowledged_is_lost(
    kind, javas, tmp_path
):
    pair = Pair(kind, javas["1.2.0"], tmp_path / "table", tmp_path)
    refusals = []
    for _ in range(3):
        slots = known(pair.model)
        (theirs,) = pair.writes([pair.upsert(slots)])
        ours = pair.writes([pair.upsert(slots) for _ in range(OURS_PER_ROUND)])
        refusals.append(pair.collide(theirs, ours))
    for problem in itertools.filterfalse(lambda text: not text, refusals):
        assert "onflict" in problem, problem


def test_java_and_we_write_to_different_partitions_at_once_and_both_commit(javas, tmp_path):
    pair = Pair(Kind(9, "mor"), javas["1.2.0"], tmp_path / "table", tmp_path)
    for _ in range(3):
        (theirs,) = pair.writes([pair.upsert(range(KEYS))])
        ours = pair.writes([pair.upsert(range(KEYS, SLOTS)) for _ in range(OURS_PER_ROUND)])
        assert pair.collide(theirs, ours) == ""
