"""Rows that a global index moves: Java reads and moves on what we moved, and moves the same itself.

What Java itself does with a sequence of writes is asked on a table of its own, with the same index.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakehand.core.merge_rules import DEFAULT_PAYLOAD, OVERWRITE_PAYLOAD
from lakehand.table import Table
from write_by_java import BUNDLE_OF, JavaWriter, java_sizes
from write_judges import HudiRs, Java, Ours, judge_changes, judge_past, judge_snapshot
from write_model import Operation, Step, Touch, first_step, random_step
from write_model_global import GlobalModel
from write_rows import COLUMNS, KEYS, LATER_COLUMNS, PARTITION_PATH, RECORD_KEY, SLOTS, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from write_model import Write
    from write_rows import Row

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

KINDS = [
    Kind(version, table_type, event_time=event_time, hive=not event_time)
    for version in (9, 8, 6)
    for table_type in ("cow", "mor")
    for event_time in (True, False)
]
BUNDLES = [(kind, BUNDLE_OF[kind.version]) for kind in KINDS] + [
    (kind, "1.0.2") for kind in KINDS if kind.version == 8 and kind.event_time
]


def java_index(model: GlobalModel) -> dict[str, str]:
    """A global index; and 0.15 asks its writer how a copy-on-write table is merged."""
    payload = DEFAULT_PAYLOAD if model.kind.event_time else OVERWRITE_PAYLOAD
    return java_sizes(model) | {
        "hoodie.datasource.write.payload.class": payload,
        "hoodie.index.type": model.options["index"],
        "hoodie.bloom.index.update.partition.path": "true",
        "hoodie.simple.index.update.partition.path": "true",
    }


def moving(rng: random.Random, ts: int) -> Step:
    """An upsert of every third key, each to any partition."""
    touches = [Touch(key + KEYS * rng.randrange(SLOTS // KEYS), ts) for key in range(0, KEYS, 3)]
    return Step(Operation.UPSERT, tuple(touches))


def write_ours(model: GlobalModel, place: Path, steps: list[Step]) -> None:
    writer = Table.open(str(place)).writer(**model.options)
    for step in steps:
        write = model.write_of(step)
        if write is not None:
            done = write.run(writer)
            model.commit(write, done.time, done.completion_time)


@pytest.mark.parametrize(("kind", "bundle"), BUNDLES, ids=str)
def test_java_reads_what_we_moved_and_moves_on(kind, bundle, javas, tmp_path):
    place = tmp_path / "table"
    kind.create(str(place))
    rng = random.Random(str(kind))
    model = GlobalModel(kind, row_deletions=not kind.disputes_row_deletions)
    upserts = [moving(rng, ts) for ts in (3, 2, 5)]
    others = [random_step(rng) for _ in range(4)]
    write_ours(model, place, [first_step(rng), *upserts, *others, moving(rng, 5)])
    count = len(model.commits)
    java = javas[bundle]
    judges = [Java(java, place), HudiRs(place), Ours(str(place))]
    judge_snapshot(model, judges)
    judge_past(model, judges, rng.sample(range(1, count), 2))
    # 1.0.2 has the commit at which a range begins among its changes, whatever wrote it.
    judge_changes(model, judges[bundle == "1.0.2" :], [(count - 2, count)])
    writer = JavaWriter(java, kind, place, tmp_path, java_index(model))
    for ts in (7, 8):
        for step in (moving(rng, ts), moving(rng, ts)):
            write = model.write_of(Step(step.operation, step.touches, LATER_COLUMNS))
            assert write is not None
            writer.commit(model, write)
        write_ours(model, place, [moving(rng, ts)])
        judge_snapshot(model, judges)


# -- the same sequence, by Java and by us ---------------------------------------------------------


def _slot(key: int, city: int) -> int:
    return key + KEYS * city


def story(kind: Kind) -> list[Step]:
    """Keys that win, lose and tie on their way, come back, are deleted and turn up elsewhere."""
    home = [Touch(_slot(key, key % 3), 3) for key in range(12)]
    away = [
        Touch(_slot(0, 1), 4),
        Touch(_slot(1, 2), 2),
        Touch(_slot(2, 0), 3),
        Touch(_slot(3, 1), 4),
        Touch(_slot(4, 2), 4, deletes=True),
        Touch(_slot(5, 0), 2, deletes=True),
        Touch(_slot(6, 0), 4),
        Touch(_slot(12, 1), 1),
    ]
    again = [
        Touch(_slot(0, 0), 5),
        Touch(_slot(3, 2), 3),
        Touch(_slot(4, 0), 5),
        Touch(_slot(2, 0), 4),
        Touch(_slot(12, 2), 1),
    ]
    last = [Touch(_slot(key, 2), 6) for key in range(13)]
    if kind.disputes_row_deletions:
        away = [one for one in away if not one.deletes]
    gone = [Touch(_slot(0, 2), 0), Touch(_slot(6, 1), 0)]
    return [
        Step(Operation.BULK_INSERT, tuple(home), LATER_COLUMNS),
        Step(Operation.UPSERT, tuple(away), LATER_COLUMNS),
        Step(Operation.UPSERT, tuple(again), LATER_COLUMNS),
        Step(Operation.DELETE, tuple(gone), LATER_COLUMNS),
        Step(Operation.UPSERT, (Touch(_slot(6, 1), 1), Touch(_slot(0, 1), 1)), LATER_COLUMNS),
        Step(Operation.UPSERT, tuple(last), LATER_COLUMNS),
    ]


def _plain(rows: list[Row]) -> dict[tuple[str, str], Row]:
    """Without commit times: Java may give rows that stay as they are the time of a late row."""
    assert len({row[RECORD_KEY] for row in rows}) == len(rows)
    return {
        (row[PARTITION_PATH], row[RECORD_KEY]): {name: row[name] for name in COLUMNS}
        for row in rows
    }


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_moves_the_same_rows(kind, javas, tmp_path):
    java = javas[BUNDLE_OF[kind.version]]
    model = GlobalModel(kind)
    by_java, by_us = tmp_path / "by-java", tmp_path / "by-us"
    for place in (by_java, by_us):
        kind.create(str(place))
    theirs = JavaWriter(java, kind, by_java, tmp_path, java_index(model))
    ours = Table.open(str(by_us)).writer(**model.options)
    for number, step in enumerate(story(kind)):
        write: Write | None = model.write_of(step)
        assert write is not None
        done = write.run(ours)
        model.commit(write, done.time, done.completion_time)
        problem = theirs.run(write)
        assert not problem, problem
        found = _plain(Java(java, by_java).snapshot())
        assert _plain(Java(java, by_us).snapshot()) == found, (number, step)
        assert _plain(list(model.visible().values())) == found, (number, step)
        assert _plain(Ours(str(by_java)).snapshot()) == found, (number, step)
