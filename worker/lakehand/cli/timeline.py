"""``lakehand timeline``: what happened to a table, what is under way, and by whom."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakehand.cli import journal_report, timeline_report
from lakehand.cli.exit_codes import ExitCode
from lakehand.cli.options import TableOptions, table_options
from lakehand.cli.rendering import Grid, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.cli.journal_report import EntryReport
    from lakehand.cli.session import Session
    from lakehand.cli.timeline_report import InstantReport

_LONGEST_DETAIL = 60


@click.command
@table_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@click.option("--pending", is_flag=True, help="Only instants that have not ended.")
@click.option("--journal", is_flag=True, help="The journal's entries instead of the instants.")
@click.pass_obj
def timeline(
    session: Session,
    uri: str,
    storage: Mapping[str, object],
    limit: int | None,
    *,
    pending: bool,
    journal: bool,
) -> ExitCode:
    """Show the active timeline of the table at URI, oldest first, and what its journal decided.

    Takes no lock and changes nothing. Works on tables of Apache Hudi that know no journal.
    """
    if journal and pending:
        raise click.UsageError("--journal and --pending do not go together")
    table = TableOptions(uri, storage).open()
    if journal:
        return _show_journal(session, journal_report.gather(table, limit=limit))
    report = timeline_report.gather(table, limit=limit, only_pending=pending)
    return _show_timeline(session, report)


def _show_timeline(session: Session, report: timeline_report.TimelineReport) -> ExitCode:
    header = (
        "INSTANT", "ACTION", "STATE", "COMPLETED", "DECIDED", "EPOCH", "OWNER", "HEARTBEAT", "NOTES"
    )  # fmt: skip
    rows = [_row(one) for one in report.instants]
    session.show(_plain(asdict(report)), Grid(header, rows, "No instants."))
    problems = [report.journal_problem, *(text for one in report.instants for text in one.problems)]
    return _noted(session, [text for text in problems if text is not None])


def _show_journal(session: Session, report: journal_report.JournalReport) -> ExitCode:
    header = ("ENTRY", "AT", "DECISION", "WRITER", "LOCK", "ON", "DETAILS")
    rows = [_entry_row(one) for one in report.entries]
    session.show(_plain(asdict(report)), Grid(header, rows, "No journal."))
    return _noted(session, [str(one.problem) for one in report.torn])


def _noted(session: Session, problems: list[str]) -> ExitCode:
    """Say what could not be read."""
    for text in problems:
        session.note(text)
    return ExitCode.CORRUPT if problems else ExitCode.OK


def _row(one: InstantReport) -> tuple[str, ...]:
    decision, beat = one.decision, one.heartbeat
    return (
        one.time,
        one.action,
        one.state or "",
        one.completion_time or "",
        "" if decision is None else decision.standing,
        "" if decision is None or decision.epoch == 0 else str(decision.epoch),
        "" if decision is None else decision.owner or "",
        "" if beat is None else f"{'live' if beat.live else 'dead'}, {seconds(beat.age_s)}",
        "; ".join(_notes(one)),
    )


def _notes(one: InstantReport) -> list[str]:
    notes: list[str] = []
    decision = one.decision
    if decision is not None:
        flags = {
            "to be published": decision.to_be_published,
            "cancellable": decision.cancellable and one.cancelled_by is None,
            "removable": decision.removable,
        }
        notes += [text for text, is_so in flags.items() if is_so]
    if one.cancelled_by is not None:
        notes.append(f"cancelled by {one.cancelled_by}: {one.cancel_reason}")
    if one.rolls_back:
        notes.append(f"rolls back {', '.join(one.rolls_back)}")
    if one.rolled_back_by:
        notes.append(f"to be rolled back by {', '.join(one.rolled_back_by)}")
    if one.problems:
        notes.append("not readable")
    return notes


def _entry_row(one: EntryReport) -> tuple[str, ...]:
    if one.problem is not None:
        text = "cannot be read"
        if one.repeated_in is not None:
            text += f"; {one.repeated_in} repeats it"
        return (one.file, "", "torn", "", "", "", text)
    return (
        one.file,
        one.at or "",
        one.kind or "",
        one.writer or "",
        one.lock or "none",
        str(one.decided_on),
        _details(one),
    )


def _details(one: EntryReport) -> str:
    """Return a decision's plain values; its files and lists are for ``--output json``."""
    found = []
    for name, value in (one.body or {}).items():
        if isinstance(value, str | int | float | bool) and value not in ("", False):
            text = str(value)
            is_long = len(text) > _LONGEST_DETAIL
            found.append(f"{name}={text[:_LONGEST_DETAIL]}…" if is_long else f"{name}={text}")
    return " ".join(found)


def _plain(value: object) -> dict[str, object]:
    """Return a report with lists for tuples, as YAML and JSON know them."""
    plain = _listed(value)
    assert isinstance(plain, dict)  # noqa: S101 - a dataclass is one
    return plain


def _listed(value: object) -> object:
    match value:
        case dict():
            return {key: _listed(one) for key, one in value.items()}
        case list() | tuple():
            return [_listed(one) for one in value]
        case _:
            return value
