"""The rows of the write benchmark, and a fingerprint that two readers can both compute.

``make_input`` writes the rows to be inserted and the updates as Parquet; every peer starts from
those files. ``expected_rows`` says what a table must hold afterwards, without any table: an update
wins when it is not older than the row that it meets. ``fingerprint`` (Arrow) and
``FINGERPRINT_SQL`` (Spark) sum each column weighted by the row's key, in whole numbers: rows that
are missing, doubled or swapped change it, the order of rows does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CITIES = ["cairo", "hanoi", "lima", "oslo"]
WORDS = ["plain", "gift wrap, call before", "fragile", "zwölf ☂", None]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("amount", pa.float64()),
        ("count", pa.int32()),
        ("note", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
INSERTED_TS = 100
_MODULUS = 1_000_003
_SCRAMBLE = 6_364_136_223_846_793_005
_KEY_SPACE = (1 << 53) - 1

_WEIGHT_SQL = f"(cast(substr(id, 5) as bigint) % {_MODULUS})"
FINGERPRINT_SQL = {
    "rows": "count(*)",
    "id": f"sum({_WEIGHT_SQL})",
    "ts": f"sum({_WEIGHT_SQL} * ts)",
    "city": f"sum({_WEIGHT_SQL} * ascii(city))",
    "amount": f"sum({_WEIGHT_SQL} * cast(amount * 64 as bigint))",
    "count": f"sum({_WEIGHT_SQL} * count)",
    "note": f"sum({_WEIGHT_SQL} * coalesce(length(note), 99))",
    "day": f"sum({_WEIGHT_SQL} * datediff(day, date'1970-01-01'))",
    "at": f"sum({_WEIGHT_SQL} * (unix_micros(at) % {_MODULUS}))",
}


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Where the input of all peers lies."""

    rows: Path
    updates: Path


def make_input(folder: Path, *, rows: int, updates: int, files: int = 4) -> InputFiles:
    """Write both inputs as folders of Parquet files, each with rows of every partition."""
    made = InputFiles(folder / "rows", folder / "updates")
    for place, numbers, is_update in (
        (made.rows, np.arange(rows), False),
        (made.updates, _chosen(rows, updates), True),
    ):
        place.mkdir(parents=True)
        for part, own in enumerate(np.array_split(numbers, files)):
            table = _rows(own, is_update=is_update)
            pq.write_table(table, place / f"part-{part}.parquet", compression="zstd")
    return made


def expected_rows(rows: int, updates: int) -> dict[str, int]:
    """Return the fingerprint of a table after the insert and the updates."""
    changes = _rows(_chosen(rows, updates), is_update=True)
    wins = pc.greater_equal(changes["ts"], INSERTED_TS)
    won = _chosen(rows, updates)[wins.to_numpy()]
    kept = np.setdiff1d(np.arange(rows), won)
    return fingerprint(
        [*_rows(kept, is_update=False).to_batches(), *changes.filter(wins).to_batches()]
    )


def fingerprint(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Return the row count and, of each column, its sum weighted by key."""
    sums = dict.fromkeys(FINGERPRINT_SQL, 0)
    for batch in batches:
        number = pc.utf8_slice_codeunits(batch["id"], 4).cast(pa.int64())
        weight = number.to_numpy(zero_copy_only=False) % _MODULUS
        sums["rows"] += batch.num_rows
        sums["id"] += int(weight.sum())
        for name, values in _whole_numbers(batch).items():
            sums[name] += int((weight * values).sum())
    return sums


def _whole_numbers(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    first_letters = pc.dictionary_encode(
        pc.utf8_slice_codeunits(batch["city"].cast(pa.string()), 0, 1)
    )
    letters = np.array([ord(one) for one in first_letters.dictionary.to_pylist()], np.int64)
    lengths = pc.fill_null(pc.utf8_length(batch["note"]), 99)
    micros = batch["at"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return {
        "ts": batch["ts"].to_numpy(),
        "city": letters[first_letters.indices.to_numpy()],
        "amount": (batch["amount"].to_numpy() * 64).astype(np.int64),
        "count": batch["count"].to_numpy().astype(np.int64),
        "note": lengths.to_numpy(zero_copy_only=False).astype(np.int64),
        "day": batch["day"].cast(pa.int32()).to_numpy().astype(np.int64),
        "at": micros.to_numpy() % _MODULUS,
    }


def _chosen(rows: int, updates: int) -> np.ndarray:
    """Return which rows are updated: spread over the whole table."""
    return np.random.default_rng(1).choice(rows, min(rows, updates), replace=False)


def _rows(numbers: np.ndarray, *, is_update: bool) -> pa.Table:
    """Return the rows of these numbers; a number gives the same row whoever asks.

    Keys are scrambled, so that every file spans all of them, as with random identifiers. A fifth
    of the updates is older than the row that it meets, and loses.
    """
    keys = (numbers.astype(np.uint64) * np.uint64(_SCRAMBLE) + np.uint64(17)) & np.uint64(
        _KEY_SPACE
    )
    seeds = keys ^ (np.uint64(0x5DEECE66D) if is_update else np.uint64(0))
    first, second = _mixed(seeds), _mixed(seeds + np.uint64(1))
    text = pc.utf8_lpad(pa.array(keys.astype(np.int64)).cast(pa.string()), width=16, padding="0")
    late = (second % np.uint64(5)).astype(np.int64) - 1
    words = pa.array(WORDS).take(pa.array((first % np.uint64(5)).astype(np.int64)))
    suffix = pa.array((second % np.uint64(9973)).astype(np.int64)).cast(pa.string())
    return pa.Table.from_arrays(
        [
            pc.binary_join_element_wise("key", text, "-"),
            pa.array(INSERTED_TS + (late if is_update else np.zeros(len(keys), np.int64))),
            pa.array(CITIES).take(pa.array((_mixed(keys) % np.uint64(4)).astype(np.int64))),
            pa.array((first % np.uint64(64_000)).astype(np.float64) / 64),
            pa.array((second % np.uint64(1000)).astype(np.int32)),
            pc.binary_join_element_wise(words, suffix, " "),
            pa.array((first % np.uint64(20_000)).astype(np.int32)).cast(pa.date32()),
            pa.array((second % np.uint64(10**15)).astype(np.int64)).cast(
                pa.timestamp("us", tz="UTC")
            ),
        ],
        schema=SCHEMA,
    )


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return well-mixed 64-bit numbers of these (the finisher of SplitMix64)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
