"""Two tries of one write handle: one of them counts, and both learn which."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_tables import Kernel, show_groups
from lakehand.core.instants import Action
from lakehand.errors import Corrupt, Fenced, Invalid, Unavailable, Unsupported
from lakehand.ports import PutOutcome
from lakehand.protocol import failed_writes, handle_marks, writing
from lakehand.protocol.handle_marks import Handle
from lakehand.protocol.planning import PlanRequest
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore

T = "20260101000000000"
HANDLE = Handle(T, 1, "f1")
LONG = b"key," * 100_000


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "t")


class Doubtful(MemoryStore):
    """Loses the reply of the next creations, which took place or not."""

    def __init__(self, *arrive: bool) -> None:
        super().__init__()
        self._arrive = list(arrive)

    def put_new(self, path, content):
        if not self._arrive:
            return super().put_new(path, content)
        if self._arrive.pop(0):
            super().put_new(path, content)
        return PutOutcome.UNKNOWN


@pytest.mark.parametrize("mine", [b"mine", LONG])
def test_the_first_try_counts_and_the_second_gets_its_statuses(store, mine):
    assert handle_marks.find_completed(store, HANDLE) is None
    assert handle_marks.complete(store, HANDLE, mine, unique="a") == mine
    assert handle_marks.find_completed(store, HANDLE) == mine
    assert handle_marks.complete(store, HANDLE, b"theirs", unique="b") == mine
    assert handle_marks.complete(store, HANDLE, LONG + b"x", unique="c") == mine


def test_of_many_tries_at_once_exactly_one_counts(store):
    def run(number: int) -> bytes:
        own = (LONG if number % 2 else b"") + str(number).encode()
        return handle_marks.complete(store, HANDLE, own, unique=str(number))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(run, range(16)))) == 1


def test_handles_and_attempts_do_not_meet(store):
    others = [Handle(T, 2, "f1"), Handle(T, 1, "f2"), Handle("20260101000000001", 1, "f1")]
    for number, handle in enumerate([HANDLE, *others]):
        own = str(number).encode()
        assert handle_marks.complete(store, handle, own, unique="a") == own


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_is_looked_after(arrives):
    store = Doubtful(arrives)
    assert handle_marks.complete(store, HANDLE, b"mine", unique="a") == b"mine"
    assert handle_marks.complete(store, HANDLE, b"theirs", unique="b") == b"mine"


def test_a_store_that_never_answers_is_no_completion():
    with pytest.raises(Unavailable):
        handle_marks.complete(Doubtful(*[False] * 20), HANDLE, b"mine", unique="a")


def test_after_finalize_no_task_of_the_attempt_begins(store):
    handle_marks.require_not_finalized(store, T, 1)
    handle_marks.finalize(store, T, 1)
    handle_marks.finalize(store, T, 1)
    with pytest.raises(Fenced, match="stray"):
        handle_marks.require_not_finalized(store, T, 1)
    handle_marks.require_not_finalized(store, T, 2)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_to_finalize_is_looked_after(arrives):
    store = Doubtful(arrives)
    handle_marks.finalize(store, T, 1)
    with pytest.raises(Fenced):
        handle_marks.require_not_finalized(store, T, 1)


@pytest.mark.parametrize("prefix", ["", "a/b", "../x", "finalized"])
def test_a_prefix_names_a_handle_and_nothing_else(prefix):
    with pytest.raises(Invalid):
        Handle(T, 1, prefix)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", Corrupt),
        (b"{}", Corrupt),
        (b'{"format":2}', Unsupported),
        (b'{"format":1,"digest":"","inline":null,"sideObject":null}', Corrupt),
        (b'{"format":1,"digest":"","inline":"YQ==","sideObject":null}', Corrupt),
        (b'{"format":1,"digest":"","inline":null,"sideObject":"p/data.parquet"}', Corrupt),
    ],
)
def test_a_marker_that_is_not_understood_decides_nothing(store, content, error):
    store.put(HANDLE.path, content)
    with pytest.raises(error, match=r"f1\.done"):
        handle_marks.find_completed(store, HANDLE)
    with pytest.raises(error):
        handle_marks.complete(store, HANDLE, b"mine", unique="a")


def test_names_are_none_that_hudis_rollback_reads():
    store = MemoryStore()
    handle_marks.complete(store, HANDLE, LONG, unique="a")
    handle_marks.finalize(store, T, 1)
    assert all(".marker" not in one.path for one in store.walk(""))
    assert not list(store.walk(".hoodie/.temp"))


def test_marks_go_when_their_instant_has_ended():
    kernel = Kernel(MemoryStore())
    writer = kernel.worker("w")
    attempt = writing.begin_write(writer, PlanRequest(action=Action.DELTA_COMMIT))
    show_groups(writer, attempt, ("f1",))
    handle = Handle(attempt.time, attempt.epoch, "f1")
    handle_marks.complete(kernel.store, handle, LONG, unique="a")
    handle_marks.finalize(kernel.store, attempt.time, attempt.epoch)
    attempt.heartbeat.remove()

    for _ in range(2):
        failed_writes.clean_up(kernel.worker("c"))

    assert not list(kernel.store.walk(".hoodie/.lakehand/marks"))
