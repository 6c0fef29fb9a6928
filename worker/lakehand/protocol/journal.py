"""The journal on storage: the only reader and writer of ``.hoodie/.lakehand/journal/<seq>``.

Appending on tail ``n`` means putting ``n+1`` where nothing is yet::

    put n+1    WRITTEN            -> mine, if the check holds
               EXISTS             -> read it: mine, another's, or trimmed away already
               UNKNOWN            -> read it; absent: close the slot with a blank, read again
    the check  n still bears the id that was decided on. Only then does what was learnt of n+1
               count. Otherwise the journal was trimmed past us, and the newest checkpoint says
               whether our id is covered; if it reaches back less far, nobody can say.

The tail itself counts only if it was still the newest after it was read: see ``_read_tail``.

Nothing that an entry names may be discarded before it is known that the entry was not appended:
``Conflict`` says so, ``OutcomeUnknown`` does not. Entries are trimmed in ascending order, never
the last two checkpoints: so whoever finds ``n`` in place also finds everything after it.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, unique
from typing import TYPE_CHECKING

from lakehand.core.journal import Fold, fold_entries
from lakehand.core.journal_entries import START, Blank, Body, Checkpoint, Entry, Link, LockUse
from lakehand.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, Unavailable
from lakehand.formats import journal_document
from lakehand.formats.journal_document import JournalDocument
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakehand.ports import Store

FOLDER = ".hoodie/.lakehand/journal"

COVERED = 512
"""How many of the last entries a checkpoint names."""

_TAIL_ATTEMPTS = 20
"""How often the tail is read again because the journal grew meanwhile."""

_ATTEMPTS = 8
"""How often a read or a blank is tried before the outcome counts as unknown."""


@unique
class _Learnt(Enum):
    MINE = "mine"
    NOT_MINE = "not mine"


def path_of(seq: int) -> str:
    """Return where an entry lies."""
    return f"{FOLDER}/{seq:012d}"


class Journal:
    """A table's journal, as far as this worker has read it."""

    def __init__(self, store: Store, *, table: str, writer: str, new_id: Callable[[], str]) -> None:
        self._store = store
        self._table = table
        self._writer = writer
        self._new_id = new_id
        self._forget()

    def _forget(self) -> None:
        self.fold = Fold(table=self._table)
        self._since: tuple[Entry, ...] = ()
        self._covered: tuple[str, ...] = ()
        """The ids of the last entries up to the newest checkpoint, that one included."""
        self.published = 0
        """The highest entry of which this worker knows that all before it is published too."""

    # Reading

    def refresh(self) -> Fold:
        """Read what is new, and return the state after the tail."""
        tail = self._read_tail()
        if tail is not None:
            self._catch_up(tail)
        return self.fold

    def _read_tail(self) -> JournalDocument | None:
        """Return the newest entry, or None if it is the one that is known.

        It counts only if it is still the newest after it was read: otherwise the journal may have
        been trimmed past it in between, and a late request may have filled its slot again.
        """
        for _ in range(_TAIL_ATTEMPTS):
            newest = self._newest()
            self._require_growth(newest)
            if newest == self.fold.tail.seq:
                return None
            document = self.read(newest)
            if document is not None and self._is_still_newest(newest):
                return document
        raise Conflict(f"the journal of {self._store.uri} grows faster than it can be read")

    def _require_growth(self, newest: int) -> None:
        if newest < self.fold.tail.seq:
            raise Corrupt(
                f"its last entry is {newest}, but {self.fold.tail.seq} was there before: entries "
                "were deleted; restore them from a backup",
                where=f"{self._store.uri}/{FOLDER}",
            )

    def _is_still_newest(self, seq: int) -> bool:
        return self._newest() == seq

    def peek(self) -> Fold:
        """Return the state after the tail without moving on; other threads may ask."""
        aside = Journal(self._store, table=self._table, writer=self._writer, new_id=self._new_id)
        return aside.refresh()

    def _newest(self) -> int:
        names = self._store.names(FOLDER)
        return max((int(name) for name in names if name.isdecimal() and len(name) == 12), default=0)

    def _catch_up(self, tail: JournalDocument) -> None:
        """Fold the entries up to ``tail``; from the newest checkpoint if it passed us."""
        entries = (*tail.since, tail.entry)
        if isinstance(tail.entry.body, Checkpoint) or tail.entry.checkpoint > self.fold.tail.seq:
            at = tail.entry
            if not isinstance(at.body, Checkpoint):
                at = self._required(tail.entry.checkpoint).entry
            if not isinstance(at.body, Checkpoint):
                raise Corrupt("it is no checkpoint", where=self._where(at.seq))
            self._begin_at(at, at.body)
        new = tuple(one for one in entries if one.seq > self.fold.tail.seq)
        if new and new[0].decided_on != self.fold.tail:
            raise Corrupt(
                f"it does not follow entry {self.fold.tail.seq} as it was read before",
                where=self._where(new[0].seq),
            )
        self.fold = fold_entries(new, self.fold)
        self._since += new

    def _begin_at(self, entry: Entry, body: Checkpoint) -> None:
        self.fold = Fold(table=self._table).apply(entry)
        self._since = ()
        self._covered = _last((*body.covered, entry.id))
        self.published = max(self.published, self.fold.published)

    def _required(self, seq: int) -> JournalDocument:
        document = self.read(seq)
        if document is None:
            raise Conflict(f"journal entry {seq} was trimmed while it was read; try again")
        return document

    def read(self, seq: int) -> JournalDocument | None:
        """Return an entry, or None if there is none (any more)."""
        try:
            content = self._store.get(path_of(seq)).content
        except NotFound:
            return None
        return journal_document.decode(content, seq=seq, table=self._table, where=self._where(seq))

    def _where(self, seq: int) -> str:
        return f"{self._store.uri}/{path_of(seq)}"

    # Appending

    def append(self, body: Body, *, lock: LockUse, at_ms: int) -> Entry:
        """Decide ``body`` on the tail as it was read last.

        Raises ``Conflict`` if somebody else decided first: refresh, and decide again. Raises
        ``OutcomeUnknown`` if nobody can tell. ``Unavailable``: surely not appended.
        """
        self.fold.require_legal(body)
        on = self.fold.tail
        entry = self._entry(body, lock=lock, at_ms=at_ms)
        learnt = self._put(entry)
        if not self._still_there(on):
            return self._look_up(entry)
        if learnt is _Learnt.NOT_MINE:
            raise Conflict(f"journal entry {entry.seq} is somebody else's; decide again")
        self._take(entry)
        return entry

    def _entry(self, body: Body, *, lock: LockUse, at_ms: int) -> Entry:
        return Entry(
            seq=self.fold.tail.seq + 1,
            id=self._new_id(),
            writer=self._writer,
            lock=lock,
            decided_on=self.fold.tail,
            checkpoint=self.fold.checkpoint,
            published=max(self.published, self.fold.published),
            at_ms=at_ms,
            body=body,
        )

    def _take(self, entry: Entry) -> None:
        self.fold = self.fold.apply(entry)
        if isinstance(entry.body, Checkpoint):
            self._covered = _last((*self._covered, *(one.id for one in self._since), entry.id))
            self._since = ()
        else:
            self._since += (entry,)

    def _content(self, entry: Entry) -> bytes:
        since = () if isinstance(entry.body, Checkpoint) else self._since
        return journal_document.encode(JournalDocument(entry, since), table=self._table)

    def _put(self, entry: Entry) -> _Learnt:
        """Put the entry and learn whose its slot is. Never raises once a put may have worked."""
        outcome = self._store.put_new(path_of(entry.seq), self._content(entry))
        if outcome is PutOutcome.WRITTEN:
            return _Learnt.MINE
        for _ in range(_ATTEMPTS):
            try:
                there = self.read(entry.seq)
                if there is not None:
                    return _Learnt.MINE if there.entry.id == entry.id else _Learnt.NOT_MINE
                if outcome is PutOutcome.EXISTS:
                    return _Learnt.NOT_MINE  # it was there, and was trimmed: the check will say so
                outcome = self._put_blank(entry)
            except Unavailable:
                continue
            if outcome is PutOutcome.WRITTEN:
                return _Learnt.NOT_MINE
        raise OutcomeUnknown(f"journal entry {entry.seq}: the store does not say what became of it")

    def _put_blank(self, entry: Entry) -> PutOutcome:
        """Close a slot that looks empty, so that a late arrival of our entry finds it taken."""
        blank = replace(entry, id=self._new_id(), body=Blank())
        return self._store.put_new(path_of(entry.seq), self._content(blank))

    def _still_there(self, on: Link) -> bool:
        """Re-read the tail that was decided on: the check of the module's docstring."""
        try:
            if on == START:
                return self._trimmed_from_start() is None
            there = self.read(on.seq)
        except Unavailable as error:
            raise OutcomeUnknown(f"journal entry {on.seq} could not be read again") from error
        return there is not None and there.entry.id == on.id

    def _trimmed_from_start(self) -> JournalDocument | None:
        """Return the tail if there is a checkpoint: only then can the first entry be gone."""
        tail = self._read_tail()
        if tail is None or (tail.entry.checkpoint == 0 and not _is_checkpoint(tail.entry)):
            return None
        return tail

    def _look_up(self, entry: Entry) -> Entry:
        """Ask the newest checkpoint, after the journal was trimmed past us, and start afresh."""
        try:
            published = self.published
            self._forget()
            self.refresh()
        except (Unavailable, Conflict) as error:
            raise OutcomeUnknown(f"the journal moved past entry {entry.seq}") from error
        self.published = max(self.published, published)
        first = self.fold.tail.seq + 1 - len(self._since) - len(self._covered)
        if entry.id in self._covered or any(one.id == entry.id for one in self._since):
            return entry
        if entry.seq < first:
            raise OutcomeUnknown(
                f"the journal moved past entry {entry.seq}; its checkpoint names entries from "
                f"{first} on. Open the table again and look at what it says"
            )
        raise Conflict(f"journal entry {entry.seq} is somebody else's; decide again")

    # Checkpoint and trim

    def is_checkpoint_due(self, every: int) -> bool:
        """Whether ``every`` entries came since the newest checkpoint."""
        return len(self._since) >= every

    def write_checkpoint(self, *, lock: LockUse, at_ms: int) -> None:
        """Append a checkpoint of all that was read. Raises as ``append`` does."""
        covered = _last((*self._covered, *(one.id for one in self._since)))
        first = self.fold.tail.seq + 1 - len(covered)
        self.append(Checkpoint(self.fold, first, covered), lock=lock, at_ms=at_ms)

    def trim(self) -> int:
        """Delete the entries before the last checkpoint but one, oldest first; return how many.

        Each deletion is acknowledged before the next begins: a hole would let a laggard believe
        in an entry that nobody else can see.
        """
        keep_from = self._last_checkpoint_but_one()
        names = [name for name in self._store.names(FOLDER) if name.isdecimal()]
        old = oldest_first(name for name in names if int(name) < keep_from)
        for name in old:
            self._store.delete(f"{FOLDER}/{name}")
        return len(old)

    def _last_checkpoint_but_one(self) -> int:
        newest = self.read(self.fold.checkpoint) if self.fold.checkpoint else None
        return 0 if newest is None else newest.entry.checkpoint


def oldest_first(names: Iterable[str]) -> list[str]:
    """Return the order in which entries are trimmed."""
    return sorted(names)


def _is_checkpoint(entry: Entry) -> bool:
    return isinstance(entry.body, Checkpoint)


def _last(ids: tuple[str, ...]) -> tuple[str, ...]:
    return ids[-COVERED:]
