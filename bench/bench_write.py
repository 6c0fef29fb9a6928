"""Writing and reading tables on Spark: ours beside Apache Hudi, delta-rs and the machine's limit.

    python bench/bench_write.py [--rows 3000000] [--updates 300000] [--repeats 5]
                                [--only java,ours] [--steps upsert_mor,read] [--jvm fresh|warm]
                                [--profile]

All peers start from the same Parquet files, write zstd of level 1 with dictionaries, and take
turns, step by step. With ``--jvm fresh`` (the default) every step runs in a process of its own, as
a scheduled job does: what Spark needs to get going counts for both, the start of its session for
neither. With ``warm`` each peer has one process for all steps and repeats, as in a job that
streams, and a first round that does not count. Memory is the largest sum of resident memory over
driver, JVM and Python workers; a page that several share counts once.

*of files* is ours as well, but is given a pyarrow dataset of the input instead of a DataFrame.
*handover* is Spark alone, which hands the same DataFrame to Python, where nothing is done with it:
whatever writes a DataFrame from Python cannot be faster.

At the end the tables of both are read by both, Java and ours, and every column is compared with
what it must be (``write_data``). Exits with 1 if any differs. Bars that are not reached are marked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import write_data
import write_profile
from write_watch import Child, Measured

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from java_hudi import java_home

STEPS = ("bulk_insert", "insert", "upsert_mor", "upsert_cow", "read")
BARS = {"bulk_insert": 2.5, "insert": 2.5, "upsert_mor": 4.0, "upsert_cow": 3.0, "read": 2.0}
PEERS = ("java", "ours", "files", "handover", "delta", "limit")
NEEDS = {"upsert_mor": "bulk_insert", "upsert_cow": "prepare_cow", "read": "upsert_mor"}
OF_DELTA = ("bulk_insert", "upsert_cow", "read")
OF_FILES = ("bulk_insert", "insert", "upsert_mor", "prepare_cow", "upsert_cow")
OF_HANDOVER = ("bulk_insert", "insert", "upsert_mor", "upsert_cow")
LAKES = ("java", "ours", "files")


@dataclass(slots=True)
class Run:
    """One run of the benchmark."""

    folder: Path
    setup: dict[str, object]
    peers: list[str]
    steps: list[str]
    is_warm: bool
    open: ExitStack
    children: dict[str, Child] = field(default_factory=dict)
    found: dict[tuple[str, str], list[Measured]] = field(default_factory=lambda: defaultdict(list))

    def repeat(self, *, counts: bool = True) -> None:
        """Let all peers do all steps once."""
        for step in self._with_preparation("java"):
            for peer in self.peers:
                if step not in self._with_preparation(peer):
                    continue
                if step == "prepare_cow":
                    self._prepare_cow(peer)
                    continue
                measured = self._do(peer, step)
                if counts:
                    self._keep(peer, step, measured)

    def _do(self, peer: str, step: str) -> Measured:
        if not self.is_warm:
            return self._do_in_its_own(peer, step)
        if peer not in self.children:
            self.children[peer] = self.open.enter_context(self._child(peer))
        return self.children[peer].do(step)

    def _do_in_its_own(self, peer: str, step: str) -> Measured:
        with self._child(peer) as child:
            return child.do(step)

    def _with_preparation(self, peer: str) -> list[str]:
        """Return the peer's steps in order, with what they stand on."""
        order = ["bulk_insert", "insert", "upsert_mor", "prepare_cow", "upsert_cow", "read"]
        wanted = set(self.steps)
        for step in ("read", "upsert_mor", "upsert_cow"):
            if step in wanted:
                wanted.add(NEEDS[step])
        if peer == "limit":
            wanted.add("bulk_insert")
        some = {"delta": OF_DELTA, "files": OF_FILES, "handover": OF_HANDOVER, "limit": STEPS}
        able = some.get(peer, tuple(order))
        return [step for step in order if step in wanted and step in able]

    def _prepare_cow(self, peer: str) -> None:
        """Write the table once, and start each repeat from a copy."""
        if peer not in LAKES:
            return
        place, kept = self.folder / peer / "cow", self.folder / peer / "cow-kept"
        if not kept.exists():
            self._do_in_its_own(peer, "prepare_cow")
            shutil.copytree(place, kept)
        shutil.rmtree(place)
        shutil.copytree(kept, place)

    def _keep(self, peer: str, step: str, one: Measured) -> None:
        self.found[peer, step].append(one)
        sys.stdout.write(
            f"  {peer:6} {step:12} {one.seconds:7.2f} s  processor {one.cpu_seconds:7.2f} s  "
            f"peak {one.peak_bytes / 1e6:6.0f} MB\n"
        )
        sys.stdout.flush()

    def _child(self, peer: str) -> Child:
        profile = self.setup["profile"] or ""
        environment = {
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "UTC",
            # Spark's Python daemon finds the profiler here.
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "LAKEHAND_BENCH_PROFILE": str(profile),
        }
        return Child({**self.setup, "peer": peer, "folder": str(self.folder / peer)}, environment)

    def mistakes(self, expected: dict[str, int]) -> list[str]:
        """Read the last repeat's tables by both readers; return what differs."""
        if "upsert_mor" not in self.steps or "upsert_cow" not in self.steps:
            return []
        tables = [
            str(self.folder / peer / kind)
            for peer in LAKES
            for kind in ("mor", "cow")
            if peer in self.peers
        ]
        found = []
        for reader in ("java", "arrow"):
            folder = self.folder / reader
            folder.mkdir(exist_ok=True)
            (folder / "tables.json").write_text(json.dumps(tables))
            seen = self._do_in_its_own(reader, "fingerprint").result
            found += [
                f"{reader} reads {path}: {seen[path]} instead of {expected}"
                for path in tables
                if seen[path] != expected
            ]
        if "delta" in self.peers:
            seen = self._do_in_its_own("delta", "fingerprint").result
            found += [] if seen == expected else [f"delta-rs: {seen} instead of {expected}"]
        return found


def median(found: list[Measured]) -> float:
    return statistics.median(one.seconds for one in found)


def timing(found: list[Measured]) -> str:
    """Return the median and the spread."""
    if not found:
        return "-"
    seconds = [one.seconds for one in found]
    return f"{statistics.median(seconds):.1f} ({min(seconds):.1f}-{max(seconds):.1f})"


def table(run: Run) -> str:
    """Return the figures beside each other."""
    lines = [
        f"{'step':12} {'Hudi s':>18} {'ours s':>18} {'ratio':>6} {'bar':>5}   "
        f"{'of files s':>18} {'ratio':>6} {'handover s':>18} {'delta-rs s':>14} {'limit s':>14} "
        f"{'of limit':>8} {'Hudi MB':>8} {'ours MB':>8}"
    ]
    for step in run.steps:
        java, ours, files, handover, delta, limit = (run.found[peer, step] for peer in PEERS)
        ratio = median(java) / median(ours) if java and ours else None
        of_files = median(java) / median(files) if java and files else None
        share = median(limit) / median(ours) if limit and ours else None
        memory = [max((one.peak_bytes for one in each), default=0) / 1e6 for each in (java, ours)]
        missed = " " if ratio is None or ratio >= BARS[step] else "!"
        more = "!" if java and memory[1] > memory[0] else " "
        lines.append(
            f"{step:12} {timing(java):>18} {timing(ours):>18} "
            f"{'-' if ratio is None else f'{ratio:.2f}':>6} {BARS[step]:5.1f} {missed} "
            f"{timing(files):>18} {'-' if of_files is None else f'{of_files:.2f}':>6} "
            f"{timing(handover):>18} {timing(delta):>14} {timing(limit):>14} "
            f"{'-' if share is None else f'{share:.0%}':>8} {memory[0]:8.0f} {memory[1]:8.0f}{more}"
        )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--updates", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--steps", default=",".join(STEPS), help=f"of {', '.join(STEPS)}")
    parser.add_argument("--jvm", choices=("fresh", "warm"), default="fresh")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="3g", help="of the driver's JVM")
    parser.add_argument("--profile", action="store_true", help="say where our time goes")
    return parser.parse_args()


def peers_of(only: str) -> list[str]:
    peers = only.split(",")
    if unknown := set(peers) - set(PEERS):
        sys.exit(f"--only {', '.join(sorted(unknown))}: of {', '.join(PEERS)}")
    if "delta" in peers and importlib.util.find_spec("deltalake") is None:
        peers.remove("delta")
        sys.stdout.write("delta-rs is not here: pip install deltalake, to see it as well\n")
    return peers


def main() -> int:
    options = arguments()
    peers = peers_of(options.only)
    with tempfile.TemporaryDirectory(prefix="lakehand-bench-") as name:
        folder = Path(name)
        made = write_data.make_input(folder, rows=options.rows, updates=options.updates)
        profile = folder / "profile"
        profile.mkdir()
        setup = {
            "rows": str(made.rows),
            "updates": str(made.updates),
            "cores": options.cores,
            "memory": options.memory,
            "profile": str(profile) if options.profile else None,
        }
        steps = [step for step in STEPS if step in options.steps.split(",")]
        with ExitStack() as until_measured:
            is_warm = options.jvm == "warm"
            run = Run(folder, setup, peers, steps, is_warm, open=until_measured)
            if is_warm:
                sys.stdout.write("a round to warm up\n")
                run.repeat(counts=False)
            for number in range(options.repeats):
                sys.stdout.write(f"repeat {number + 1} of {options.repeats}\n")
                run.repeat()
        sys.stdout.write(
            f"\n{options.rows:,} rows, {options.updates:,} updates, local[{options.cores}], "
            f"{options.jvm} JVM: median (least-most) of {options.repeats}; ! misses its bar\n"
            f"{table(run)}\n"
        )
        if options.profile:
            sys.stdout.write(f"\n{write_profile.report(profile)}\n")
        mistakes = run.mistakes(write_data.expected_rows(options.rows, options.updates))
        sys.stdout.write("\n".join(mistakes) or "all tables hold the same rows, by both readers")
        sys.stdout.write("\n")
        return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
