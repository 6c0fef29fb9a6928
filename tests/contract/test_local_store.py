"""The local disk: whole or absent after ``kill -9``, no stale ``.crc``, nothing of ours in view."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakehand.errors import Fenced, Invalid, Unavailable, Unsupported
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.store import durable_files, exclusive_rename, local, paths
from store_places import AREA, in_child, stage

ROUNDS = 60
SIZE = 100_000


def test_a_killed_writer_leaves_every_object_whole_or_absent_and_no_lock(local_place):
    store = local_place.open()
    killed = in_child(local_place, "kill_writers", rounds=ROUNDS, size=SIZE, seed=7, area=AREA)
    assert killed == ROUNDS
    seen = 0
    for info in store.walk(""):
        seen += 1
        content = store.get(info.path).content
        sizes = {SIZE, SIZE // 2} if info.path.endswith("replaced") else {SIZE}
        assert len(content) in sizes
        assert content == content[:1] * len(content)
    assert seen > ROUNDS // 4, "the writers were killed before they wrote"
    visible = [path for path in _files(local_place.folder) if not path.startswith(".hoodie/")]
    assert sorted(visible) == sorted(info.path for info in store.walk(""))
    for number in range(ROUNDS):
        store.put(f"round-{number}/replaced", b"after")
        assert store.put_new(f"round-{number}/after", b"x") is PutOutcome.WRITTEN


def test_a_crash_between_two_steps_never_leaves_a_side_file_beside_new_content(
    local_place, monkeypatch
):
    """Every system call that changes a folder is the last one, in turn."""
    store = local_place.open()

    def actions():
        version = store.get("t/data").version
        yield lambda: store.put("t/data", b"new")
        yield lambda: store.put_if("t/data", b"new", version)
        yield lambda: store.delete("t/data")

    for which in range(3):
        for steps in range(6):
            store.put("t/data", b"old")
            _write(local_place.folder / "t/.data.crc", b"crc of old")
            action = list(actions())[which]
            with monkeypatch.context() as patch, contextlib.suppress(Crash):
                _crash_after(patch, steps)
                action()
            if (local_place.folder / "t/.data.crc").exists():
                assert store.get("t/data").content == b"old"


class Crash(BaseException):
    """The process is gone."""


def _crash_after(patch, steps):
    left = [steps]

    def counted(call):
        def wrapper(*args, **kwargs):
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            return call(*args, **kwargs)

        return wrapper

    for name in ("replace", "unlink"):
        patch.setattr(durable_files.os, name, counted(getattr(os, name)))


def test_side_files_go_with_and_before_what_they_describe(local_place):
    store = local_place.open()
    folder = local_place.folder
    store.put("t/data", b"1")

    def with_side_file():
        _write(folder / "t/.data.crc", b"crc")
        return folder / "t/.data.crc"

    for change in (
        lambda: store.put("t/data", b"2"),
        lambda: store.put_if("t/data", b"3", store.get("t/data").version),
        lambda: store.delete("t/data"),
        lambda: store.delete("t/data"),
        lambda: store.put_new("t/data", b"4"),
    ):
        side_file = with_side_file()
        change()
        assert not side_file.exists()
    handle = stage(store, "t/data", b"5")
    store.delete("t/data")
    side_file = with_side_file()
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert not side_file.exists()


def test_a_refused_write_leaves_the_side_file_of_what_is_there(local_place):
    store = local_place.open()
    store.put("t/data", b"theirs")
    _write(local_place.folder / "t/.data.crc", b"crc")
    assert store.put_new("t/data", b"x") is PutOutcome.EXISTS
    assert store.put_if("t/data", b"x", "stale") is PutOutcome.EXISTS
    assert store.promote(stage(store, "t/data", b"x")) is PromoteOutcome.EXISTS
    assert (local_place.folder / "t/.data.crc").read_bytes() == b"crc"


def test_hadoop_accepts_what_replaced_its_file(local_place):
    """A stale checksum would make Java refuse the file; none makes it skip the check."""
    store = local_place.open()
    store.put(".hoodie/hoodie.properties", b"old")
    _write(local_place.folder / ".hoodie/.hoodie.properties.crc", b"crc\0stale")
    found = store.get(".hoodie/hoodie.properties")
    store.put_if(".hoodie/hoodie.properties", b"new", found.version)
    assert os.listdir(local_place.folder / ".hoodie") != []
    assert not (local_place.folder / ".hoodie/.hoodie.properties.crc").exists()


def test_reading_and_telling_the_time_make_no_folder(local_place):
    store = local_place.open()
    store.list("")
    store.head("x")
    store.delete("x")
    store.now()
    assert not local_place.folder.exists()


def test_the_clock_is_the_one_that_stamps_files(local_place):
    store = local_place.open()
    for number in range(100):
        before = store.now()
        store.put_new(f"f/{number}", b"")
        assert before <= store.head(f"f/{number}").modified_ms <= store.now()


def test_the_clock_is_cheap(local_place):
    store = local_place.open()
    store.now()
    fastest = min(_seconds(store.now) for _ in range(50))
    assert fastest < 0.001


def test_leftovers_of_crashed_writers_are_swept_when_they_are_old(local_place):
    store = local_place.open()
    store.put("x", b"")
    private = local_place.folder / paths.PRIVATE_FOLDER
    _write(private / "old.tmp", b"")
    _write(private / "young.tmp", b"")
    os.utime(private / "old.tmp", (1, 1))
    local_place.open().put("x", b"")
    assert not (private / "old.tmp").exists()
    assert (private / "young.tmp").exists()


def test_a_file_system_without_exclusive_rename_is_refused(local_place, monkeypatch):
    store = local_place.open()

    def not_offered(_old, _new):
        import ctypes

        ctypes.set_errno(errno.EINVAL)
        return -1

    for stand_in in (None, not_offered):
        monkeypatch.setattr(exclusive_rename, "_RENAME", stand_in)
        with pytest.raises(Unsupported, match="without replacing"):
            store.put_new("x", b"")
        assert store.head("x") is None


def test_a_full_disk_is_unavailable_and_leaves_nothing(local_place, monkeypatch):
    store = local_place.open()
    store.put("x", b"old")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(local.os, "fsync", full)
        for call in (
            lambda: store.put("x", b"new"),
            lambda: store.put_new("y", b"new"),
            lambda: stage(store, "y", b"new"),
        ):
            with pytest.raises(Unavailable, match="No space left"):
                call()
    assert store.get("x").content == b"old"
    assert [info.path for info in store.walk("")] == ["x"]
    assert [path for path in _files(local_place.folder) if path.endswith((".tmp", ".staged"))] == []


def test_what_the_user_must_mend_is_invalid(local_place):
    store = local_place.open()
    store.put("file", b"")
    for call in (
        lambda: store.put("file/below", b""),
        lambda: store.put_new("n" * 300, b""),
        lambda: store.put(".hoodie", b""),
    ):
        with pytest.raises(Invalid):
            call()


def test_a_discarded_writer_is_fenced(local_place):
    store = local_place.open()
    writer = store.stage("t/final", area=AREA)
    store.discard(writer.staged)
    writer.write(b"late")
    with pytest.raises(Fenced, match="discarded"):
        writer.close()


def test_a_link_is_not_taken_for_a_staged_file(local_place, tmp_path):
    store = local_place.open()
    handle = stage(store, "t/final", b"x")
    place = local_place.folder / handle.place
    secret = tmp_path / "secret"
    secret.write_bytes(b"s")
    place.unlink()
    place.symlink_to(secret)
    assert store.promote(handle) is PromoteOutcome.GONE
    store.discard(handle)
    assert secret.read_bytes() == b"s"
    assert place.is_symlink()


def test_empty_staging_folders_go_with_what_was_in_them(local_place):
    store = local_place.open()
    first, second = stage(store, "a", b""), stage(store, "b", b"")
    store.promote(first)
    assert (local_place.folder / AREA).is_dir()
    store.discard(second)
    assert not (local_place.folder / AREA).parent.exists()


def test_a_table_that_was_moved_opens_at_its_new_place(local_place, tmp_path):
    local_place.open().put("x", b"1")
    shutil.move(local_place.folder, tmp_path / "moved")
    assert local.LocalStore(tmp_path / "moved").get("x").content == b"1"


def test_a_process_that_waits_for_a_lock_in_vain_says_so(local_place, monkeypatch):
    store = local_place.open()
    store.put("x", b"")
    monkeypatch.setattr(local, "_LOCK_SECONDS", 0.05)
    with store._locked("x"), pytest.raises(Unavailable, match="held for too long"):
        store.put("x", b"1")
    store.put("x", b"2")


def test_threads_that_ask_for_the_time_at_once_share_one_clock_file(local_place):
    """Each store closes its own descriptor once: a second close would hit somebody else's file."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        assert _asked_at_once(local_place.open()) == 16
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def _asked_at_once(store):
    start = threading.Barrier(16)

    def ask(_):
        start.wait()
        return store.now()

    with ThreadPoolExecutor(16) as pool:
        return len(list(pool.map(ask, range(16))))


def _files(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(root, name), folder)


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
