"""What another process does to a store, for the contract suite: one task in, one answer out.

The task comes as one line on standard input, so that credentials are in no process list.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import warnings
from typing import NoReturn

from lakehand.ports import Staged, Store
from lakehand.store.open import open_store


def race(store: Store, *, name: str, keys: int, area: str) -> dict[str, list[str]]:
    """Race other processes for the same names, and for a counter; say what was won."""
    me = name.encode()
    staged = [_stage(store, f"promoted/{key}", me, area) for key in range(keys)]
    _say_ready()
    sys.stdin.readline()
    created = [
        f"new/{key}" for key in range(keys) if store.put_new(f"new/{key}", me).value == "written"
    ]
    promoted = [each.final for each in staged if store.promote(each).value == "written"]
    count_up(store, "counter", keys)
    return {"created": created, "promoted": promoted}


def count_up(store: Store, path: str, times: int) -> None:
    """Add 1 to the number in ``path``, ``times`` times, by compare and swap."""
    done = 0
    while done < times:
        found = store.get(path)
        value = str(int(found.content) + 1).encode()
        done += store.put_if(path, value, found.version).value == "written"


def visit(store: Store, *, promoted: str, discarded: str, final: str, area: str) -> dict[str, str]:
    """Promote and discard what another process staged, and stage something for it."""
    outcome = store.promote(Staged.from_json(promoted, where="test"))
    store.discard(Staged.from_json(discarded, where="test"))
    return {"outcome": outcome.value, "handle": _stage(store, final, b"theirs", area).to_json()}


def kill_writers(store: Store, *, rounds: int, size: int, seed: int, area: str) -> int:
    """Fork writers and kill each at a random moment; return how many were killed at work."""
    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons dislike a fork
    dice = random.Random(seed)
    killed = 0
    for number in range(rounds):
        writer = os.fork()
        if writer == 0:
            _write_for_ever(store, name=f"round-{number}", size=size, area=area)
        select.select([], [], [], dice.uniform(0.0, 0.06))
        os.kill(writer, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == -signal.SIGKILL
    return killed


def _write_for_ever(store: Store, *, name: str, size: int, area: str) -> NoReturn:
    """Create, replace and promote objects of one repeated byte."""
    number = 0
    try:
        while True:
            fill = bytes([65 + number % 26])
            store.put(f"{name}/replaced", fill * size)
            store.put_new(f"{name}/new-{number}", fill * size)
            found = store.get(f"{name}/replaced")
            store.put_if(f"{name}/replaced", fill * (size // 2), found.version)
            store.promote(_stage(store, f"{name}/promoted-{number}", fill * size, area))
            number += 1
    finally:
        os._exit(1)  # not killed: something else ended it


def _stage(store: Store, final: str, content: bytes, area: str) -> Staged:
    with store.stage(final, area=area) as writer:
        writer.write(content)
    return writer.staged


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


ACTIONS = {each.__name__: each for each in (race, visit, kill_writers)}


def main() -> None:
    task = json.loads(sys.stdin.readline())
    store = open_store(task["uri"], task["options"])
    answer = ACTIONS[task["action"]](store, **task["arguments"])
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
