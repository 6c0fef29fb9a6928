"""Random writes, by one writer and by three at once: readers return what a dictionary says.

Sequences are few by default; ``WRITE_MODEL_SEQUENCES=500`` makes it so many for each kind of
table, drawn anew each time.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehand.table import Table
from write_judges import HudiRs, Ours, judge_changes, judge_past, judge_snapshot
from write_model import (
    Commit,
    Model,
    Operation,
    Step,
    Touch,
    differences,
    first_step,
    random_step,
    serial_outcomes,
    steps,
)
from write_rows import SEQUENCE, SLOTS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from write_model import Write

SEQUENCES = int(os.environ.get("WRITE_MODEL_SEQUENCES", "0"))
WRITERS = 3
KINDS = [
    Kind(version, table_type, event_time=event_time, partitioned=partitioned, hive=hive)
    for version in (9, 8, 6)
    for table_type in ("cow", "mor")
    for event_time, partitioned, hive in ((True, True, False), (False, True, True))
] + [Kind(9, "mor", partitioned=False), Kind(9, "cow", partitioned=False)]


CONTESTED = [one for one in KINDS if one.partitioned and one.event_time]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new place for each sequence: hypothesis runs many in one test."""
    with tempfile.TemporaryDirectory(prefix="lakehand-test-") as name:
        yield Path(name) / "table"


def one_after_the_other(model: Model, script: list[Step]) -> None:
    with folder() as place:
        model.kind.create(str(place))
        writer = Table.open(str(place)).writer(**model.options)
        ours = Ours(str(place))
        for step in script:
            write = model.write_of(step)
            if write is not None:
                done = write.run(writer)
                model.commit(write, done.time, done.completion_time)
                judge_snapshot(model, [ours])
        count = len(model.commits)
        judge_past(model, [ours], range(1, count + 1))
        judge_changes(model, [ours], [(begin, count) for begin in range(count)])
        judge_changes(model, [ours], [(end - 1, end) for end in range(1, count)])
        if count and not (model.row_deletions and model.kind.disputes_row_deletions):
            judge_snapshot(model, [HudiRs(place)])
        numbers = [row[SEQUENCE] for row in ours.snapshot()]
        assert len(set(numbers)) == len(numbers)


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_one_writer_wrote_is_what_every_query_returns(kind):
    @settings(
        max_examples=SEQUENCES or 3,
        derandomize=not SEQUENCES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(row_deletions=st.booleans(), script=st.lists(steps(), min_size=2, max_size=7))
    def run(row_deletions: bool, script: list[Step]) -> None:
        one_after_the_other(Model(kind, row_deletions), script)

    run()


# -- several writers ------------------------------------------------------------------------------


class Crowd:
    """Writers of one table with workbenches of their own; a round is one write of each, at once."""

    def __init__(self, kind: Kind, place: Path, seed: str) -> None:
        kind.create(str(place))
        self.rng = random.Random(seed)
        deletes = self.rng.random() < 0.5 and not kind.disputes_row_deletions
        self.model = Model(kind, row_deletions=deletes)
        self.ours = Ours(str(place))
        self.writers = [
            Table.open(str(place)).writer(retries=40, **self.model.options) for _ in range(WRITERS)
        ]
        self.rounds: list[list[Write]] = []

    def fill(self) -> None:
        write = self.model.write_of(first_step(self.rng))
        assert write is not None
        done = write.run(self.writers[0])
        self.model.commit(write, done.time, done.completion_time)

    def drawn(self) -> list[Step]:
        """One step for each writer, so that no key is inserted by two of them.

        That is out of every table's hands (protocol, section 11). So keys are shared in rounds in
        which nothing goes away, and in the others each writer has its own.
        """
        if self.rng.random() < 0.5:
            return [self._sharing(writer) for writer in range(WRITERS)]
        return [
            random_step(self.rng, slots=range(writer, SLOTS, WRITERS)) for writer in range(WRITERS)
        ]

    def _sharing(self, writer: int) -> Step:
        known = [slot for slot in range(SLOTS) if self.model.kind.id_of(slot) in self.model.records]
        slots = sorted({*known, *range(writer, SLOTS, WRITERS)})
        step = random_step(self.rng, slots=slots)
        touches = tuple(Touch(one.slot, one.ts) for one in step.touches)
        is_insert = step.operation in {Operation.INSERT, Operation.BULK_INSERT}
        return Step(step.operation if is_insert else Operation.UPSERT, touches, step.later)

    def round(self) -> None:
        writes = [self.model.write_of(step) for step in self.drawn()]
        agreed = [write for write in writes if write is not None]
        if not agreed:
            return
        barrier = Barrier(len(agreed))

        def run(write: Write, writer):
            barrier.wait(60)
            return write.run(writer)

        with ThreadPoolExecutor(len(agreed)) as pool:
            running = [
                pool.submit(run, write, writer)
                for write, writer in zip(agreed, self.writers, strict=False)
            ]
            done = [one.result() for one in running]
        self.judge(list(zip(agreed, (one.time for one in done), strict=True)))
        self.model.commits.append(
            Commit(
                tuple(one.time for one in done),
                max(one.completion_time or "" for one in done),
                self.model.visible(),
            )
        )

    def judge(self, written: list[tuple[Write, str]]) -> None:
        """The table is as some order of the writes makes it; the model goes on from there."""
        found = self.ours.snapshot()
        outcomes = serial_outcomes(self.model, written)
        problems = [differences(after.visible(), found) for after in outcomes]
        fitting = [after for after, problem in zip(outcomes, problems, strict=True) if not problem]
        assert fitting, [
            self.model.kind,
            [(write.operation.value, write.ids, time) for write, time in written],
            *problems,
        ]
        self.model = fitting[0]


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS if SEQUENCES else CONTESTED, ids=str)
def test_what_three_writers_wrote_at_once_is_as_if_one_had_gone_after_the_other(kind, tmp_path):
    for sequence in range(max(1, SEQUENCES // 10)):
        place = tmp_path / str(sequence)
        seed = f"{kind} {sequence if SEQUENCES else 0} {os.urandom(4).hex() if SEQUENCES else ''}"
        crowd = Crowd(kind, place, seed)
        crowd.fill()
        for _ in range(3):
            crowd.round()
        count = len(crowd.model.commits)
        judges = [crowd.ours, HudiRs(place)]
        judge_snapshot(crowd.model, judges)
        judge_past(crowd.model, [crowd.ours], range(1, count + 1))
        judge_changes(crowd.model, [crowd.ours], [(begin, count) for begin in range(count)])
