"""A child process of the write benchmark: one peer, whose steps are timed one by one.

Started as ``write_child.py <file descriptor> <setup as JSON>``; does the steps that its standard
input names, a line each, and answers with JSON lines. What is timed begins when the peer is ready
(session started) and ends when its step returned.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import write_peers
from write_peers import Work


def main() -> None:
    setup = json.loads(sys.argv[2])
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers:
        work = Work(
            peer=setup["peer"],
            folder=Path(setup["folder"]),
            rows=Path(setup["rows"]),
            updates=Path(setup["updates"]),
            cores=setup["cores"],
            memory=setup["memory"],
        )
        with write_peers.opened(work, setup.get("profile")) as steps:
            for line in sys.stdin:
                name = line.strip()
                answers.write(json.dumps({"begin": name}) + "\n")
                begin = time.perf_counter()
                result = steps[name](work)
                seconds = time.perf_counter() - begin
                answers.write(
                    json.dumps({"end": name, "seconds": seconds, "result": result}) + "\n"
                )


if __name__ == "__main__":
    main()
