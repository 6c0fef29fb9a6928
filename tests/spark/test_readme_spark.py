"""The README's examples with PySpark run as they stand there."""

import pytest

import readme
from lakehand import Table

pytestmark = pytest.mark.spark

SCHEMA = "id string, city string, ts long, amount double"


def rows(spark, *numbers, amount):
    made = [(f"k{n}", "cairo" if n % 2 else "oslo", n, amount) for n in numbers]
    return spark.createDataFrame(made, SCHEMA)


def test_the_examples_write_and_read(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, streaming = readme.blocks("Write and read with PySpark")
    names = {
        "spark": spark,
        "df": rows(spark, 1, 2, 3, 4, amount=1.0),
        "updates": rows(spark, 3, 5, amount=2.0),
        "gone": rows(spark, 1, amount=0.0),
    }
    new = rows(spark, 6, amount=6.0).toPandas()
    (tmp_path / "new-trips").mkdir()
    new.to_parquet(tmp_path / "new-trips" / "6.parquet", index=False)
    exec(first, names)  # noqa: S102 - the README is ours
    landing = str(tmp_path / "landing")
    rows(spark, 7, 8, amount=3.0).write.parquet(landing)
    names["stream"] = spark.readStream.schema(SCHEMA).parquet(landing)
    # The JVM stands in the folder that it was started in.
    exec(streaming.replace("checkpoints", str(tmp_path / "checkpoints")), names)  # noqa: S102
    (query,) = spark.streams.active
    query.processAllAvailable()
    query.stop()
    names["write"](rows(spark, 9, amount=9.0), 0)  # batch 0 was written: this changes nothing
    found = Table.open("trips").to_arrow(columns=["id", "amount"])
    assert dict(zip(*found.to_pydict().values(), strict=True)) == {
        "k2": 1.0,
        "k3": 2.0,
        "k4": 1.0,
        "k5": 2.0,
        "k6": 6.0,
        "k7": 3.0,
        "k8": 3.0,
    }
