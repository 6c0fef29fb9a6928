"""Tables that we write are read by Java and hudi-rs as the model says, and Java writes on."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakehand.table import Table
from write_by_java import BUNDLE_OF, JavaWriter, can_do, java_sizes
from write_judges import HudiRs, Java, Ours, judge_changes, judge_past, judge_snapshot
from write_model import Model, Operation, Step, Touch, first_step, random_step
from write_rows import LATER_COLUMNS, SLOTS, Kind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

KINDS = [
    Kind(version, table_type, event_time=event_time, partitioned=partitioned, hive=hive)
    for version in (9, 8, 6)
    for table_type in ("cow", "mor")
    for event_time, partitioned, hive in ((True, True, False), (False, True, True))
] + [Kind(9, "mor", partitioned=False)]


def write_some(model: Model, place: Path, script: list[Step], **options) -> None:
    writer = Table.open(str(place)).writer(**options)
    for step in script:
        write = model.write_of(step)
        if write is not None:
            done = write.run(writer)
            model.commit(write, done.time, done.completion_time)


def script_of(rng: random.Random) -> list[Step]:
    """Every operation at least once, in any order, after a table full of rows."""
    script = [random_step(rng) for _ in Operation]
    steps = [
        Step(operation, one.touches, one.later)
        for operation, one in zip(Operation, script, strict=True)
    ]
    rng.shuffle(steps)
    return [first_step(rng), *steps]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_opens_a_table_that_we_made_and_writes_the_first_rows(kind, javas, tmp_path):
    place = tmp_path / "table"
    kind.create(str(place))
    model = Model(kind, row_deletions=False)
    java = javas[BUNDLE_OF[kind.version]]
    judges = [Java(java, place), Ours(str(place))]
    judge_snapshot(model, judges)
    writer = JavaWriter(java, kind, place, tmp_path, java_sizes(model))
    for step in (
        first_step(random.Random(1)),
        Step(Operation.UPSERT, tuple(Touch(slot, 3) for slot in range(0, SLOTS, 7))),
    ):
        write = model.write_of(step)
        assert write is not None
        writer.commit(model, write)
    judge_snapshot(model, [*judges, HudiRs(place)])
    write_some(model, place, [random_step(random.Random(2))], **model.options)
    judge_snapshot(model, [*judges, HudiRs(place)])


@pytest.mark.parametrize(
    ("kind", "log_format"),
    [
        *((kind, "parquet") for kind in KINDS),
        *((kind, "avro") for kind in KINDS if kind.merge_on_read and kind.event_time),
    ],
    ids=str,
)
def test_java_and_hudi_rs_read_now_then_and_between_as_the_model_says(
    kind, log_format, javas, tmp_path
):
    place = tmp_path / "table"
    kind.create(str(place))
    rng = random.Random(f"{kind} {log_format}")
    model = Model(kind, row_deletions=rng.random() < 0.5 and not kind.disputes_row_deletions)
    options = model.options | {"log_format": log_format}
    write_some(model, place, script_of(rng), **options)
    count = len(model.commits)
    java = javas[BUNDLE_OF[kind.version]]
    judges = [Java(java, place), HudiRs(place), Ours(str(place))]
    judge_snapshot(model, judges)
    judge_past(model, judges, rng.sample(range(1, count), 3))
    judge_changes(model, judges, [(0, 2), (1, count - 1), (count - 2, count)])
    writer = JavaWriter(java, kind, place, tmp_path, java_sizes(model))
    for _ in range(2):
        for step in (random_step(rng), random_step(rng)):
            # Java refuses data that lacks a column of the table.
            write = model.write_of(replace(step, later=LATER_COLUMNS))
            if write is not None and can_do(write):
                writer.commit(model, write)
        write_some(model, place, [random_step(rng)], **options)
        judge_snapshot(model, judges)
    judge_past(model, judges, [count - 1, count + 1])
