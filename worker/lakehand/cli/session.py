"""One run of the command: in which form it speaks, what it must not say, and how it is stopped."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from lakehand.cli.interrupts import Interrupts
from lakehand.cli.masking import Mask
from lakehand.cli.rendering import Grid, Output, printable, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.cli.exit_codes import ExitCode


@dataclass(slots=True)
class Session:
    """What the options have said so far. Results go to stdout, everything else to stderr."""

    output: Output = Output.TABLE
    is_verbose: bool = False
    mask: Mask = field(default_factory=Mask)
    interrupts: Interrupts = field(default_factory=Interrupts)

    def show(self, record: Mapping[str, Any], people: str | Grid) -> None:
        """Print the result."""
        text = render(record, people, self.output)
        click.echo(self.mask(text))

    def note(self, text: str) -> None:
        """Say something beside the result."""
        self._say({"note": text}, f"note: {text}")

    def complain(self, *, kind: str, message: str, remedy: str, code: ExitCode) -> None:
        """Say why the command ends without its result."""
        message = " ".join(message.split())
        record = {"kind": kind, "message": message, "remedy": remedy, "code": int(code)}
        self._say({"error": record}, f"error: {message}\nremedy: {remedy}")

    def _say(self, record: Mapping[str, Any], text: str) -> None:
        if self.output is Output.JSON:
            click.echo(self.mask(json.dumps(record)), err=True)
            return
        for line in self.mask(text).split("\n"):
            click.echo(printable(line), err=True)


class Log(logging.Handler):
    """Lakehand's own log on stderr; the logs of libraries, which show requests, stay off."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.INFO)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line; what is no warning only if the user wants to hear more."""
        if self._session.is_verbose or record.levelno >= logging.WARNING:
            self._session.note(f"{record.levelname.lower()}: {record.getMessage()}")


def is_stdin_yes(question: str) -> bool:
    """Ask a person; everything but yes is no."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
