"""A second opinion: `python tests/golden/make/check_hudi_rs.py [NAME…]`.

Reads every golden table with hudi-rs and compares the newest snapshot and the time travels with
what Java read. It prints the differences; known ones are listed in `tests/golden/README.md`.
Each table is read in a process of its own, because hudi-rs can panic.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "support")]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from golden import golden_names, unpack  # noqa: E402


def normal(value: object) -> object:
    """Maps as sorted pairs, structs as values, floats by their text: comparable by `repr`."""
    if isinstance(value, dict):
        return [normal(v) for v in value.values()]
    if isinstance(value, list):
        return [normal(v) for v in value]
    if isinstance(value, tuple):
        return tuple(normal(v) for v in value)
    return value


def rows(table: pa.Table, columns: list[str]) -> list[str]:
    return sorted(repr([normal(v) for v in r.values()]) for r in table.select(columns).to_pylist())


def read(path: Path, as_of: str | None) -> pa.Table | None:
    """The snapshot by hudi-rs; None when it has no rows (then it has no schema either)."""
    from hudi import HudiReadOptions, HudiTableBuilder

    options = HudiReadOptions()
    if as_of is not None:
        options = options.with_as_of_timestamp(as_of)
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read(options)
    return pa.Table.from_batches(batches) if batches else None


def compare(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        table = unpack(name, Path(folder))
        answers = []
        for said in table.reads:
            found = read(table.path, said.as_of)
            if found is None:
                found = said.expected.slice(0, 0)
            shared = [
                c
                for c in said.expected.column_names
                if c in found.column_names and c != "_hoodie_file_name"
            ]
            lost = [c for c in said.expected.column_names if c not in found.column_names]
            mine, theirs = rows(said.expected, shared), rows(found, shared)
            if mine == theirs:
                answers.append("same" if not lost else f"same but for {lost}")
            else:
                only_java = Counter(mine) - Counter(theirs)
                only_rust = Counter(theirs) - Counter(mine)
                answers.append(
                    f"DIFFERS (java {len(mine)}, rust {len(theirs)}): "
                    f"{next(iter(only_java), None)} | {next(iter(only_rust), None)}"[:400]
                )
        return "; ".join(answers)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(compare(sys.argv[2]))
        return
    if sys.argv[1:2] == ["--rows"]:
        path, as_of, target = sys.argv[2:5]
        found = read(Path(path), as_of or None)
        if found is not None:
            pq.write_table(found, target)
        return
    for name in sys.argv[1:] or golden_names():
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False
        )
        last = (done.stdout.strip() or done.stderr.strip().splitlines()[-1])[:600]
        print(f"{name}: {last}", flush=True)


if __name__ == "__main__":
    main()
