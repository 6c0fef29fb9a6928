"""The golden tables are complete: every theme for every table version, or the reason why not."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).resolve().parent
MAKE = HERE / "make"

from golden import GOLDEN, golden_names, read_meta, unpack  # noqa: E402

VERSIONS = ("v9", "v8", "v6")

WHY_NOT = {
    ("several_orderings", "v8"): "several ordering fields came with table version 9",
    ("several_orderings", "v6"): "several ordering fields came with table version 9",
    ("merge_into", "v6"): "partial-update blocks came with table version 8",
    ("list_nulls", "v8"): "only 1.2.0's row writer makes three-level lists",
    ("list_nulls", "v6"): "only 1.2.0's row writer makes three-level lists",
    ("schema_on_read", "v6"): "0.15.0 cannot read its own table after the renames",
    **{
        (theme, "v8"): "the same files as version 9's, which is there"
        for theme in (
            "all_indexes",
            "bloom_filters",
            "clean_versions",
            "codecs",
            "no_meta_fields",
            "odd_hive_partitions",
            "operation_field",
            "raw_partitions",
            "schema_on_read",
            "small_ints",
        )
    },
}
"""Themes that a table version deliberately lacks."""

FEWER_READS = {
    "clean_versions": "cleaning keeps two versions: one earlier instant can still be read",
}
"""Themes with fewer than three earlier instants."""


@pytest.fixture(scope="module")
def scripts():
    """The catalog that the scripts themselves register (no JVM, no Spark)."""
    sys.path.insert(0, str(MAKE))
    try:
        import make

        yield make
    finally:
        sys.path.remove(str(MAKE))


def wanted(scripts) -> set[str]:
    names = {special.name for special in scripts.special.catalog()}
    for bundle in ("1.2.0", "1.0.2", "0.15.0"):
        names |= {f"{flavour}_{kind}_{theme}" for theme, flavour, kind in scripts.jobs(bundle, [])}
    return names


def test_the_folder_holds_exactly_what_the_scripts_make(scripts):
    have, want = set(golden_names()), wanted(scripts)
    assert sorted(want - have) == []
    assert sorted(have - want) == []


def test_every_theme_is_there_for_every_table_version_or_says_why_not(scripts):
    have = set(golden_names())
    silent = [
        (theme.name, version)
        for theme in scripts.THEMES.values()
        for version in VERSIONS
        if not any(f"{version}_{kind}_{theme.name}" in have for kind in ("cow", "mor"))
        and (theme.name, version) not in WHY_NOT
    ]
    assert silent == []


def test_no_reason_outlives_its_gap():
    have = {tuple(name.split("_", 2)[::2]) for name in golden_names()}
    assert [key for key in WHY_NOT if (key[1], key[0]) in have] == []


@pytest.mark.parametrize("name", golden_names())
def test_a_table_says_who_made_it_and_what_java_read(name):
    meta = read_meta(name)
    assert meta["name"] == name
    assert meta["bundle"] in ("1.2.0", "1.0.2", "0.15.0")
    assert meta["table_version"] in (6, 8, 9)
    assert meta["features"]
    assert meta["about"]
    assert (GOLDEN.parent.parent / meta["script"]).is_file()
    reads = meta["reads"]
    assert reads[0]["as_of"] is None
    earlier = {read["as_of"] for read in reads if read["as_of"] is not None}
    assert len({(read["as_of"], read["source"]) for read in reads}) == len(reads)
    assert len(earlier) >= 3 or (earlier and meta["theme"] in FEWER_READS)
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        names = archive.namelist()
        assert "table/.hoodie/hoodie.properties" in names
        for read in reads:
            rows = pq.read_metadata(io.BytesIO(archive.read(f"expected/{read['file']}"))).num_rows
            assert rows == read["rows"]
            assert read["source"] in ("java", "java 1.2.0", "java, at the time", "model")


def test_the_tables_together_stay_small():
    assert sum(file.stat().st_size for file in GOLDEN.glob("*.zip")) < 16_000_000


@pytest.mark.parametrize("hostile", ["../outside", "/etc/outside", "table/../../outside"])
def test_a_zip_cannot_write_outside_its_folder(tmp_path, monkeypatch, hostile):
    monkeypatch.setattr("golden.GOLDEN", tmp_path)
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("expected/meta.json", json.dumps({"reads": []}))
        archive.writestr(hostile, b"x")
    target = tmp_path / "unpacked"
    target.mkdir()
    with pytest.raises(ValueError, match="unsafe name"):
        unpack("evil", target)
    assert not (tmp_path / "outside").exists()


def test_empty_folders_come_out_of_the_zip(tmp_path):
    for name in golden_names()[:1]:
        table = unpack(name, tmp_path)
        assert (table.path / ".hoodie" / ".aux").is_dir()
