"""Mutation fuzzing of a parser in a child process with limits on memory and time.

A parser survives when every mutated input either parses or raises a ``LakehandError`` within
the time and memory limits. The child runs apart, so that a crash, a hang or an allocation of
gigabytes is a finding and not the end of the test run.

By default a run tries ``FUZZ_CASES`` inputs, the same ones on every machine, so that it is green
or red for everybody. ``FUZZ_SECONDS`` looks further: as many inputs as fit into that time, of a
seed drawn for the run. A failure names its seed; with it in ``FUZZ_SEED`` the run repeats.
"""

import contextlib
import importlib
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(1 << 32) if SECONDS else 1))
CASE_SECONDS = 5
"""Of processor time, so that a busy machine fails no input."""
STALLED_SECONDS = 900
"""What waits for something uses no processor time."""
MEMORY_BYTES = 3 << 30
INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000]
INTERESTING += [0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]


def assert_survives(target: str, corpus: list[bytes], tmp_path: Path) -> int:
    """Fuzz ``module:function`` (bytes in) from ``corpus``; return how many cases were tried."""
    assert corpus, "a fuzz run needs at least one valid input"
    for number, content in enumerate(corpus):
        (tmp_path / f"{number:03d}.seed").write_bytes(content)
    budget = [str(CASES), str(SECONDS), str(SEED)]
    command = [sys.executable, __file__, target, str(tmp_path), *budget]
    limit = SECONDS + STALLED_SECONDS
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    case = tmp_path / "case.bin"
    kept = f"; the input is {case}" if case.exists() else ""
    problem = f"{target} failed on a mutated input of seed {SEED}{kept}"
    assert done.returncode == 0, f"{problem}\n{done.stderr[-4000:]}"
    tried = int(json.loads(done.stdout.splitlines()[-1])["tried"])
    assert tried > 0, "no case was tried within the time"
    return tried


def mutate(random_: random.Random, corpus: list[bytes]) -> bytes:
    """Return a broken neighbour of one of the inputs."""
    data = bytearray(random_.choice(corpus))
    for _ in range(random_.choice((1, 1, 1, 2, 4, 8))):
        data = random_.choice(_MUTATIONS)(random_, data, corpus)
    return bytes(data)


def _flip_bit(random_, data, _corpus):
    if data:
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    return data


def _set_byte(random_, data, _corpus):
    if data:
        data[random_.randrange(len(data))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
    return data


def _set_integer(random_, data, _corpus):
    width = random_.choice((2, 4, 8))
    if len(data) >= width:
        at = random_.randrange(len(data) - width + 1)
        value = random_.choice(INTERESTING) & ((1 << (8 * width)) - 1)
        data[at : at + width] = value.to_bytes(width, random_.choice(("big", "little")))
    return data


def _truncate(random_, data, _corpus):
    return data[: random_.randrange(len(data) + 1)]


def _cut(random_, data, _corpus):
    start = random_.randrange(len(data) + 1)
    return data[:start] + data[start + random_.randrange(64) :]


def _insert(random_, data, _corpus):
    at = random_.randrange(len(data) + 1)
    return data[:at] + random_.randbytes(random_.randrange(1, 17)) + data[at:]


def _repeat(random_, data, _corpus):
    start = random_.randrange(len(data) + 1)
    piece = data[start : start + random_.randrange(1, 257)]
    return data[:start] + piece * random_.randrange(2, 9) + data[start:]


def _splice(random_, data, corpus):
    other = random_.choice(corpus)
    return data[: random_.randrange(len(data) + 1)] + other[random_.randrange(len(other) + 1) :]


_MUTATIONS = [_flip_bit, _set_byte, _set_integer, _truncate, _cut, _insert, _repeat, _splice]


def main(target: str, folder: str, cases: str, seconds: str, seed: str) -> None:
    """Run in the child: mutate, parse, and die loudly on anything that is not a typed error."""
    from lakehand.errors import LakehandError

    module, _, name = target.partition(":")
    parse = getattr(importlib.import_module(module), name)
    corpus = [path.read_bytes() for path in sorted(Path(folder).glob("*.seed"))]
    for content in corpus:
        parse(content)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _too_slow)
    case_file = Path(folder) / "case.bin"
    tried = 0
    for case in _cases(corpus, int(cases), float(seconds), random.Random(int(seed))):
        case_file.write_bytes(case)
        signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
        with contextlib.suppress(LakehandError):
            parse(case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        tried += 1
    case_file.unlink(missing_ok=True)
    print(json.dumps({"tried": tried}))


def _cases(corpus, cases, seconds, random_):
    """Yield so many broken inputs or, if ``seconds`` is not 0, as many as fit into that time."""
    deadline = time.monotonic() + seconds
    numbers = itertools.count() if seconds else range(cases)
    for _ in numbers:
        if seconds and time.monotonic() >= deadline:
            return
        yield mutate(random_, corpus)


def _too_slow(_signal, _frame):
    raise TimeoutError(f"one input took more than {CASE_SECONDS} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
