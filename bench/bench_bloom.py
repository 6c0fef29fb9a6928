"""Rates of bloom filters and of writing base files, beside the machine's pass-through.

Run: ``python bench/bench_bloom.py``. The pass-through of a filter is one sum over the keys' bytes
for each hash; that of a base file is PyArrow writing the same batches without Hudi's footer.
"""

from __future__ import annotations

import io
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehand.formats import bloom
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.bloom import BloomSettings

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 3
KEYS = 1_000_000


def median_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def report(name: str, seconds: float, through: float) -> None:
    rate = KEYS / seconds / 1e6
    print(f"{name}: {rate:.2f} M keys/s ({seconds / through:.1f} x pass-through)")


def main() -> None:
    keys = pa.array([f"key-{n:08d}-{n % 7}" for n in range(KEYS)])
    settings = BloomSettings(entries=KEYS)
    built = bloom.build(keys, settings)
    octets = np.frombuffer(memoryview(keys.buffers()[2]), dtype=np.uint8)
    through = median_s(lambda: [int(octets.sum()) for _ in range(settings.hashes)])
    report("build", median_s(lambda: bloom.build(keys, settings)), through)
    report("might_contain, all inside", median_s(lambda: built.might_contain(keys)), through)
    absent = pa.array([f"other-{n}" for n in range(KEYS)])
    report("might_contain, none inside", median_s(lambda: built.might_contain(absent)), through)

    values = pa.array(np.arange(KEYS))
    table = pa.table({"_hoodie_record_key": keys, "v": values})
    batches = table.to_batches(max_chunksize=65_536)

    def write_plainly() -> None:
        with pq.ParquetWriter(io.BytesIO(), table.schema, compression="zstd") as writer:
            writer.write_table(table)

    def write_ours(made: BloomSettings | None) -> None:
        with BaseFileWriter(
            io.BytesIO(), table.schema, options=BaseFileOptions(bloom=made)
        ) as writer:
            for batch in batches:
                writer.write(batch)

    plain = median_s(write_plainly)
    report("base file with filter", median_s(lambda: write_ours(BloomSettings())), plain)
    report("base file without filter", median_s(lambda: write_ours(None)), plain)


if __name__ == "__main__":
    main()
