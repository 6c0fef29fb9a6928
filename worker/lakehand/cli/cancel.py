"""``lakehand cancel``: decide that a plan never commits, and carry it out unless it is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakehand.cli.exit_codes import ExitCode
from lakehand.cli.options import LockOptions, TableOptions, lock_options, table_options
from lakehand.cli.rendering import seconds
from lakehand.core.instants import require_instant_time
from lakehand.errors import Invalid, PlanBusy
from lakehand.protocol import cancelling
from lakehand.protocol.workbench import ProtocolSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.cli.session import Session
    from lakehand.protocol.workbench import Workbench


def _instant_time(_context: click.Context, _option: click.Parameter, text: str) -> str:
    try:
        return require_instant_time(text)
    except Invalid as error:
        raise click.UsageError(str(error)) from error


@click.command
@table_options
@click.argument("instant", callback=_instant_time)
@lock_options
@click.option("--reason", default="cancelled by hand", show_default=True, help="Why; it is kept.")
@click.option("--no-abort", is_flag=True, help="Only decide it; clean carries it out.")
@click.option("--worker", metavar="NAME", help="Who asks; default: host, process and a short id.")
@click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0),
    default=ProtocolSettings().lock_timeout_s,
    show_default=True,
    help="How many seconds to wait for the lock.",
)
@click.option(
    "--no-foreign-writers",
    is_flag=True,
    help="Apache Hudi's own writers never change this table: any lock will do.",
)
@click.pass_obj
def cancel(
    session: Session,
    uri: str,
    storage: Mapping[str, object],
    instant: str,
    lock: str,
    lock_option: Mapping[str, str],
    reason: str,
    worker: str | None,
    lock_timeout: float,
    *,
    no_abort: bool,
    no_foreign_writers: bool,
) -> ExitCode:
    """Cancel the plan INSTANT of the table at URI.

    The plan never commits after that, whatever its executor does. What it left is removed at once,
    unless it is being executed: then the executor, or the next clean, does so.
    """
    table = TableOptions(uri, storage).open()
    bench = table.workbench(
        worker,
        lock=LockOptions(lock, lock_option).of(table, session),
        settings=ProtocolSettings(
            lock_timeout_s=lock_timeout, foreign_writers=not no_foreign_writers
        ),
    )
    with session.interrupts.whole():
        cancelling.request_cancel(bench, instant, reason=reason)
        session.note(f"{instant} is cancelled: it will never commit")
    busy = None
    if not no_abort:
        with session.interrupts.whole():
            busy = _abort(bench, instant)
    _show(session, bench, instant, is_aborted=not no_abort and busy is None, busy=busy)
    return ExitCode.OK


def _abort(bench: Workbench, time: str) -> PlanBusy | None:
    """Carry the cancellation out; return who is at work if somebody is."""
    try:
        cancelling.execute_cancel(bench, time)
    except PlanBusy as busy:
        return busy
    return None


def _show(
    session: Session, bench: Workbench, time: str, *, is_aborted: bool, busy: PlanBusy | None
) -> None:
    at_work = None
    text = f"{time} is cancelled. Clean will abort it."
    if is_aborted:
        text = f"{time} is cancelled and aborted: nothing of it is left."
    elif busy is not None:
        at_work = {
            "owner": busy.owner,
            "epoch": busy.epoch,
            "heartbeat_age_s": round(busy.age_s, 1),
            "dead_in_s": round(busy.retry_after_s, 1),
        }
        text = (
            f"{time} is cancelled, and {busy.owner} is still at work on it (epoch {busy.epoch}, "
            f"last heartbeat {seconds(busy.age_s)} ago). It will stop without committing; it, or "
            "clean, aborts the plan."
        )
    record = {
        "table": bench.store.uri,
        "instant": time,
        "outcome": "aborted" if is_aborted else "cancelled",
        "at_work": at_work,
    }
    session.show(record, text)
