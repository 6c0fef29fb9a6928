"""What Java 1.2.0 reads from the tables that older bundles made.

`python tests/golden/make/second_opinion.py [NAME…]`, after `make.py`.
Where the two agree nothing is written but `"agreed": "1.2.0"` in the zip's meta. Where they differ
the older bundle's read gets a `fault` that says so, and 1.2.0's rows become a read of their own
(`source: java 1.2.0`): a reader made today is held to those, unless they too carry a fault.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "support")]

import pyarrow.parquet as pq  # noqa: E402

import themes  # noqa: E402, F401
from golden import golden_names, read_meta, unpack  # noqa: E402
from java_hudi import JavaFailed, JavaHudi  # noqa: E402
from make import pack  # noqa: E402
from maker import ROOT, difference  # noqa: E402

JUDGE = "1.2.0"


def judge(hudi: JavaHudi, name: str) -> str:
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    # Unpacked where it was made, because plans hold absolute paths.
    table = unpack(name, ROOT)
    expected = folder / "expected"
    meta = table.meta
    own = [r for r in meta["reads"] if r["source"] != f"java {JUDGE}"]
    said, more = [], []
    for record in own:
        record.pop("fault", None)
        record.pop("disagrees", None)
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
        file = record["file"].removesuffix(".parquet") + f".by-{JUDGE}.parquet"
        pq.write_table(theirs, expected / file, compression="zstd")
        record["fault"] = f"{meta['bundle']} and {JUDGE} read different rows; see the other read"
        record["disagrees"] = [
            text.replace("only then", f"only {JUDGE}").replace(
                "only in the time travel", f"only {meta['bundle']}"
            )
            for text in odd
        ]
        more.append(
            {
                "as_of": record["as_of"],
                "file": file,
                "source": f"java {JUDGE}",
                "rows": theirs.num_rows,
            }
        )
        said.append(f"{record['as_of'] or 'now'}: {record['disagrees']}")
    for stale in expected.glob(f"*.by-{JUDGE}.parquet"):
        if stale.name not in [r["file"] for r in more]:
            stale.unlink()
    meta["reads"] = own + more
    meta["second_opinion"] = JUDGE
    (expected / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False))
    pack(folder, name)
    shutil.rmtree(folder)
    return "agreed" if not said else "; ".join(said)


def main() -> None:
    wanted = sys.argv[1:]
    names = [
        name
        for name in wanted or golden_names()
        if read_meta(name)["bundle"] != JUDGE
        and (wanted or read_meta(name).get("second_opinion") != JUDGE)
    ]
    ROOT.mkdir(exist_ok=True)
    with JavaHudi(JUDGE) as hudi:
        for name in names:
            print(f"{name}: {judge(hudi, name)}"[:900], flush=True)


if __name__ == "__main__":
    main()
