"""The golden tables: Hudi tables that Java made, and what Java itself read from them.

    for name in golden_names():
        table = unpack(name, tmp_path)
        for read in table.reads:
            compare(read.as_of, read.expected)

`tests/golden/README.md` says what the tables are and which answers of Java are not to be believed.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@dataclass(frozen=True, slots=True)
class GoldenRead:
    """One read by Java, as it came: its columns and order, the five meta columns included."""

    as_of: str | None
    """The instant given to Java as `as.of.instant`; None for the newest snapshot."""
    expected: pa.Table
    source: str
    """`java` (the bundle that made the table), `java 1.2.0` (the newest one, where it differs),
    `java, at the time` (rows it returned then and cannot travel to), or `model` (Java's rows with
    a column put right by the script that wrote it)."""
    matches_live: bool | None
    """Whether the time travel returned what the snapshot was when that instant was newest."""
    fault: str | None
    """Why `expected` is not what a correct reader returns; None when it is."""


@dataclass(frozen=True, slots=True)
class GoldenTable:
    name: str
    path: Path
    meta: dict[str, Any]
    reads: tuple[GoldenRead, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(self.meta["features"])


def golden_names() -> list[str]:
    return sorted(file.stem for file in GOLDEN.glob("*.zip") if not file.name.startswith("."))


def read_meta(name: str) -> dict[str, Any]:
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        meta: dict[str, Any] = json.loads(archive.read("expected/meta.json"))
    return meta


def unpack(name: str, tmp_path: Path) -> GoldenTable:
    """Unpack one table below `tmp_path/<name>`; a second call there is an error."""
    folder = tmp_path / name
    folder.mkdir()
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        for entry in archive.infolist():
            target = folder / _safe(entry.filename)
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))
    meta = json.loads((folder / "expected" / "meta.json").read_text())
    reads = tuple(_read(folder / "expected", record) for record in meta["reads"])
    return GoldenTable(name=name, path=folder / "table", meta=meta, reads=reads)


def _read(folder: Path, record: dict[str, Any]) -> GoldenRead:
    return GoldenRead(
        as_of=record["as_of"],
        expected=pq.read_table(folder / record["file"], partitioning=None),
        source=record["source"],
        matches_live=record.get("matches_live"),
        fault=record.get("fault"),
    )


def _safe(inside: str) -> PurePosixPath:
    """Refuse a name that would leave the folder."""
    path = PurePosixPath(inside)
    if path.is_absolute() or ".." in path.parts or "\\" in inside or not path.parts:
        raise ValueError(f"unsafe name in zip: {inside!r}")
    return path
