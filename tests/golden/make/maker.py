"""What every golden script works with: one table, written by Java, and what Java read of it.

A `Maker` lives in the child process of `java_hudi`. Its state is on disk (`/tmp/lakehand-golden`),
because some tables pass through several children: an upgrade needs two bundles, a killed writer
needs a child to kill. The folder is fixed, since plans of Hudi hold absolute paths: a second run
on another machine writes the same ones.

After every step `remember()` keeps the snapshot Java returns at that moment, so that the time
travel recorded at the end is itself judged: `matches_live` says whether it agrees.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from jvm_worker import Session

_numbers = itertools.count()
ROOT = Path("/tmp/lakehand-golden")
DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
TRIP = "id string, ts long, city string, amount decimal(9,2), note string"
CITIES = ("amsterdam", "berlin", "cairo")
WRITES = ("commit", "deltacommit", "replacecommit")

TABLE_NAME = "hoodie.table.name"
KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
KEYGEN = "hoodie.datasource.write.keygenerator.class"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
URLENCODE = "hoodie.datasource.write.partitionpath.urlencode"
PAYLOAD = "hoodie.datasource.write.payload.class"
MERGE_MODE = "hoodie.write.record.merge.mode"
METADATA = "hoodie.metadata.enable"
COLUMN_STATS = "hoodie.metadata.index.column.stats.enable"
PARTITION_STATS = "hoodie.metadata.index.partition.stats.enable"


def trips(
    ids: Iterable[int], ts: int, *, cities: Sequence[str] = CITIES, note: str | None = None
) -> list[dict[str, Any]]:
    """Rows of the usual schema; the same arguments give the same rows."""
    rows = []
    for number in ids:
        chance = random.Random(number * 1_000_003 + ts)
        rows.append(
            {
                "id": f"k{number:03d}",
                "ts": ts,
                "city": cities[number % len(cities)],
                "amount": f"{chance.randrange(-999_999_999, 999_999_999) / 100:.2f}",
                "note": note if note is not None else chance.choice([None, "", "plain", "zwölf ☂"]),
            }
        )
    return rows


@dataclass(slots=True)
class Maker:
    session: Session
    name: str
    bundle: str
    version: int
    kind: str
    options: dict[str, str] = field(default_factory=dict)
    moments: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    # -- where things are -------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def path(self) -> str:
        return str(self.folder / "table")

    @property
    def hoodie(self) -> Path:
        return Path(self.path) / ".hoodie"

    @property
    def timeline_folder(self) -> Path:
        modern = self.hoodie / "timeline"
        return modern if modern.is_dir() else self.hoodie

    @property
    def is_mor(self) -> bool:
        return self.kind == "mor"

    # -- state between children ----------------------------------------------------------------

    @classmethod
    def begin(cls, session: Session, *, name: str, bundle: str, version: int, kind: str) -> Maker:
        folder = ROOT / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "live").mkdir(parents=True)
        maker = cls(session, name, bundle, version, kind)
        maker.options = {
            TABLE_NAME: name,
            "hoodie.datasource.write.table.type": (
                "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
            ),
            KEY: "id",
            ORDERING: "ts",
            PARTITION: "city",
            "hoodie.insert.shuffle.parallelism": "1",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.bulkinsert.shuffle.parallelism": "1",
            "hoodie.delete.shuffle.parallelism": "1",
            "hoodie.simple.index.parallelism": "1",
            "hoodie.bloom.index.parallelism": "1",
            "hoodie.finalize.write.parallelism": "1",
            "hoodie.cleaner.parallelism": "1",
            "hoodie.rollback.parallelism": "1",
            "hoodie.file.listing.parallelism": "1",
            "hoodie.archive.delete.parallelism": "1",
            # Version 6 and later compact a batch writer's table inline unless told otherwise.
            "hoodie.compact.inline": "false",
            # Statistics are most of a small table's bytes: a few themes turn them on again.
            COLUMN_STATS: "false",
            PARTITION_STATS: "false",
        }
        if bundle == "0.15.0":
            maker.options[PAYLOAD] = DEFAULT_PAYLOAD
        if bundle != "0.15.0":
            # One writer, one clock: no need to wait 200 ms for every instant.
            maker.options["hoodie.time.generator.max_expected_clock_skew_ms"] = "5"
        if bundle == "1.2.0" and version != 9:
            maker.options["hoodie.write.table.version"] = str(version)
            maker.options["hoodie.write.auto.upgrade"] = "false"
        return maker

    @classmethod
    def resume(cls, session: Session, name: str) -> Maker:
        state = json.loads((ROOT / name / "state.json").read_text())
        return cls(session, **state)

    def save(self) -> None:
        names = ("name", "bundle", "version", "kind", "options", "moments", "faults", "notes")
        state = {key: getattr(self, key) for key in names}
        (self.folder / "state.json").write_text(json.dumps(state))

    # -- steps ------------------------------------------------------------------------------------

    def set(self, options: dict[str, str | None]) -> None:
        for key, value in options.items():
            if value is None:
                self.options.pop(key, None)
            else:
                self.options[key] = value

    def frame(self, rows: list[dict[str, Any]], schema: str = TRIP) -> Any:
        """Rows in the order given, in one partition, through a Parquet file.

        Python rows would need Python workers, which cost more than the rest of a write.
        """
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import _parse_datatype_string

        kind = _parse_datatype_string(schema)
        arrow = to_arrow_schema(kind)
        columns = [
            pa.array(
                [_arrow_value(row.get(f.name), f.dataType) for row in rows],
                arrow.field(f.name).type,
            )
            for f in kind.fields
        ]
        file = self.folder / f"rows-{next(_numbers)}.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=arrow), file)
        return self.session.spark.read.schema(kind).parquet(str(file)).coalesce(1)

    def write(
        self,
        rows: list[dict[str, Any]],
        operation: str = "upsert",
        *,
        schema: str = TRIP,
        mode: str = "append",
        keep: bool = True,
        **more: str,
    ) -> None:
        """One data source write; dots of option names are `__` in `more`."""
        options = {**self.options, **{k.replace("__", "."): v for k, v in more.items()}}
        writer = self.frame(rows, schema).write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(self.path)
        if keep:
            self.remember()

    def fail_write(self, rows: list[dict[str, Any]], operation: str = "upsert", **more: str) -> str:
        """A write that writes its data and then fails before its commit: the way Java leaves it."""
        validator = "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator"
        before = set(self.instants())
        try:
            self.write(
                rows,
                operation,
                keep=False,
                hoodie__precommit__validators=validator,
                hoodie__precommit__validators__single__value__sql__queries=(
                    "select count(*) from <TABLE_NAME>#987654321"
                ),
                **more,
            )
        except Exception as expected:
            self.notes.append(f"failed write: {type(expected).__name__}")
        else:
            raise AssertionError("the write should have failed")
        left = sorted(set(self.instants()) - before)
        return left[-1][0] if left else ""

    def crc_files(self, wanted: bool) -> None:
        """Whether Hadoop leaves `.crc` files beside what it writes to the local disk."""
        jvm = self.session.spark._jvm
        conf = self.session.spark._jsc.hadoopConfiguration()
        uri = jvm.java.net.URI("file:///")
        jvm.org.apache.hadoop.fs.FileSystem.get(uri, conf).setWriteChecksum(wanted)

    def sql(self, text: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.session.spark.sql(text).collect()]

    def call(self, procedure: str, **arguments: str) -> list[dict[str, Any]]:
        inside = ", ".join(f"{k} => {v}" for k, v in arguments.items())
        return self.sql(f"call {procedure}({inside})")

    def catalog(self) -> str:
        """The table's name in Spark's catalog, for what only SQL offers."""
        self.sql(f"create table if not exists {self.name} using hudi location '{self.path}'")
        return self.name

    def compact(self, step: str, keep: bool = True) -> None:
        """`schedule`, `run` (a pending plan) or `both`."""
        if step in ("schedule", "both"):
            self.call(
                "run_compaction",
                op="'schedule'",
                path=f"'{self.path}'",
                options=f"'{self._service_options('hoodie.compact.inline.max.delta.commits=1')}'",
            )
        if step in ("run", "both"):
            self.call(
                "run_compaction",
                op="'run'",
                path=f"'{self.path}'",
                options=f"'{self._service_options()}'",
            )
        if keep:
            self.remember()

    def cluster(self, step: str, order: str = "amount", keep: bool = True) -> None:
        arguments = {"path": f"'{self.path}'", "options": f"'{self._service_options()}'"}
        if step in ("schedule", "both"):
            arguments["order"] = f"'{order}'"
        if step != "both":
            arguments["op"] = f"'{'execute' if step == 'run' else step}'"
        self.call("run_clustering", **arguments)
        if keep:
            self.remember()

    def _service_options(self, more: str = "") -> str:
        keep = [more] if more else []
        for key in ("hoodie.write.table.version", "hoodie.write.auto.upgrade", METADATA):
            if key in self.options:
                keep.append(f"{key}={self.options[key]}")
        keep += [
            f"{k}={v}" for k, v in self.options.items() if k.startswith("hoodie.metadata.index")
        ]
        return ",".join(keep)

    # -- what is there ---------------------------------------------------------------------------

    def instants(self) -> list[tuple[str, str]]:
        """(time, rest of the name) of every timeline file, oldest first."""
        found = []
        for file in self.timeline_folder.iterdir():
            match = re.fullmatch(r"(\d{17})(_\d{17})?\.(.+)", file.name)
            if match:
                found.append((match[1], ("_" if match[2] else "") + match[3]))
        return sorted(found)

    def completed(self) -> list[str]:
        modern = self.timeline_folder.name == "timeline"
        wanted = {("_" if modern else "") + action for action in WRITES}
        return [time for time, rest in self.instants() if rest in wanted]

    def pending(self) -> list[str]:
        done = {time for time, rest in self.instants() if "." not in rest and rest != "inflight"}
        return sorted({time for time, _ in self.instants()} - done)

    # -- what Java reads -------------------------------------------------------------------------

    def remember(self) -> None:
        """Keep the snapshot of this moment under the newest completed instant."""
        done = self.completed()
        if not done:
            return
        number = len(list((self.folder / "live").iterdir()))
        table = self.session.read_arrow(self.path)
        pq.write_table(table, self.folder / "live" / f"{number}.parquet")
        moment = {"instant": done[-1], "file": f"{number}.parquet", "rows": table.num_rows}
        if self.moments and self.moments[-1]["instant"] == done[-1]:
            self.moments.pop()
        self.moments.append(moment)

    def finish(self, *, instants: Sequence[str] | None = None, options: dict | None = None) -> dict:
        """Read now and at three earlier instants; returns what goes into meta.json."""
        expected = self.folder / "expected"
        shutil.rmtree(expected, ignore_errors=True)
        expected.mkdir()
        reads = [self._record(None, options or {})]
        for instant in instants or self.choose():
            reads.append(self._record(instant, options or {}))
        return {"reads": reads, "known_fault": self.faults, "notes": self.notes}

    def choose(self) -> list[str]:
        """Three instants spread over what came before the last one."""
        earlier = [m["instant"] for m in self.moments]
        earlier = list(dict.fromkeys(earlier))[:-1]
        if len(earlier) <= 3:
            return earlier
        return [earlier[0], earlier[len(earlier) // 2], earlier[-1]]

    def _live(self, instant: str | None) -> pa.Table | None:
        if instant is None and self.moments:
            return pq.read_table(self.folder / "live" / self.moments[-1]["file"])
        for moment in self.moments:
            if moment["instant"] == instant:
                return pq.read_table(self.folder / "live" / moment["file"])
        return None

    def _record(self, instant: str | None, options: dict[str, str]) -> dict[str, Any]:
        name = f"{instant or 'now'}.parquet"
        live = self._live(instant)
        record: dict[str, Any] = {"as_of": instant, "file": name, "source": "java"}
        try:
            table = self.session.read_arrow(self.path, instant, options)
        except Exception as error:
            if live is None:
                raise
            self.faults.append({"as_of": instant or "now", "java_error": str(error)[:400]})
            record["source"] = "java, at the time"
            table = live
        if instant is not None:
            odd = ["nothing was kept of that moment"] if live is None else difference(table, live)
            record["matches_live"] = not odd
            if odd:
                record["differs_from_live"] = odd
        record["rows"] = table.num_rows
        pq.write_table(table, self.folder / "expected" / name, compression="zstd")
        return record


def _arrow_value(value: Any, kind: Any) -> Any:
    """Spark's Python values as Arrow takes them: structs by name, decimals also from text."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if value is None:
        return None
    if isinstance(kind, StructType):
        return {
            f.name: _arrow_value(v, f.dataType) for f, v in zip(kind.fields, value, strict=True)
        }
    if isinstance(kind, ArrayType):
        return [_arrow_value(v, kind.elementType) for v in value]
    if isinstance(kind, MapType):
        return [(k, _arrow_value(v, kind.valueType)) for k, v in value.items()]
    if isinstance(kind, DecimalType):
        return Decimal(value)
    return bytes(value) if isinstance(value, bytearray) else value


def comparable(table: pa.Table, columns: Sequence[str]) -> list[str]:
    return sorted(repr(list(row.values())) for row in table.select(columns).to_pylist())


def difference(travel: pa.Table, live: pa.Table) -> list[str]:
    """Some rows that only one of the two has; none when they are equal.

    The file name is left out, because services change it, and so are columns added later.
    """
    columns = [
        c for c in travel.column_names if c in live.column_names and c != "_hoodie_file_name"
    ]
    then, now = comparable(live, columns), comparable(travel, columns)
    lost = [f"only then: {row}" for row in (Counter(then) - Counter(now))]
    extra = [f"only in the time travel: {row}" for row in (Counter(now) - Counter(then))]
    return lost[:2] + extra[:2]


# -- the catalog of themes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    script: str
    kinds: tuple[str, ...]
    flavours: tuple[str, ...]
    features: tuple[str, ...]
    about: str
    stages: tuple[Callable[[Maker], Any], ...]
    read_options: dict[str, str]
    known_fault: dict[str, str]
    crc: bool
    metadata: bool
    refused: str | None
    single: tuple[str, ...]


THEMES: dict[str, Theme] = {}
FLAVOURS = {
    # name → (bundle, table version)
    "v9": ("1.2.0", 9),
    "v8": ("1.0.2", 8),
    "v6": ("0.15.0", 6),
    "v8by12": ("1.2.0", 8),
    "v6by12": ("1.2.0", 6),
}
ALL = ("v9", "v8", "v6")
MODERN = ("v9", "v8")


def theme(
    name: str,
    *,
    kinds: tuple[str, ...] = ("cow", "mor"),
    flavours: tuple[str, ...] = ALL,
    features: tuple[str, ...] = (),
    read_options: dict[str, str] | None = None,
    known_fault: dict[str, str] | None = None,
    crc: bool = False,
    metadata: bool = True,
    refused: str | None = None,
    single: tuple[str, ...] = (),
) -> Callable[[Callable[[Maker], Any]], Callable[[Maker], Any]]:
    """Enter a function into the catalog; its first docstring line becomes `about`.

    `refused` is a pattern for the message with which Lakehand must refuse the table.
    In the flavours of `single` (and in the hybrids) only the last kind is made.
    """

    def enter(function: Callable[[Maker], Any]) -> Callable[[Maker], Any]:
        assert name not in THEMES, name
        assert function.__doc__, name
        THEMES[name] = Theme(
            name=name,
            script=f"{function.__module__}.py",
            kinds=kinds,
            flavours=flavours,
            features=features,
            about=function.__doc__.strip().splitlines()[0],
            stages=(function,),
            read_options=read_options or {},
            known_fault=known_fault or {},
            crc=crc,
            metadata=metadata,
            refused=refused,
            single=(*single, "v8by12", "v6by12"),
        )
        return function

    return enter


def make(session: Session, theme: str, flavour: str, kind: str) -> dict[str, Any]:
    """Called in the child: build one table of one theme, and read it."""
    import themes  # noqa: F401  (fills the catalog)

    bundle, version = FLAVOURS[flavour]
    found = THEMES[theme]
    maker = Maker.begin(
        session, name=f"{flavour}_{kind}_{theme}", bundle=bundle, version=version, kind=kind
    )
    maker.crc_files(found.crc)
    if not found.metadata:
        # Cheaper by half; these writers also keep their markers as single files.
        maker.set({METADATA: "false", "hoodie.embed.timeline.server": "false"})
    for stage in found.stages:
        instants = stage(maker)
    maker.save()
    return maker.finish(instants=instants, options=found.read_options)
