"""Places where the contract suite opens stores: what each kind of store needs, in one value."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehand.store.open import open_store

if TYPE_CHECKING:
    from lakehand.ports import Store

AREA = ".hoodie/.temp/20260101000000000/.staging/1"
"""A staging area as the protocol names them."""

CHILD = Path(__file__).with_name("store_child.py")


@dataclass(frozen=True)
class Place:
    """An empty base that a store, or several, can be opened at."""

    kind: str
    uri: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def open(self) -> Store:
        """Open another store at the same base."""
        return open_store(self.uri, self.options)

    @property
    def folder(self) -> Path:
        """The base's folder, if the store is a local disk."""
        assert self.kind == "local"
        return Path(self.uri)

    def start_child(self, action: str, **arguments: Any) -> subprocess.Popen[str]:
        """Run an action of ``store_child.py`` in a process of its own."""
        child = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        task = {
            "uri": self.uri,
            "options": self.options,
            "action": action,
            "arguments": arguments,
        }
        assert child.stdin is not None
        child.stdin.write(json.dumps(task) + "\n")
        child.stdin.flush()
        return child


def in_child(place: Place, action: str, **arguments: Any) -> Any:
    """Run one action in another process and return what it answered."""
    return answer_of(place.start_child(action, **arguments))


def answer_of(child: subprocess.Popen[str]) -> Any:
    """Wait for a child and return its answer."""
    try:
        out, error = child.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    assert child.returncode == 0, error
    return json.loads(out.splitlines()[-1])


def memory_place() -> Place:
    """A store in this process's memory."""
    return Place("memory", f"memory://{uuid.uuid4().hex}")


def stage(store: Store, final: str, content: bytes, *, area: str = AREA):
    """Stage ``content`` and return the handle."""
    with store.stage(final, area=area) as writer:
        writer.write(content)
    return writer.staged
