"""Clean lists candidates before the lock; what became live meanwhile is no candidate any more."""

from __future__ import annotations

import pytest

from kernel_tables import Kernel, compaction_request, write_out
from lakehand.core.instants import Action
from lakehand.protocol import claiming, failed_writes, planning
from lakehand.protocol.transaction import load_view
from lakehand.store.memory import MemoryStore


class FirstSomebodyElse:
    """A lock that somebody else gets first."""

    def __init__(self, lock, act) -> None:
        self._lock = lock
        self._act = act

    def __getattr__(self, name):
        return getattr(self._lock, name)

    def acquire(self, owner, *, timeout_s):
        act, self._act = self._act, None
        if act is not None:
            act()
        return self._lock.acquire(owner, timeout_s=timeout_s)


@pytest.mark.req("A-24")
def test_a_plan_that_came_to_life_before_the_lock_gets_no_rollback():
    kernel = Kernel(MemoryStore(), settings={"rollback_delay_minutes": 0.0})
    request = compaction_request("f1", action=Action.LOG_COMPACTION, removable=True)
    time = planning.schedule(kernel.worker("p"), request)
    executor, claimed = kernel.worker("x"), []
    cleaner = kernel.worker("c")
    cleaner.locks = FirstSomebodyElse(
        cleaner.locks, lambda: claimed.append(claiming.claim(executor, time))
    )

    done = failed_writes.clean_up(cleaner)

    assert done.rolled_back == {}
    assert load_view(cleaner).timeline.of_action(Action.ROLLBACK) == ()
    assert write_out(executor, claimed[0], ("f1",)).is_completed
