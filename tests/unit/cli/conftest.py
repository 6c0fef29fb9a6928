from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kernel_tables import Kernel, compaction_request
from lakehand.core.table_kinds import TableVersion
from lakehand.locks.storage import storage_lock
from lakehand.protocol import planning
from lakehand.store.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from lakehand.protocol.workbench import Workbench


@dataclass(frozen=True)
class DiskTable:
    """A table on a local disk whose workers use the storage lock."""

    folder: Path
    kernel: Kernel

    @property
    def uri(self) -> str:
        return str(self.folder)

    def worker(self, name: str = "spark-7") -> Workbench:
        return self.kernel.worker(name)

    def plan(self, *groups: str, **options: object) -> str:
        request = compaction_request(*(groups or ("f1",)), **{"cancellable": True, **options})
        return planning.schedule(self.worker("planner"), request)


@pytest.fixture
def disk_table(tmp_path) -> DiskTable:
    return _disk_table(tmp_path, TableVersion.NINE)


@pytest.fixture(params=[TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE])
def any_disk_table(request, tmp_path) -> DiskTable:
    return _disk_table(tmp_path, request.param)


def _disk_table(tmp_path: Path, version: TableVersion) -> DiskTable:
    folder = tmp_path / "trips"
    store = LocalStore(folder)
    return DiskTable(folder, Kernel(store, version, locks=lambda _name: storage_lock(store)))


@pytest.fixture(autouse=True)
def _interruptible():
    """A background job of a shell ignores SIGINT, and so would every process begun here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
