"""The ``lakehand`` command: its entry point, and the one place where errors become exit codes.

::

    options -> Session        how to speak, what to hide
    command -> result         on stdout
    error   -> ExitCode       one line and a remedy on stderr (cli/exit_codes.py)
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lakehand.cli.cancel import cancel
from lakehand.cli.exit_codes import ExitCode, failure_of
from lakehand.cli.masking import without_values
from lakehand.cli.session import Log, Session
from lakehand.cli.timeline import timeline
from lakehand.cli.unlock import unlock
from lakehand.errors import LakehandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class _Commands(click.Group):
    """All commands. Whoever calls ``main`` (a test does, too) gets a ``SystemExit``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401 - as click has it
    ) -> Any:  # noqa: ANN401
        """Run one command and exit with its code; return that if it does not stand alone."""
        del complete_var
        arguments = list(sys.argv[1:] if args is None else args)
        session = Session()
        with session.interrupts.handled():
            code = _run(self, arguments, prog_name or "lakehand", session, extra)
        if standalone_mode:
            sys.exit(code)
        return code


@click.group("lakehand", cls=_Commands, invoke_without_command=True)
@click.version_option(package_name="lakehand", message="lakehand %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Look at Apache Hudi tables, and mend what their workers left behind."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(ExitCode.USAGE)


commands.add_command(timeline)
commands.add_command(unlock)
commands.add_command(cancel)


def main() -> None:
    """Run the command that the process was started for."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 is no reason to fail
    commands.main()


def _run(
    group: click.Group, arguments: list[str], name: str, session: Session, extra: dict[str, Any]
) -> int:
    """Run a command and return the exit code, having said what went wrong."""
    try:
        with group.make_context(name, arguments, obj=session, **extra) as context:
            with _logging(session):
                code = group.invoke(context)
            sys.stdout.flush()
            return ExitCode.OK if code is None else int(code)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _usage(session, error)
    except LakehandError as error:
        return _failed(session, error)
    except BrokenPipeError:
        return _nobody_reads()
    except KeyboardInterrupt:
        return _interrupted(session)
    except Exception as error:
        raise SystemExit(_failed(session, error)) from error


@contextmanager
def _logging(session: Session) -> Iterator[None]:
    logger = logging.getLogger("lakehand")
    log, level = Log(session), logger.level
    logger.addHandler(log)
    logger.setLevel(log.level)
    try:
        yield
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)


def _usage(session: Session, error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    command = "lakehand" if context is None else context.command_path
    session.complain(
        kind="Usage",
        message=without_values(error.format_message()),
        remedy=f"see {command} --help",
        code=ExitCode.USAGE,
    )
    return ExitCode.USAGE


def _failed(session: Session, error: Exception) -> int:
    if session.is_verbose:
        lines = "".join(traceback.format_exception(error)).rstrip()
        click.echo(session.mask(lines), err=True)
    failure = failure_of(error)
    kind = type(error).__name__
    is_ours = isinstance(error, LakehandError)
    session.complain(
        kind=kind,
        message=str(error) if is_ours else f"{kind}: {error}",
        remedy=failure.remedy,
        code=failure.code,
    )
    return failure.code


def _nobody_reads() -> int:
    """Let the interpreter's last flush of stdout go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE


def _interrupted(session: Session) -> int:
    is_terminated = session.interrupts.number == signal.SIGTERM
    code = ExitCode.TERMINATED if is_terminated else ExitCode.INTERRUPTED
    session.complain(
        kind="Interrupted", message="interrupted", remedy="run it again to go on", code=code
    )
    return code
