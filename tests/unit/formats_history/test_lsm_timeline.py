"""The history over a store: a crash or a lost reply at every call, rivals, and a model."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.core.instants import Action
from lakehand.errors import Conflict, Corrupt, Invalid, LakehandError, Unavailable
from lakehand.formats.lsm_timeline import (
    HistoryEntry,
    decode_manifest,
    encode_manifest,
    parse_history_file,
)
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.protocol import lsm_timeline
from lakehand.protocol.lsm_timeline import HistorySettings, append, compact, load, read, retain
from lakehand.store.memory import MemoryStore

FOLDER = ".hoodie/timeline/history"
AREA = ".hoodie/.temp/x/.staging/1"
SMALL = HistorySettings(batch_size=2, manifests_kept=2)


class Crash(BaseException):
    """The process is gone: nothing may catch it."""


class FaultyStore:
    """Counts the calls that change something, and breaks at one of them."""

    def __init__(self, store, *, at=None, after=False, lost=False):
        self.store, self.at, self.after, self.lost = store, at, after, lost
        self.calls = 0

    def __getattr__(self, name):
        method = getattr(self.store, name)
        outcomes = ("put_new", "put_if", "promote")
        if name not in outcomes and (self.lost or name not in ("put", "delete", "stage")):
            return method

        def call(*arguments, **named):
            self.calls += 1
            if self.calls - 1 != self.at:
                return method(*arguments, **named)
            if self.after:
                method(*arguments, **named)
            if not self.lost:
                raise Crash
            return PromoteOutcome.UNKNOWN if name == "promote" else PutOutcome.UNKNOWN

        return call


def new_store():
    ticks = itertools.count(1)
    return MemoryStore(clock=lambda: next(ticks))


def entries(first, last):
    return [
        HistoryEntry(f"{n:017d}", f"{n + 1:017d}", Action.COMMIT, b"m%d" % n, None)
        for n in range(first, last + 1)
    ]


def run_archive(store, first, last):
    append(store, FOLDER, entries(first, last), area=AREA)
    compact(store, FOLDER, area=AREA, settings=SMALL)
    retain(store, FOLDER, settings=SMALL)


def read_all(store, **options):
    return list(read(store, load(store, FOLDER), **options))


def names(store):
    return {info.path.rpartition("/")[2] for info in store.list(FOLDER).objects}


def require_every_snapshot_whole(store):
    present = names(store)
    for name in present:
        if name.startswith("manifest_"):
            content = store.get(f"{FOLDER}/{name}").content
            listed = decode_manifest(content, where=name).files
            assert {str(file.name) for file in listed} <= present, name


def test_an_empty_history_reads_as_such():
    store = new_store()
    assert load(store, FOLDER).number == 0
    assert read_all(store) == []
    assert append(store, FOLDER, [], area=AREA).number == 0
    assert names(store) == set()


def test_runs_of_the_archive_merge_level_by_level():
    store = new_store()
    for run in range(8):
        run_archive(store, run * 3, run * 3 + 2)
    assert read_all(store) == entries(0, 23)
    levels = [file.name.level for file in load(store, FOLDER).manifest.files]
    assert levels == [3]
    assert read_all(store, first=f"{5:017d}", last=f"{7:017d}", contents=False) == [
        HistoryEntry(e.time, e.completion_time, e.action, None, None) for e in entries(5, 7)
    ]


def crash_points(**options):
    probe = FaultyStore(prepared(), **options)
    run_archive(probe, 6, 8)
    return range(probe.calls)


def prepared():
    store = new_store()
    run_archive(store, 0, 2)
    append(store, FOLDER, entries(3, 5), area=AREA)
    return store


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_call_leaves_a_history_that_the_next_run_completes(after):
    points = crash_points()
    assert len(points) >= 10
    for point in points:
        store = prepared()
        with pytest.raises(Crash):
            run_archive(FaultyStore(store, at=point, after=after), 6, 8)
        seen = read_all(store)
        require_every_snapshot_whole(store)
        assert seen in (entries(0, 5), entries(0, 8)), point
        run_archive(store, 6, 8)
        assert read_all(store) == entries(0, 8), point
        assert load(store, FOLDER).number == int(store.get(f"{FOLDER}/_version_").content)


def test_two_crashes_in_a_row_are_survived():
    for point, other in itertools.product(crash_points(), repeat=2):
        store = prepared()
        for at in (point, other):
            try:
                run_archive(FaultyStore(store, at=at, after=True), 6, 8)
            except Crash:
                assert read_all(store) in (entries(0, 5), entries(0, 8)), (point, other)
        run_archive(store, 6, 8)
        assert read_all(store) == entries(0, 8), (point, other)


@pytest.mark.parametrize("after", [False, True], ids=["lost request", "lost reply"])
def test_an_unknown_outcome_is_read_back_or_said(after):
    for point in crash_points(lost=True):
        store = prepared()
        faulty = FaultyStore(store, at=point, after=after, lost=True)
        try:
            run_archive(faulty, 6, 8)
        except Unavailable:
            assert not after
        assert read_all(store) in (entries(0, 5), entries(0, 8)), point
        run_archive(store, 6, 8)
        assert read_all(store) == entries(0, 8), point


def test_a_rival_between_reading_and_publishing_gets_its_conflict():
    store = prepared()

    class Rival(FaultyStore):
        def stage(self, final, *, area):
            append(store, FOLDER, entries(20, 21), area=AREA)
            return store.stage(final, area=area)

    with pytest.raises(Conflict, match="first"):
        append(Rival(store), FOLDER, entries(6, 8), area=AREA)
    assert read_all(store) == entries(0, 5) + entries(20, 21)
    append(store, FOLDER, entries(6, 8), area=AREA)
    assert read_all(store) == entries(0, 8) + entries(20, 21)


def test_a_paused_writer_never_moves_the_version_back():
    store = prepared()
    number = load(store, FOLDER).number

    class Paused(FaultyStore):
        def get(self, path):
            if path.endswith("_version_") and f"manifest_{number + 1}" in names(store):
                append(store, FOLDER, entries(20, 21), area=AREA)
            return store.get(path)

    append(Paused(store), FOLDER, entries(6, 8), area=AREA)
    assert load(store, FOLDER).number == number + 2
    assert read_all(store) == entries(0, 8) + entries(20, 21)


def test_appending_again_adds_only_what_is_new():
    store = prepared()
    number = load(store, FOLDER).number
    assert append(store, FOLDER, entries(0, 5), area=AREA).number == number
    append(store, FOLDER, entries(4, 7), area=AREA)
    assert read_all(store) == entries(0, 7)


def test_an_instant_given_twice_is_refused():
    with pytest.raises(Invalid, match="twice"):
        append(new_store(), FOLDER, entries(1, 1) * 2, area=AREA)


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_without_a_readable_version_file_the_newest_manifest_counts(content):
    store = prepared()
    number = load(store, FOLDER).number
    store.delete(f"{FOLDER}/_version_")
    if content is not None:
        store.put(f"{FOLDER}/_version_", content)
    assert load(store, FOLDER).number == number
    assert read_all(store) == entries(0, 5)
    run_archive(store, 6, 8)
    assert read_all(store) == entries(0, 8)
    assert store.get(f"{FOLDER}/_version_").content.isdigit()


def test_a_torn_manifest_beyond_the_version_is_replaced():
    store = prepared()
    number = load(store, FOLDER).number
    whole = encode_manifest(load(store, FOLDER).manifest)
    missing = whole.replace(b"_0.parquet", b"_7.parquet")
    for torn in (whole[: len(whole) // 2], missing):
        store.put(f"{FOLDER}/manifest_{number + 1}", torn)
        assert read_all(store) == entries(0, 5)
        append(store, FOLDER, entries(6, 8), area=AREA)
        assert read_all(store) == entries(0, 8)
        store = prepared()


def test_a_version_that_names_nothing_is_corrupt():
    store = prepared()
    store.put(f"{FOLDER}/_version_", b"99")
    with pytest.raises(Corrupt, match="manifest_99"):
        load(store, FOLDER)


def test_a_listed_file_that_is_missing_is_corrupt():
    store = prepared()
    history = load(store, FOLDER)
    store.delete(history.path(history.manifest.files[0].name))
    with pytest.raises(Corrupt, match="missing"):
        read_all(store)


def test_a_reader_of_a_snapshot_that_was_retired_is_told_to_load_anew():
    store = prepared()
    history = load(store, FOLDER)
    for run in range(2, 8):
        run_archive(store, run * 3, run * 3 + 2)
    with pytest.raises(Conflict, match="load anew"):
        list(read(store, history))


def test_retention_keeps_the_last_snapshots_readable_and_drops_the_rest():
    store = new_store()
    histories = []
    for run in range(9):
        run_archive(store, run * 3, run * 3 + 2)
        histories.append(load(store, FOLDER))
    kept = {name for name in names(store) if name.startswith("manifest_")}
    number = histories[-1].number
    assert kept == {f"manifest_{number - 1}", f"manifest_{number}"}
    named = set()
    for version in (number - 1, number):
        content = store.get(f"{FOLDER}/manifest_{version}").content
        named |= {name for name in names(store) if name.encode() in content}
    assert {name for name in names(store) if parse_history_file(name)} == named


def test_retention_that_dies_leaves_every_snapshot_whole_and_is_finished_later():
    for point in range(100):
        store = new_store()
        for run in range(6):
            append(store, FOLDER, entries(run * 3, run * 3 + 2), area=AREA)
            compact(store, FOLDER, area=AREA, settings=SMALL)
        try:
            retain(FaultyStore(store, at=point), FOLDER, settings=SMALL)
        except Crash:
            require_every_snapshot_whole(store)
            retain(store, FOLDER, settings=SMALL)
            # Two snapshots: the last merge's two sources, its result, and the file beside them.
            assert len(names(store)) == 4 + 2 + 1
        else:
            break
    assert point > 8
    assert read_all(store) == entries(0, 17)


def test_retention_leaves_a_file_that_may_be_about_to_be_published():
    store = prepared()
    for run in range(2, 8):
        append(store, FOLDER, entries(run * 3, run * 3 + 2), area=AREA)
    fresh = f"{90:017d}_{91:017d}_0.parquet"
    store.put(f"{FOLDER}/{fresh}", b"being published")
    assert retain(store, FOLDER, settings=SMALL)
    assert fresh in names(store)


def test_a_dead_writers_file_of_other_content_is_rewritten():
    store = prepared()
    name = f"{6:017d}_{8:017d}_0.parquet"
    store.put(f"{FOLDER}/{name}", b"torn")
    append(store, FOLDER, entries(6, 8), area=AREA)
    assert read_all(store) == entries(0, 8)


def test_an_instant_that_java_archived_twice_is_read_once(monkeypatch):
    store = prepared()
    monkeypatch.setattr(lsm_timeline, "read", lambda *_, **__: iter(()))
    append(store, FOLDER, entries(2, 4), area=AREA)
    monkeypatch.undo()
    assert read_all(store) == entries(0, 5)
    assert read_all(store, contents=False, first=f"{3:017d}")[0].time == f"{3:017d}"


def test_a_merge_stops_at_its_target_size():
    store = new_store()
    for run in range(4):
        append(store, FOLDER, entries(run, run), area=AREA)
    compact(store, FOLDER, area=AREA, settings=HistorySettings(batch_size=4, target_bytes=1))
    assert sorted(file.name.level for file in load(store, FOLDER).manifest.files) == [0] * 4
    size = load(store, FOLDER).manifest.files[0].size
    settings_ = HistorySettings(batch_size=4, target_bytes=size + 1)
    compact(store, FOLDER, area=AREA, settings=settings_)
    assert sorted(file.name.level for file in load(store, FOLDER).manifest.files) == [0, 0, 1]
    assert read_all(store) == entries(0, 3)


def test_settings_that_would_lose_or_loop_are_refused():
    for wrong in ({"batch_size": 1}, {"manifests_kept": 0}):
        with pytest.raises(Invalid):
            HistorySettings(**wrong)


@settings(max_examples=25, deadline=None)
@given(runs=st.lists(st.sets(st.integers(0, 30), max_size=6), max_size=8), batch=st.integers(2, 4))
def test_the_history_is_the_set_of_what_was_appended(runs, batch):
    store, model = new_store(), set()
    settings_ = HistorySettings(batch_size=batch, manifests_kept=1)
    for run in runs:
        append(store, FOLDER, [e for n in run for e in entries(n, n)], area=AREA)
        compact(store, FOLDER, area=AREA, settings=settings_)
        retain(store, FOLDER, settings=settings_)
        model |= run
        assert read_all(store) == [e for n in sorted(model) for e in entries(n, n)]


def test_reading_a_range_opens_only_the_files_that_overlap_it():
    store = new_store()
    for run in range(6):
        append(store, FOLDER, entries(run * 3, run * 3 + 2), area=AREA)
    opened = []

    class Watched(FaultyStore):
        def open(self, path) -> pa.NativeFile:
            opened.append(path)
            return store.open(path)

    found = list(read(Watched(store), load(store, FOLDER), first=f"{4:017d}", last=f"{6:017d}"))
    assert found == entries(4, 6)
    assert len(opened) == 2


def test_bytes_broken_anywhere_are_a_typed_error_or_harmless():
    store = prepared()
    path = load(store, FOLDER).path(load(store, FOLDER).manifest.files[0].name)
    whole = store.get(path).content
    for at in range(0, len(whole), 7):
        store.put(path, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read_all(store)
        except LakehandError:
            continue
