"""What others read from the tables that older bundles made: Java 1.2.0, and hudi-rs as umpire.

`python tests/golden/make/second_opinion.py [NAME…]`, after `make.py`.
Where the maker and 1.2.0 agree nothing is written but `second_opinion` in the zip's meta. Where
they differ the read gets `disagrees`, with some rows, and one of two things follows:

* hudi-rs sides with 1.2.0: the maker's read carries a `fault`, and 1.2.0's rows become a read of
  their own (`source: java 1.2.0`), to which a reader made today is held;
* hudi-rs sides with the maker, or cannot say and the time travel is what the snapshot was then:
  the maker's read stands. (1.2.0 loses log blocks when it travels in version 6 tables of 0.15.0.)
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "support")]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import themes  # noqa: E402, F401
from golden import golden_names, read_meta, unpack  # noqa: E402
from java_hudi import JavaFailed, JavaHudi  # noqa: E402
from make import pack  # noqa: E402
from maker import ROOT, difference  # noqa: E402
from theme_keys import timed_rows  # noqa: E402

JUDGE = "1.2.0"


def read_by_hudi_rs(name: str, as_of: str | None) -> pa.Table | None:
    """hudi-rs in a process of its own, because it can panic; None where it cannot read."""
    target = ROOT / "umpire.parquet"
    target.unlink(missing_ok=True)
    script = HERE / "check_hudi_rs.py"
    place = str(ROOT / name / "table")
    command = [sys.executable, str(script), "--rows", place, as_of or "", str(target)]
    subprocess.run(command, capture_output=True, check=False)
    return pq.read_table(target) if target.exists() else None


def stored_epoch(table: pa.Table) -> pa.Table:
    """The timestamp key generator's column as it was written (`theme_keys.timed_rows`)."""
    values = [
        timed_rows(range(int(key[1:]), int(key[1:]) + 1), 0)[0]["at"]
        for key in table["id"].to_pylist()
    ]
    place = table.column_names.index("at")
    return table.set_column(place, "at", pa.array(values, pa.int64()))


MODELS = {
    # No Java returns the stored value: 0.15.0 shows the path, the others the number as a string.
    "timestamp_keygen": (stored_epoch, "Java shows the partition column as text"),
}


def judge(hudi: JavaHudi, name: str) -> str:
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    # Unpacked where it was made, because plans hold absolute paths.
    table = unpack(name, ROOT)
    expected = folder / "expected"
    meta = table.meta
    own = [r for r in meta["reads"] if r["source"] not in (f"java {JUDGE}", "model")]
    said, more = [], []
    for record in own:
        record.pop("fault", None)
        record.pop("disagrees", None)
        record.pop("umpire", None)
        mine = pq.read_table(expected / record["file"])
        try:
            theirs = hudi.read(table.path, record["as_of"])
        except JavaFailed as error:
            record["disagrees"] = [f"{JUDGE} cannot read it: {str(error)[:300]}"]
            said.append(f"{record['as_of'] or 'now'}: {str(error)[:200]}")
            continue
        odd = difference(mine, theirs)
        if mine.schema.types != theirs.schema.types and set(mine.column_names) == set(
            theirs.column_names
        ):
            retyped = [
                f"{f.name}: {f.type} / {theirs.schema.field(f.name).type}"
                for f in mine.schema
                if f.type != theirs.schema.field(f.name).type
            ]
            odd += [f"types differ: {retyped}"] if retyped else []
        if not odd:
            continue
        record["disagrees"] = [
            text.replace("only then", f"only {JUDGE}").replace(
                "only in the time travel", f"only {meta['bundle']}"
            )
            for text in odd
        ]
        said.append(f"{record['as_of'] or 'now'}: {record['disagrees']}")
        umpire = read_by_hudi_rs(name, record["as_of"])
        for_maker = umpire is not None and not difference(mine, umpire)
        for_judge = umpire is not None and not difference(theirs, umpire)
        if for_maker or (not for_judge and record.get("matches_live")):
            record["umpire"] = "hudi-rs sides with the maker" if for_maker else "undecided"
            continue
        record["umpire"] = f"hudi-rs sides with {JUDGE}" if for_judge else "undecided"
        file = record["file"].removesuffix(".parquet") + f".by-{JUDGE}.parquet"
        pq.write_table(theirs, expected / file, compression="zstd")
        record["fault"] = f"{meta['bundle']} and {JUDGE} read different rows; see the other read"
        more.append(
            {
                "as_of": record["as_of"],
                "file": file,
                "source": f"java {JUDGE}",
                "rows": theirs.num_rows,
            }
        )
    for stale in expected.glob(f"*.by-{JUDGE}.parquet"):
        if stale.name not in [r["file"] for r in more]:
            stale.unlink()
    meta["reads"] = own + more
    meta["second_opinion"] = JUDGE
    (expected / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False))
    pack(folder, name)
    shutil.rmtree(folder)
    return "agreed" if not said else "; ".join(said)


def add_model(name: str) -> None:
    """A read by hand where every Java is wrong: its rows with one column put right."""
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    meta = unpack(name, ROOT).meta
    correct, fault = MODELS[meta["theme"]]
    own = [r for r in meta["reads"] if r["source"] != "model"]
    models = []
    for record in own:
        record["fault"] = fault
        if record["source"] != "java":
            continue
        file = record["file"].removesuffix(".parquet") + ".model.parquet"
        table = correct(pq.read_table(folder / "expected" / record["file"]))
        pq.write_table(table, folder / "expected" / file, compression="zstd")
        models.append(
            {
                "as_of": record["as_of"],
                "file": file,
                "source": "model",
                "rows": table.num_rows,
            }
        )
    meta["reads"] = own + models
    (folder / "expected" / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False))
    pack(folder, name)
    shutil.rmtree(folder)


def main() -> None:
    wanted = sys.argv[1:]
    names = [
        name
        for name in wanted or golden_names()
        if read_meta(name)["bundle"] != JUDGE
        and any(r["source"] == "java" for r in read_meta(name)["reads"])
        and (wanted or read_meta(name).get("second_opinion") != JUDGE)
    ]
    ROOT.mkdir(exist_ok=True)
    with JavaHudi(JUDGE, niceness=1) as hudi:
        for name in names:
            print(f"{name}: {judge(hudi, name)}"[:900], flush=True)
    for name in wanted or golden_names():
        if read_meta(name)["theme"] in MODELS:
            add_model(name)


if __name__ == "__main__":
    main()
