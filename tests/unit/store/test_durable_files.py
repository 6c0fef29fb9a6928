"""Folders that one process makes while another prunes them."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakehand.store import durable_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def _frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_frequent_switches")
def test_a_folder_pruned_while_it_is_made_is_no_file(tmp_path: Path):
    folder = str(tmp_path / "a")
    done = threading.Event()

    def prune():
        while not done.is_set():
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def make():
        for _ in range(4000):
            durable_files.make_folders(folder)

    with ThreadPoolExecutor(4) as pool:
        pruners = [pool.submit(prune) for _ in range(2)]
        makers = [pool.submit(make) for _ in range(2)]
        try:
            for maker in makers:
                maker.result()
        finally:
            done.set()
        for pruner in pruners:
            pruner.result()


def test_a_file_where_a_folder_should_be_is_refused(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"")

    with pytest.raises(NotADirectoryError):
        durable_files.make_folders(str(tmp_path / "a"))
    with pytest.raises(NotADirectoryError):
        durable_files.make_folders(str(tmp_path / "a" / "b"))


def test_all_areas_of_an_instant_go_with_the_folders_of_its_markers(tmp_path: Path):
    instant = tmp_path / "20260101000000000"
    (instant / ".staging" / "1").mkdir(parents=True)
    (instant / ".staging" / "1" / "00.staged").write_bytes(b"")
    (instant / "p" / "q").mkdir(parents=True)
    (tmp_path / "20260101000000001" / "p").mkdir(parents=True)

    durable_files.remove_staging_area(str(instant / ".staging"))

    assert [one.name for one in tmp_path.iterdir()] == ["20260101000000001"]
