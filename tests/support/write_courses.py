"""Sequences of writes against a model, by one writer or by three at once, and what judges say."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

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
)
from write_rows import SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from write_model import Write

SEQUENCES = int(os.environ.get("WRITE_MODEL_SEQUENCES", "0"))
WRITERS = 3


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


class Crowd:
    """Writers of one table with workbenches of their own; a round is one write of each, at once."""

    def __init__(self, model: Model, place: Path, rng: random.Random) -> None:
        model.kind.create(str(place))
        self.rng = rng
        self.model = model
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
        return [random_step(self.rng, slots=self._own(writer)) for writer in range(WRITERS)]

    def _own(self, writer: int) -> list[int]:
        return self.model.slots_of(writer, WRITERS)

    def _sharing(self, writer: int) -> Step:
        slots = sorted({*self.model.known_slots(), *self._own(writer)})
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


def all_at_once(model_of: Callable[[random.Random], Model], folder_of_all: Path, name: str) -> None:
    """Let crowds write at once; what they wrote must be as if one had gone after the other."""
    for sequence in range(max(1, SEQUENCES // 10)):
        place = folder_of_all / str(sequence)
        drawn = os.urandom(4).hex() if SEQUENCES else ""
        rng = random.Random(f"{name} {sequence if SEQUENCES else 0} {drawn}")
        crowd = Crowd(model_of(rng), place, rng)
        crowd.fill()
        for _ in range(3):
            crowd.round()
        count = len(crowd.model.commits)
        judges = [crowd.ours, HudiRs(place)]
        judge_snapshot(crowd.model, judges)
        judge_past(crowd.model, [crowd.ours], range(1, count + 1))
        judge_changes(crowd.model, [crowd.ours], [(begin, count) for begin in range(count)])
