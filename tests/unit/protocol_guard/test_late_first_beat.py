"""An attempt that slept between its claim and its first beat."""

from __future__ import annotations

import pytest

from kernel_tables import Kernel, compaction_request
from lakehand.errors import Fenced
from lakehand.protocol import claiming, heartbeats, planning
from lakehand.protocol.heartbeats import Heartbeat
from lakehand.store.memory import MemoryStore


def test_a_late_first_beat_does_not_displace_the_successors():
    kernel = Kernel(MemoryStore())
    time = planning.schedule(kernel.worker("p"), compaction_request("f1"))
    sleeper = Heartbeat(kernel.worker("sleeper"), time, epoch=1)
    successor = claiming.claim(kernel.worker("first"), time)
    assert isinstance(successor, claiming.Attempt)
    successor.heartbeat.begin(2)  # as if it had taken the sleeper's claim over
    before = heartbeats.read_beat(kernel.store, time)

    with pytest.raises(Fenced):
        sleeper.begin(1)

    assert heartbeats.read_beat(kernel.store, time) == before
    assert successor.heartbeat.beat()
