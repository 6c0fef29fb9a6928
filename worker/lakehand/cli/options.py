"""The options that commands share, and what they come to: a table, its lock, a workbench."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lakehand.cli.interrupts import InterruptibleClock, InterruptibleLock
from lakehand.cli.masking import HARMLESS
from lakehand.cli.rendering import Output
from lakehand.cli.session import Session
from lakehand.protocol.workbench import ProtocolSettings
from lakehand.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehand.ports import LockProvider
    from lakehand.protocol.workbench import Workbench

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Where the table is."""

    uri: str
    storage: Mapping[str, object]

    def open(self) -> Table:
        """Open the table."""
        return Table.open(self.uri, self.storage)


@dataclass(frozen=True, slots=True)
class LockOptions:
    """By which lock the table's workers exclude each other."""

    kind: str
    options: Mapping[str, str]

    def of(self, table: Table, session: Session) -> LockProvider:
        """Return the lock; a signal ends the wait for it."""
        interrupts = session.interrupts
        lock = table.lock(self.kind, self.options, clock=InterruptibleClock(interrupts))
        return InterruptibleLock(lock, interrupts)


def looking_bench(table: Table) -> Workbench:
    """Return a workbench that only looks at the table: its lock excludes nobody."""
    settings = ProtocolSettings(foreign_writers=False)
    return table.workbench("lakehand-cli", lock="in-process", settings=settings)


def table_options(command: F) -> F:
    """Give a command its table, ``TableOptions``, and the form of its output."""
    for add in (
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_verbose,
            help="Say more: Lakehand's own log, and tracebacks of errors.",
        ),
        click.option(
            "-o",
            "--output",
            type=click.Choice([one.value for one in Output]),
            default=Output.TABLE.value,
            show_default=True,
            expose_value=False,
            is_eager=True,
            callback=_set_output,
            help="The form of results, and of errors.",
        ),
        click.option(
            "--storage-option",
            "storage",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_storage_options,
            help="An option of the table's store (docs/stores.md); may be repeated, never shown.",
        ),
        click.argument("uri"),
    ):
        command = add(command)
    return command


def lock_options(command: F) -> F:
    """Give a command the table's lock, ``LockOptions``."""
    for add in (
        click.option(
            "--lock-option",
            "lock_option",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_lock_options,
            help="An option of that lock; may be repeated.",
        ),
        click.option(
            "--lock",
            "lock",
            metavar="KIND",
            default="storage",
            show_default=True,
            help="The lock of the table's workers: storage, filesystem, etcd, kubernetes-lease or "
            "config-map.",
        ),
    ):
        command = add(command)
    return command


def session_of(context: click.Context) -> Session:
    """Return the run that a context belongs to."""
    return context.ensure_object(Session)


def _set_verbose(context: click.Context, _option: click.Parameter, value: bool) -> None:
    session_of(context).is_verbose = value


def _set_output(context: click.Context, _option: click.Parameter, value: str) -> None:
    session_of(context).output = Output(value)


def _storage_options(
    context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, object]:
    found = _pairs(pairs, "--storage-option")
    for key, value in found.items():
        if key not in HARMLESS:
            session_of(context).mask.hide(value)
    return {key: _typed(key, value) for key, value in found.items()}


def _lock_options(
    context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
    found = _pairs(pairs, "--lock-option")
    session_of(context).mask.hide(found.get("password", ""))
    return found


def _pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{option} takes KEY=VALUE")
        if key in found:
            raise click.UsageError(f"{option} {key} is given twice")
        found[key] = value
    return found


def _typed(key: str, value: str) -> object:
    """Return a value as stores take it: most are text."""
    if value in ("true", "false"):
        return value == "true"
    if key.endswith("_size") and value.isdecimal():
        return int(value)
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            raise click.UsageError(f"--storage-option {key}: not a JSON object") from None
    return value
