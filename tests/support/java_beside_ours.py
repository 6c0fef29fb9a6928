"""A writer of Apache Hudi and one of ours at one table, wherever it is, and the model of both.

A ``Ground`` says how each names the table and which lock both take. Java and we know no more of
each other than that lock and the timeline: Java by optimistic concurrency, we by our policy tables.
The metadata table is off.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehand.table import Table
from write_by_java import LOCK_MINUTES, LOCKED, STORAGE_LOCKED, JavaWriter, completed
from write_judges import HudiRs, Java, Ours, judge_snapshot
from write_model import Commit, Model, Operation, Step, Touch, differences, first_step
from write_rows import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from java_hudi import JavaHudi
    from s3_server import S3Server
    from write_model import Write
    from write_rows import Kind


class Ground(NamedTuple):
    """Where Java and we meet."""

    uri: str
    java_uri: str
    lock: str
    lock_options: Mapping[str, str]
    java_lock: dict[str, str]
    storage_options: Mapping[str, Any] | None = None
    hudi_rs_options: Mapping[str, str] | None = None


def on_disk(folder: Path) -> Ground:
    lease = {"lease_s": str(60 * LOCK_MINUTES)}
    return Ground(str(folder), str(folder), "filesystem", lease, LOCKED)


def on_s3(server: S3Server, where: str) -> Ground:
    """A bucket and a folder in it: Java calls its scheme s3a, all others s3."""
    return Ground(
        uri=f"s3://{where}",
        java_uri=f"s3a://{where}",
        lock="storage",
        lock_options={"java_lease_s": str(60 * LOCK_MINUTES)},
        java_lock=STORAGE_LOCKED,
        storage_options=server.storage_options,
        hudi_rs_options={
            "aws_endpoint": server.endpoint,
            "aws_access_key_id": server.key,
            "aws_secret_access_key": server.secret,
            "aws_region": str(server.storage_options["region"]),
            "aws_allow_http": "true",
        },
    )


class Pair:
    """Java and we, at one table full of rows."""

    def __init__(self, kind: Kind, java: JavaHudi, ground: Ground, scratch: Path) -> None:
        kind.create(ground.uri, ground.storage_options)
        self.kind = kind
        self.ground = ground
        self.rng = random.Random(str(kind))
        self.model = Model(kind, row_deletions=False)
        self.theirs = JavaWriter(
            java, kind, ground.java_uri, scratch, ground.java_lock, ground.storage_options
        )
        self.ours = Table.open(ground.uri, ground.storage_options).writer(
            lock=ground.lock,
            lock_options=ground.lock_options,
            retries=20,
            **self.model.options,
        )
        self.judges = [
            Java(java, ground.java_uri),
            HudiRs(ground.uri, ground.hudi_rs_options),
            Ours(ground.uri, ground.storage_options),
        ]
        self.our_turn(first_step(self.rng))

    def their_turn(self, step: Step) -> None:
        write = self.model.write_of(step)
        assert write is not None
        self.theirs.commit(self.model, write)

    def our_turn(self, step: Step) -> None:
        write = self.model.write_of(step)
        assert write is not None
        done = write.run(self.ours)
        self.model.commit(write, done.time, done.completion_time)

    def upsert(self, slots: Iterable[int]) -> Step:
        chosen = self.rng.sample(list(slots), 8)
        return Step(Operation.UPSERT, tuple(Touch(slot, self.rng.randrange(9)) for slot in chosen))

    def collide(self, theirs: Write, ours: list[Write]) -> str:
        """Do Java's write and, one after the other, ours at the same time; return Java's problem.

        The table must be as if Java's write, if it was acknowledged, had come somewhere among ours.
        """
        before = self.completed()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.theirs.run, theirs)
            times = [write.run(self.ours).time for write in ours]
            problem = running.result()
        new = self.completed().items() - before.items()
        by_java = {time for time, _ in new} - set(times)
        assert len(by_java) == (0 if problem else 1), (problem, by_java)
        written = list(zip(ours, times, strict=True))
        found = Ours(self.ground.uri, self.ground.storage_options).snapshot()
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

    def completed(self) -> dict[str, str | None]:
        return completed(self.ground.uri, self.ground.storage_options)

    def known(self) -> list[int]:
        """The slots whose records the table has."""
        return [slot for slot in range(SLOTS) if self.kind.id_of(slot) in self.model.records]

    def writes(self, steps: list[Step]) -> list[Write]:
        found = [self.model.write_of(step) for step in steps]
        return [write for write in found if write is not None]
