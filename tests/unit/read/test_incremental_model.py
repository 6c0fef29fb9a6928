"""Incremental queries of random histories, against what the builder remembers of each moment.

The model knows the rows after every write and service, and which files a reader needed then. Of
a range it takes the rows at its end whose commit time is one of the writes in the range. A query
of a past state must answer like the model, or refuse if, and only if, files of that state are gone.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import table_builder_services as services
from lakehand.errors import Invalid
from lakehand.read.reader import Reader
from lakehand.read.snapshot import Scan
from lakehand.table import Table
from table_builder import TableBuilder
from table_builder_rows import COMMIT_TIME, Partitioning, Shape, differences, paths

HIVE = Partitioning.HIVE
SHAPES = {
    "mor9": Shape(9, merge_on_read=True, partitioning=HIVE, blocks="parquet"),
    "mor9-newest-wins": Shape(9, merge_on_read=True, partitioning=HIVE, event_time=False),
    "cow9": Shape(9, merge_on_read=False, partitioning=HIVE),
    "mor8": Shape(8, merge_on_read=True, partitioning=HIVE, event_time=False, blocks="parquet"),
    "cow8": Shape(8, merge_on_read=False, partitioning=HIVE),
    "mor6": Shape(6, merge_on_read=True, partitioning=HIVE, blocks="parquet"),
    "mor6-newest-wins": Shape(6, merge_on_read=True, partitioning=HIVE, event_time=False),
    "cow6": Shape(6, merge_on_read=False, partitioning=HIVE),
}
KEYS = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["upsert", "late", "delete"]), KEYS),
        st.tuples(st.sampled_from(["compact", "cluster", "compact_logs"]), st.just([])),
        st.tuples(st.sampled_from(["overwrite", "begin", "end", "clean"]), st.just([])),
    ),
    min_size=3,
    max_size=10,
)


@dataclass(frozen=True)
class Moment:
    time: str
    """When it was: completion time, or instant time in version 6."""
    instant: str
    rows: dict
    files: frozenset


class Story:
    """A table, what became of it step by step, and the moments it went through."""

    def __init__(self, folder, shape):
        self.table = TableBuilder(folder, shape)
        self.straddling = []
        self.fresh = 100
        self.moments = []
        self.was_cleaned = False

    def take(self, step, keys):
        getattr(self, f"_{step}")(keys)

    def seen(self, instant):
        files = frozenset(
            group.path(name)
            for group in self.table.live
            for slice_ in group.slices[group.slices.index(group.visible) :]
            for name in slice_.files
        )
        time = instant if self.table.shape.version == 6 else self.table.tick()
        self.moments.append(Moment(time, instant, dict(self.table.model), files))

    def new_keys(self):
        self.fresh += 5
        return range(self.fresh, self.fresh + 5)

    def _upsert(self, keys):
        self.seen(self.table.upsert(keys).instant)

    def _late(self, keys):
        """Rows that lose where event time decides; the builder knows none of a deleted key."""
        alive = [key for key in keys if f"k{key:04d}" in self.table.model]
        if alive:
            self.seen(self.table.upsert(alive, late=True).instant)

    def _delete(self, keys):
        self.seen(self.table.delete(keys).instant)

    def _begin(self, _):
        """Only new keys: a write over others would have to lose its conflict."""
        self.straddling.append(self.table.begin_insert(self.new_keys()))

    def _end(self, _):
        """In version 6 it would join the past of writes that completed before it."""
        if self.straddling and self.table.shape.version != 6:
            self.seen(self.table.complete(self.straddling.pop()).instant)

    def _overwrite(self, _):
        partition = paths(self.table.shape)[0]
        self.seen(self.table.insert_overwrite(partition, self.new_keys()).instant)

    def _compact(self, _):
        if any(group.latest.logs for group in self.table.live):
            plan = services.schedule_compaction(self.table)
            services.execute_compaction(self.table, plan)
            self.seen(plan.instant)

    def _compact_logs(self, _):
        if any(len(group.latest.logs) > 1 for group in self.table.live):
            services.compact_logs(self.table)

    def _cluster(self, _):
        plan = services.schedule_clustering(self.table, [paths(self.table.shape)[0]])
        services.execute_clustering(self.table, plan)
        self.seen(plan.instant)

    def _clean(self, _):
        """In version 6 a clean stops at a pending write, so there is nothing to do for it."""
        if self.straddling and self.table.shape.version == 6:
            return
        services.clean_up(self.table)
        self.was_cleaned = True

    def at(self, end):
        """The last moment up to a time, and the one before the first write."""
        past = [moment for moment in self.moments if moment.time <= end]
        return past[-1] if past else Moment("", "", {}, frozenset())

    def changes(self, begin, end):
        written = {one.instant for one in self.moments if begin < one.time <= end}
        rows = self.at(end).rows
        return {key: row for key, row in rows.items() if row[COMMIT_TIME] in written}


@pytest.fixture(scope="module", autouse=True)
def disk_may_lose_everything():
    """Nothing here is about crashes, and waiting for the disk is most of what a story takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@settings(max_examples=10, deadline=None)
@given(steps=STEPS, data=st.data())
def test_an_incremental_query_answers_like_the_model_or_refuses(shape, steps, data):
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder) / "table", shape)
        story.take("upsert", range(12))
        for step, keys in steps:
            story.take(step, keys)
        table = Table.open(str(story.table.folder))
        reader = Reader(table.store, table.config, Scan.to_arrow)
        times = ["20200101000000000", *(moment.time for moment in story.moments)]
        for _ in range(4):
            begin, end = sorted([data.draw(st.sampled_from(times)) for _ in range(2)])
            check_past(story, reader, begin, end)
            check_now(story, reader, begin)


def check_past(story, reader, begin, end):
    needed = story.at(end).files
    lost = [path for path in needed if story.table.store.head(path) is None]
    try:
        found = reader.incremental(begin, end)
    except Invalid as error:
        refusal = str(error)
    else:
        assert differences(story.table.shape, story.changes(begin, end), found) == []
        return
    assert "is gone" in refusal
    assert story.was_cleaned
    assert lost or story.table.shape.version == 6


def check_now(story, reader, begin):
    """Without an end it never refuses; in version 6 pending writes hold back what came later."""
    newest = reader.newest()
    found = reader.incremental(begin)
    if story.straddling and story.table.shape.version == 6:
        first = min(write.instant for write in story.straddling)
        settled = max(one.instant for one in story.moments if one.instant < first)
        assert settled <= newest < first
        expected = story.changes(begin, newest)
        assert differences(story.table.shape, expected, found) == []
        return
    expected = story.changes(begin, story.moments[-1].time)
    assert differences(story.table.shape, expected, found) == []
    everything = reader.incremental("earliest")
    assert differences(story.table.shape, story.table.model, everything) == []
