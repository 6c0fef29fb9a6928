"""The command: ``python -m lakehand.demo [--folder FOLDER]``.

Exits with 0 if all rows were right, 1 if any was wrong or a step failed, 2 if the folder is not the
demo's, 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from lakehand.demo import writers
from lakehand.demo.screen import Screen
from lakehand.demo.story import Story
from lakehand.demo.writers import WriterFailed
from lakehand.errors import LakehandError
from lakehand.process import SystemClock

if TYPE_CHECKING:
    from types import FrameType

_MARK = ".made-by-lakehand-demo"
_INTERRUPTED = 130


def main() -> int:
    """Tell the story in a temporary folder, or in one that stays."""
    arguments = _arguments()
    if arguments.write is not None:
        return writers.write(
            arguments.uri,
            arguments.write,
            retries=arguments.retries,
            stop_before=arguments.stop_before,
        )
    signal.signal(signal.SIGTERM, _as_interrupt)
    screen = Screen(SystemClock())
    with ExitStack() as ending:
        try:
            folder = _folder(arguments.folder, ending)
            story = Story(
                screen,
                folder,
                ending,
                is_kept=arguments.folder is not None,
                names={os.getpid(): "this demo"},
            )
            return 0 if story.tell() else 1
        except (LakehandError, WriterFailed) as error:
            screen.say("", f"The demo failed: {error}")
            return 1
        except KeyboardInterrupt:
            screen.say("", "Interrupted: what was started is ended.")
            return _INTERRUPTED


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lakehand.demo",
        description="A small lake, two writers that collide, one that is killed, and right rows.",
    )
    parser.add_argument(
        "--folder", type=Path, help="make the lake here, and keep it (else: a temporary folder)"
    )
    # What the demo starts itself as: a writer of the rows in a file.
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--retries", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--stop-before", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("uri", nargs="?", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None and not _is_ours(arguments.folder):
        parser.error(f"{arguments.folder} is not empty, and not made by this demo: choose another")
    return arguments


def _is_ours(folder: Path) -> bool:
    """Whether an earlier demo made the folder, or nothing is there."""
    return not folder.exists() or (folder / _MARK).exists() or not any(folder.iterdir())


def _folder(given: Path | None, ending: ExitStack) -> Path:
    """Return an empty folder; what an earlier demo left there is removed, nothing else ever."""
    if given is None:
        return Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="lakehand-demo-")))
    folder = given.absolute()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return folder


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
