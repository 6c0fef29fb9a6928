"""Base files of the golden tables: their footers against filters and keys that we make anew."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from golden import golden_names, unpack
from lakehand.core.file_names import parse_base_file
from lakehand.formats import bloom
from lakehand.formats.base_file import BaseFileFooter, read_footer
from lakehand.formats.bloom import BloomFilter, BloomKind, BloomSettings
from lakehand.formats.key_order import java_min_max

RATES = [10.0**-power for power in range(1, 13)]


def base_files(table: Path) -> list[Path]:
    return [
        path
        for path in sorted(table.rglob("*.parquet"))
        if ".hoodie" not in path.parts and parse_base_file(path.name)
    ]


def settings_that_fit(java: BloomFilter, keys: int) -> list[BloomSettings]:
    """The settings that a filter of this size may have been made with; it does not say."""
    entries = (
        [java.entries] if java.kind is BloomKind.DYNAMIC else [60_000, 10, 100, 500, 1_000, keys]
    )
    limits = {100_000, java.entries * len(java.rows)}
    tried = [
        BloomSettings(java.kind, n, rate, most)
        for n in entries
        for rate in RATES
        for most in limits
    ]
    return [s for s in tried if (s.vector_bits, s.hashes) == (java.vector_bits, java.hashes)]


def is_keyless(table: pa.Table) -> bool:
    """Whether meta columns are absent or, as `populate.meta.fields=false` has it, null."""
    name = "_hoodie_record_key"
    return name not in table.column_names or table[name].null_count == table.num_rows


def check_footer(path: Path) -> BaseFileFooter:
    """Compare a file's footer, cell for cell, with what its own record keys say."""
    with pa.memory_map(str(path)) as file:
        footer = read_footer(file, where=path.name)
    table = pq.read_table(path, partitioning=None)
    assert footer.rows == table.num_rows
    assert footer.arrow_schema.names == table.column_names
    if table.num_rows and is_keyless(table):
        assert (footer.min_key, footer.max_key, footer.bloom) == (None, None, None)
        return footer
    keys = table["_hoodie_record_key"].combine_chunks()
    if len(keys) == 0:
        assert (footer.min_key, footer.max_key) == (None, None)
        return footer
    ends = [java_min_max(keys)]
    if footer.avro_schema is None:
        # Spark's rows compare strings by their bytes.
        ends.append(tuple(pc.min_max(keys).as_py().values()))
    assert (footer.min_key, footer.max_key) in ends
    java = footer.bloom
    assert java is not None and java.to_footer() == footer.bloom_text
    assert pc.all(java.might_contain(keys)).as_py()
    fitting = settings_that_fit(java, len(keys))
    assert any(bloom.build(keys, settings) == java for settings in fitting)
    return footer


@pytest.mark.parametrize("name", golden_names())
def test_footers_agree_with_java_cell_for_cell(name, tmp_path):
    for path in base_files(unpack(name, tmp_path).path):
        check_footer(path)
