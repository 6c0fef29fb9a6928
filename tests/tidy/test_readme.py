"""The README's example without a JVM runs as it stands there (tests/spark has the others)."""

import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc

import golden
import readme
from lakehand import Table


def test_the_example_reads_a_table_that_hudi_made(tmp_path, monkeypatch, capsys):
    table = golden.unpack("v9_mor_basic", tmp_path)
    Path(table.path).rename(tmp_path / "trips")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in readme.blocks("Read without a JVM"):
        exec(block, names)  # noqa: S102 - the README is ours
    assert isinstance(names["table"], Table)
    now = next(read.expected for read in table.reads if read.as_of is None)
    expected = now.filter(pc.equal(now["city"], "cairo")).select(["id", "city", "amount"])
    assert expected.num_rows > 0
    assert sorted(names["rows"].to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
    assert "v9_mor_basic" in capsys.readouterr().out


def test_the_core_does_not_load_arrow():
    """The operator decides with the core alone, in a small process."""
    code = "import sys, lakehand.core.timeline; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
