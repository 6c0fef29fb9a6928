"""One worker at one table: its ports, its settings, and what it has learnt of the journal.

Every recipe of this package takes a workbench first. It is made once for a table and a worker
(``Table`` does so), is used by one thread at a time besides the beater's, and holds no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from lakehand.core.conflict_tables import Strategy
from lakehand.errors import Invalid
from lakehand.protocol.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Background, Clock, LockProvider, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """What a table's workers agree on. Workers with different settings stay safe."""

    lock_timeout_s: float = 120.0
    """How long to wait for the table lock."""
    lock_margin_s: float = 2.0
    """Less of the lock's lease than this is too little to decide anything: towards foreign writers
    the lock is all there is, and publishing takes a few store calls."""
    heartbeat_interval_s: float = 60.0
    """Hudi's default. A live worker writes its heartbeat this often."""
    heartbeat_misses: int = 2
    """Hudi's default. So many intervals without a heartbeat mean that its worker is dead."""
    max_clock_skew_s: float = 60.0
    """How far the timeline's last time may lie ahead of the store's clock before we refuse to
    write into the future."""
    guard_enabled: bool = True
    """RFC-79's guard of plan execution. Off: a live or earlier attempt is not looked at, as Hudi
    did before it; the claim that fences the earlier attempt stays."""
    rollback_delay_minutes: float = 60.0
    """``table_service_rollback_delay``: how old a removable plan must be before clean rolls it
    back. A very large value means never, 0 as soon as it is not live."""
    cancel_clean_delay_s: float = 0.0
    """How long clean leaves a cancelled plan to its own worker before it aborts it."""
    foreign_takeover_after_s: float | None = None
    """How long after its start an inflight attempt of a foreign writer, without a heartbeat, is
    taken over. None: never, because it may be alive."""
    foreign_writers: bool = True
    """Whether Apache Hudi's own writers change the table too: then the lock must be theirs."""
    changes_lock_provider: bool = False
    """Take another kind of lock than the table's workers used so far. To be set once, by a person
    who knows that none of them runs."""
    checkpoint_every: int = 32
    """After how many journal entries a checkpoint is written; older entries are then trimmed."""

    @property
    def heartbeat_tolerance_ms(self) -> int:
        """A heartbeat older than this is expired."""
        return int(self.heartbeat_interval_s * self.heartbeat_misses * 1000)


@dataclass(slots=True)
class Workbench:
    """The ports and settings with which one worker acts on one table."""

    store: Store
    locks: LockProvider
    clock: Clock
    background: Background
    new_id: Callable[[], str]
    worker: str
    config: TableConfig
    settings: ProtocolSettings = field(default_factory=ProtocolSettings)
    strategy: Strategy = Strategy.PREFER_INGESTION
    """Who gives way when two instants touch the same file groups."""
    zone: tzinfo = UTC
    """Instant times are written in this time zone: the table's."""
    journal: Journal = field(init=False)
    documents: dict[str, bytes] = field(default_factory=dict)
    """Files of the timeline, which never change once they are there."""

    def __post_init__(self) -> None:
        """Refuse a lock that does not keep the table's other writers out."""
        if self.settings.foreign_writers and not self.locks.excludes_foreign:
            raise Invalid(
                f"the {self.locks.name} lock does not exclude Apache Hudi's writers: use the "
                "storage or filesystem lock that they use too, or declare that the table has no "
                "foreign writers"
            )
        self.journal = Journal(
            self.store,
            table=f"{self.config.database}.{self.config.name}",
            writer=self.worker,
            new_id=self.new_id,
        )
