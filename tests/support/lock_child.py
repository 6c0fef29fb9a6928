"""A worker process of the lock tests: takes the lock again and again and tells when it is inside.

Started with one JSON argument. Its lines go to a pipe that all workers share: a pipe keeps the
order of small writes, so what the reader sees is what happened, in order:

    enter <pid> <token>
    leave <pid> <token> <seconds that were left of the lease>

Those whose fate is to live go on until they are told to end, so that the others have rivals.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys

from lakehand.locks.file_system import file_system_lock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.store.open import open_store

MAKERS = {"file": file_system_lock, "storage": storage_lock}


def _is_told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    task = json.loads(sys.argv[1])
    lock = MAKERS[task["lock"]](open_store(task["uri"]), terms=LeaseTerms(**task["terms"]))
    pipe, pid = task["pipe"], os.getpid()

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    tell(f"ready {pid}")
    sys.stdin.readline()
    for turn in itertools.count():
        if turn >= task["turns"] and (task["fate"] != "live" or _is_told()):
            break
        held = lock.acquire(f"process {pid}", timeout_s=60)
        tell(f"enter {pid} {held.token}")
        select.select([], [], [], 0.001)  # lets others in, if they can come in
        match task["fate"]:
            case "hang" if turn == 1:
                signal.pause()  # renewals go on: only kill -9 ends this
            case "stop" if turn == 1:
                sys.stdin.readline()  # stopped, and told to go on when another was inside
        tell(f"leave {pid} {held.token} {held.left_s()}")
        held.release()
    tell(f"done {pid}")


if __name__ == "__main__":
    main()
