"""``lakehand unlock``: remove the lock record of a dead holder, for a person who asks for it.

Whether the holder is dead is not told by timestamps: its record is watched for as long as its lease
lasts, and if it changes, its holder is alive. What is removed is the very record that was watched.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lakehand.cli.exit_codes import ExitCode
from lakehand.cli.options import (
    LockOptions,
    TableOptions,
    lock_options,
    looking_bench,
    table_options,
)
from lakehand.cli.rendering import seconds
from lakehand.cli.session import is_stdin_yes
from lakehand.errors import Conflict, Invalid, LakehandError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.cli.session import Session
    from lakehand.ports import LockHolder, LockProvider
    from lakehand.table import Table

WATCH_S = 60.0
"""For how long a record is watched that does not say how long its lease lasts."""

_LONGEST_PAUSE_S = 1.0
_FORCED_TRIES = 5


@click.command
@table_options
@lock_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Remove it without watching, also from a live holder.")
@click.pass_obj
def unlock(
    session: Session,
    uri: str,
    storage: Mapping[str, object],
    lock: str,
    lock_option: Mapping[str, str],
    *,
    yes: bool,
    force: bool,
) -> ExitCode:
    """Remove the lock that a dead worker left on the table at URI.

    A lock whose lease ends is taken over by the next worker anyway: this is for those that never
    end, and for records that cannot be read.
    """
    table = TableOptions(uri, storage).open()
    provider = LockOptions(lock, lock_option).of(table, session)
    _note_other_lock(session, table, provider)
    run = _Unlocking(session, table.store.uri, provider)
    holder = provider.holder()
    if holder is None:
        return run.tell("free", None, f"Nobody holds the {provider.name} lock.")
    session.note(_about(holder))
    if not force and not run.is_dead(holder):
        return run.tell("released", holder, f"{holder.owner} released the lock meanwhile.")
    if not yes and not is_stdin_yes(f"Remove the lock of {session.mask(holder.owner)}?"):
        raise Invalid("not confirmed: nothing was changed; --yes answers in advance")
    with session.interrupts.whole():
        return run.remove_any(holder) if force else run.remove(holder)


@dataclass(frozen=True, slots=True)
class _Unlocking:
    session: Session
    uri: str
    lock: LockProvider

    def is_dead(self, holder: LockHolder) -> bool:
        """Watch the record for its lease; False if it was released. Raises if it is renewed."""
        watch_s = watch_seconds(holder)
        self.session.note(
            f"watching for {seconds(watch_s)} whether it is renewed (--force does not wait)"
        )
        until = time.monotonic() + watch_s
        while (left_s := until - time.monotonic()) > 0:
            time.sleep(min(left_s, watch_s / 20, _LONGEST_PAUSE_S))
            now = self.lock.holder()
            if now is None:
                return False
            require_unchanged(holder, now)
        return True

    def remove(self, holder: LockHolder) -> ExitCode:
        """Remove the record that was watched, and no other."""
        if self.lock.break_lock(holder):
            return self.tell("removed", holder, f"The lock of {holder.owner} is removed.")
        now = self.lock.holder()
        if now is None:
            return self.tell("released", holder, f"{holder.owner} released the lock meanwhile.")
        require_unchanged(holder, now)
        raise Conflict("the lock could not be removed: its record was being written; try again")

    def remove_any(self, holder: LockHolder) -> ExitCode:
        """Remove the record, also while its holder keeps renewing it."""
        now: LockHolder | None = holder
        for _ in range(_FORCED_TRIES):
            if now is None or now.owner != holder.owner:
                break
            if self.lock.break_lock(now):
                return self.tell("removed", now, f"The lock of {now.owner} is removed.")
            now = self.lock.holder()
        return self.remove(holder)

    def tell(self, outcome: str, holder: LockHolder | None, text: str) -> ExitCode:
        """Show what became of the lock."""
        record = {
            "table": self.uri,
            "lock": self.lock.name,
            "outcome": outcome,
            "holder": None
            if holder is None
            else {
                "owner": holder.owner,
                "age_s": round(holder.age_s, 1),
                "expires_in_s": None
                if holder.expires_in_s is None
                else round(holder.expires_in_s, 1),
            },
        }
        self.session.show(record, text)
        return ExitCode.OK


def watch_seconds(holder: LockHolder) -> float:
    """Return for how long a record has to stay the same for its holder to be dead.

    What a record's times come to may be too short, because clocks differ: so at least ``WATCH_S``.
    """
    if holder.lease_s is not None:
        return holder.lease_s
    if holder.expires_in_s is None:
        return WATCH_S
    return max(WATCH_S, holder.age_s + holder.expires_in_s)


def require_unchanged(before: LockHolder, now: LockHolder) -> None:
    """Refuse to break the lock of somebody who lives."""
    if now.token == before.token:
        return
    what = "renewed it" if now.owner == before.owner else "took it"
    raise Conflict(
        f"{now.owner} {what} while we watched, so it is alive: the lock was left alone "
        "(--force removes it all the same)"
    )


def _about(holder: LockHolder) -> str:
    text = f"held by {holder.owner}, renewed {seconds(max(0.0, holder.age_s))} ago by its record"
    if holder.expires_in_s is None:
        return f"{text}; when it expires is not known"
    if holder.expires_in_s <= 0:
        return f"{text}; it expired {seconds(-holder.expires_in_s)} ago"
    return f"{text}; it expires in {seconds(holder.expires_in_s)}"


def _note_other_lock(session: Session, table: Table, lock: LockProvider) -> None:
    """Say so if the table's workers use another lock than the one that is looked at."""
    try:
        used = looking_bench(table).journal.refresh().provider
    except LakehandError as error:
        session.note(f"the journal does not say which lock the table's workers use: {error}")
        return
    if used is not None and used != lock.name:
        session.note(f"the table's workers use the {used} lock, not the {lock.name} lock")
