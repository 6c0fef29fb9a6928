"""The readers that judge a written table: ours, hudi-rs, and Java, each against the model.

A judge answers snapshot, time travel and incremental queries as plain rows. Times are given as the
model's commits: each judge knows which of a commit's two times its reader wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

from hudi_rs import HudiRsFailed
from lakehand.table import Table
from write_model import Model, Visible, differences
from write_rows import PARTITION_PATH, RECORD_KEY, Row, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from java_hudi import JavaHudi


class Judge(Protocol):
    """A reader of one table."""

    name: str

    def snapshot(self) -> list[Row]: ...

    def as_of(self, time: str) -> list[Row]: ...

    def changed(self, begin: str, end: str) -> list[Row]:
        """The rows changed after ``begin`` (or ``earliest``) and up to ``end``."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Lakehand without a JVM, opened anew for each query."""

    uri: str
    storage_options: Mapping[str, Any] | None = None
    name: str = "Lakehand"

    def snapshot(self) -> list[Row]:
        return rows_of(self._reader().snapshot())

    def as_of(self, time: str) -> list[Row]:
        return rows_of(self._reader().as_of(time))

    def changed(self, begin: str, end: str) -> list[Row]:
        return rows_of(self._reader().incremental(begin, end))

    def _reader(self) -> Any:
        return Table.open(self.uri, self.storage_options).read()


@dataclass(frozen=True, slots=True)
class HudiRs:
    folder: Path | str
    storage_options: Mapping[str, str] | None = None
    """In the names of Rust's ``object_store``."""
    name: str = "hudi-rs"

    def snapshot(self) -> list[Row]:
        return self._read(HudiReadOptions())

    def as_of(self, time: str) -> list[Row]:
        return self._read(HudiReadOptions().with_as_of_timestamp(time))

    def changed(self, begin: str, end: str) -> list[Row]:
        options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
        options = options.with_start_timestamp("0" * 17 if begin == "earliest" else begin)
        return self._read(options.with_end_timestamp(end))

    def _read(self, options: HudiReadOptions) -> list[Row]:
        builder = HudiTableBuilder.from_base_uri(str(self.folder))
        try:
            if self.storage_options is not None:
                builder = builder.with_storage_options(dict(self.storage_options))
            batches = builder.build().read(options)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic is no Exception
            raise HudiRsFailed(f"{type(error).__name__}: {error}") from error
        return rows_of(pa.Table.from_batches(batches)) if batches else []


@dataclass(frozen=True, slots=True)
class Java:
    java: JavaHudi
    folder: Path | str
    name: str = "Java"

    def snapshot(self) -> list[Row]:
        return _rows(self.java.read(self.folder))

    def as_of(self, time: str) -> list[Row]:
        return _rows(self.java.read(self.folder, as_of=time))

    def changed(self, begin: str, end: str) -> list[Row]:
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": "000" if begin == "earliest" else begin,
            "hoodie.datasource.read.end.instanttime": end,
        }
        return _rows(self.java.read(self.folder, options=options))


def _rows(found: pa.Table) -> list[Row]:
    return rows_of(found) if found.num_columns else []


def judge_snapshot(model: Model, judges: Iterable[Judge]) -> None:
    expected = model.visible()
    for judge in judges:
        _require_same(expected, judge.snapshot(), f"{judge.name}, snapshot of {model.kind}")


def judge_past(model: Model, judges: Iterable[Judge], numbers: Iterable[int]) -> None:
    """Time travel to these commits (of one writer: the first is 1)."""
    judges = list(judges)
    for number in numbers:
        time = model.commits[number - 1].time
        for judge in judges:
            what = f"{judge.name}, {model.kind} as of commit {number} ({time})"
            _require_same(model.as_of(number), judge.as_of(time), what)


def judge_changes(model: Model, judges: Iterable[Judge], ranges: Iterable[tuple[int, int]]) -> None:
    """Incremental queries from after one commit (0: from the beginning) up to another."""
    judges = list(judges)
    for begin, end in ranges:
        for judge in judges:
            what = f"{judge.name}, changes of {model.kind} in ({begin}, {end}]"
            found = judge.changed(model.moment(begin), model.moment(end))
            expected = model.changed(begin, end)
            is_foreign = isinstance(judge, Java | HudiRs)
            if is_foreign and model.kind.merge_on_read and model.kind.event_time:
                found = _without_late(found, expected, model.as_of(end))
            _require_same(expected, found, what)


def _without_late(found: list[Row], changed: Visible, visible: Visible) -> list[Row]:
    """Leave out rows that came too late to count.

    Incremental queries of Java and hudi-rs read no base file from before their range, so that a
    logged row does not meet the one that it lost to. Ours does.
    """
    return [
        row
        for row in found
        if (one := (row[PARTITION_PATH], row[RECORD_KEY])) in changed or one not in visible
    ]


def _require_same(expected: Visible, found: list[Row], what: str) -> None:
    problems = differences(expected, found)
    assert not problems, "\n  ".join([f"{what}:", *problems])
