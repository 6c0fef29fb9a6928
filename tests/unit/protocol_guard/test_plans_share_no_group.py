"""Two plans of one file group: one of them could never end, unless one can be cancelled."""

from __future__ import annotations

import pytest

from kernel_tables import Kernel, compaction_request
from lakehand.core.instants import Action
from lakehand.errors import Conflict
from lakehand.protocol import planning
from lakehand.store.memory import MemoryStore


def test_a_firm_plan_is_refused_on_the_groups_of_another():
    kernel = Kernel(MemoryStore())
    first = planning.schedule(kernel.worker("a"), compaction_request("f1", "f2"))
    before = list(kernel.store.walk(""))

    with pytest.raises(Conflict, match=f"{first} has p/f2: leave"):
        planning.schedule(
            kernel.worker("b"), compaction_request("f2", "f3", action=Action.LOG_COMPACTION)
        )

    assert list(kernel.store.walk("")) == before
    planning.schedule(kernel.worker("b"), compaction_request("f3"))


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
def test_a_cancellable_plan_may_share_groups(first, second):
    kernel = Kernel(MemoryStore())
    planning.schedule(kernel.worker("a"), compaction_request("f1", cancellable=first))
    planning.schedule(kernel.worker("b"), compaction_request("f1", cancellable=second))
