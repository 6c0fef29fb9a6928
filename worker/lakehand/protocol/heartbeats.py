"""Heartbeats: which attempt is live, and how a live one stays so.

``.hoodie/.heartbeat/<T>`` is Hudi's place and meaning: modified within the tolerance, it is live;
older, or missing, it is not. Both times are the store's. The journal's last claim judges whose
heartbeat counts: one of an older epoch says nothing, however fresh.

A heartbeat makes workers efficient (nobody repeats the work of the living); the epoch makes them
safe. So a beat that fails is not death, but one that is lost is final: a heartbeat that expired, or
that a newer attempt took over, is never revived.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.journal_moves import Standing
from lakehand.errors import Corrupt, Fenced, NotFound, PlanBusy, Unavailable
from lakehand.formats import heartbeat_document
from lakehand.formats.heartbeat_document import BeatContent
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from lakehand.core.journal import InstantRecord
    from lakehand.ports import BackgroundTask, Store
    from lakehand.protocol.workbench import ProtocolSettings, Workbench

FOLDER = ".hoodie/.heartbeat"

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat as it was found."""

    owner: str
    epoch: int
    number: int
    modified_ms: int
    version: str


def path_of(time: str) -> str:
    """Return where the heartbeat of an instant lies."""
    return f"{FOLDER}/{time}"


def read_beat(store: Store, time: str) -> Beat | None:
    """Return the heartbeat of an instant, live or not."""
    path = path_of(time)
    try:
        found = store.get(path)
    except NotFound:
        return None
    content = heartbeat_document.decode(found.content, where=f"{store.uri}/{path}")
    return Beat(content.owner, content.epoch, content.number, found.modified_ms, found.version)


def is_live(beat: Beat | None, *, now_ms: int, settings: ProtocolSettings) -> bool:
    """Whether a heartbeat is within the tolerance."""
    return beat is not None and now_ms - beat.modified_ms <= settings.heartbeat_tolerance_ms


def live_beat(bench: Workbench, record: InstantRecord, *, now_ms: int) -> Beat | None:
    """Return the heartbeat of the instant's last attempt, if it is live."""
    beat = read_beat(bench.store, record.beat)
    return beat if _says_live(bench, beat, record, now_ms) else None


def _says_live(bench: Workbench, beat: Beat | None, record: InstantRecord, now_ms: int) -> bool:
    if beat is None or not is_live(beat, now_ms=now_ms, settings=bench.settings):
        return False
    return _counts(beat, record)


def _counts(beat: Beat, record: InstantRecord) -> bool:
    """Whether the beat is the last attempt's, not that of one that was replaced."""
    return beat.epoch >= record.epoch


def require_not_live(
    bench: Workbench, record: InstantRecord, *, now_ms: int, own: Heartbeat | None = None
) -> Beat | None:
    """Raise ``PlanBusy`` if another attempt at the instant is live; return what was found."""
    beat = read_beat(bench.store, record.beat)
    if beat is None or not _says_live(bench, beat, record, now_ms):
        return beat
    if own is not None and own.is_mine(beat):
        return beat
    age_s = max(0.0, (now_ms - beat.modified_ms) / 1000)
    raise PlanBusy(
        record.time,
        owner=beat.owner,
        epoch=beat.epoch,
        age_s=age_s,
        retry_after_s=max(0.0, bench.settings.heartbeat_tolerance_ms / 1000 - age_s),
    )


class Heartbeat:
    """The heartbeat of one attempt of ours, beaten in the background until it is removed."""

    def __init__(
        self, bench: Workbench, time: str, epoch: int, *, claimed: str | None = None
    ) -> None:
        """``claimed`` is the instant whose claim it proves, if another (a rollback's target)."""
        self._bench = bench
        self.time = time
        self.epoch = epoch
        self._claimed = claimed or time
        self._number = 0
        self._found: Beat | None = None
        self._was_looked_for = False
        self._is_lost = False
        self._task: BackgroundTask | None = None

    @property
    def owner(self) -> str:
        """The worker that beats."""
        return self._bench.worker

    def expect(self, found: Beat | None) -> None:
        """Remember the file as it was just found, so that the first beat need not look again."""
        self._found = found
        self._was_looked_for = True

    def begin(self, epoch: int) -> None:
        """Write the first beat of a claim, over whatever an earlier one left, and keep beating.

        A worker that claims again goes on with the heartbeat that it has.
        """
        self.epoch = epoch
        self._take_over()
        if self._task is not None:
            return
        self._task = self._bench.background.every(
            self._bench.settings.heartbeat_interval_s,
            self.beat,
            name=f"lakehand-heartbeat-{self.time}",
        )

    def _take_over(self) -> None:
        """Make the file ours, unless a newer attempt has it: we may have been asleep."""
        path = path_of(self.time)
        for _ in range(_ATTEMPTS):
            found = self._found if self._was_looked_for else read_beat(self._bench.store, self.time)
            self._was_looked_for = False
            if found is not None and found.epoch > self.epoch:
                self._is_lost = True
                self.check()
            content = self._content()
            if found is None:
                outcome = self._bench.store.put_new(path, content)
            else:
                outcome = self._bench.store.put_if(path, content, found.version)
            if outcome is PutOutcome.WRITTEN:
                return
        raise Unavailable(f"{self._bench.store.uri}/{path} does not stay as it was written")

    def is_mine(self, beat: Beat) -> bool:
        """Whether a beat that was found is one of this heartbeat's."""
        return beat.owner == self._bench.worker and beat.epoch == self.epoch

    def beat(self) -> bool:
        """Write the next beat if the attempt still counts; False when it is lost for good."""
        bench = self._bench
        found = read_beat(bench.store, self.time)
        if found is None:
            return self._beat_again()
        older = found.epoch < self.epoch  # a replaced attempt woke up and wrote once more
        if not older and (not self.is_mine(found) or self._expired(found)):
            self._is_lost = True
            return False
        bench.store.put_if(path_of(self.time), self._content(), found.version)
        return True

    def _expired(self, found: Beat) -> bool:
        return not is_live(found, now_ms=self._bench.store.now(), settings=self._bench.settings)

    def _beat_again(self) -> bool:
        """Rewrite a missing heartbeat if our claim is the last: somebody removed one too many."""
        if not _is_last_claim(self._bench, self._claimed, self.epoch):
            self._is_lost = True
            return False
        self._bench.store.put_new(path_of(self.time), self._content())
        return True

    def _content(self) -> bytes:
        self._number += 1
        return heartbeat_document.encode(BeatContent(self._bench.worker, self.epoch, self._number))

    def check(self) -> None:
        """Raise ``Fenced`` if the attempt was lost; for units of work to ask between them."""
        if self._is_lost:
            raise Fenced(
                f"{self.time}: the heartbeat of epoch {self.epoch} expired or was taken over; "
                "another attempt may be at work"
            )

    def require_alive(self, *, now_ms: int) -> None:
        """Raise ``Fenced`` unless the heartbeat is there, ours and within the tolerance."""
        self.check()
        found = read_beat(self._bench.store, self.time)
        settings = self._bench.settings
        if (
            found is None
            or not self.is_mine(found)
            or not is_live(found, now_ms=now_ms, settings=settings)
        ):
            self._is_lost = True
        self.check()

    def stop(self) -> None:
        """Stop beating; the file expires by itself. Idempotent."""
        if self._task is not None:
            self._task.stop()
            self._task = None

    def remove(self) -> None:
        """Stop beating, and remove the file if it is ours; else it expires. Idempotent."""
        self.stop()
        with suppress(Unavailable, Corrupt):
            found = read_beat(self._bench.store, self.time)
            if found is not None and self.is_mine(found):
                self._bench.store.delete(path_of(self.time))


def _is_last_claim(bench: Workbench, time: str, epoch: int) -> bool:
    record = bench.journal.peek().record(time)
    return record.epoch <= epoch and record.standing is not Standing.FOREIGN
