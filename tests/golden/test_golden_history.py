"""What left the timelines of the golden tables: read whole, and written again, equal."""

import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden import golden_names, unpack
from lakehand.core.instants import State
from lakehand.formats import archived_timeline, log_file, lsm_timeline
from lakehand.protocol.lsm_snapshot import load, read
from lakehand.store.local import LocalStore


def archives(table: Path) -> list[Path]:
    return [
        path
        for path in sorted(table.rglob(".commits_.archive.*"))
        if archived_timeline.parse_archive_file(path.name)
    ]


def histories(table: Path) -> list[Path]:
    return sorted(path.parent for path in table.rglob("history/_version_"))


def java_records(content: bytes) -> list[dict[str, object]]:
    """The entries as their own schema gives them, without anything of ours in between."""
    found = []
    for block in log_file.read_blocks(content, where="archive"):
        schema, body = fastavro.parse_schema(json.loads(block.schema)), io.BytesIO(block.read())
        count = int.from_bytes(body.read(8)[4:])
        for _ in range(count):
            record = io.BytesIO(body.read(int.from_bytes(body.read(4))))
            found.append(fastavro.schemaless_reader(record, schema))
    return found


def holds(ours: object, theirs: object) -> bool:
    """Whether a document of ours has all that Java's has; later fields may come on top."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(holds(ours.get(key), value) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(holds, ours, theirs))
    return ours == theirs


def check_archive(path: Path) -> int:
    content = path.read_bytes()
    ours = list(archived_timeline.read_entries(content, where=path.name))
    theirs = java_records(content)
    for entry, record in zip(ours, theirs, strict=True):
        assert (entry.time, entry.action.value) == (record["commitTime"], record["actionType"])
        assert entry.state is State[record["actionState"]]
        assert entry.state_time == record["stateTransitionTime"]
        field = entry.document and entry.document.value
        assert [d for d in archived_timeline.Document if record.get(d.value) is not None] == (
            [entry.document] if entry.document else []
        )
        if field is not None:
            assert holds(entry.content, record[field])
    again = archived_timeline.encode_block(ours)
    assert list(archived_timeline.read_entries(again, where="again")) == ours
    return len(ours)


def check_history(folder: Path, base: Path) -> int:
    store = LocalStore(str(base))
    history = load(store, folder.relative_to(base).as_posix())
    manifest = (folder / f"manifest_{history.number}").read_bytes()
    assert lsm_timeline.encode_manifest(history.manifest) == manifest
    total = 0
    for listed in history.manifest.files:
        path = folder / str(listed.name)
        assert path.stat().st_size == listed.size
        rows = pq.read_table(path, partitioning=None).to_pylist()
        with pa.memory_map(str(path)) as file:
            ours = list(lsm_timeline.read_entries(file, where=path.name))
        assert [
            (e.time, e.completion_time, e.action.value, e.metadata, e.plan, 1) for e in ours
        ] == [tuple(row.values()) for row in rows]
        assert {ours[0].time, ours[-1].time} == {listed.name.first, listed.name.last}
        sink = io.BytesIO()
        lsm_timeline.write_entries(sink, ours)
        again = pq.read_table(io.BytesIO(sink.getvalue()))
        assert again.to_pylist() == rows
        total += len(rows)
    entries = list(read(store, history))
    assert len(entries) == total
    assert entries == sorted(entries, key=lambda entry: entry.key)
    return total


@pytest.mark.parametrize("name", golden_names())
def test_what_left_the_timeline_is_read_whole_and_survives_writing(name, tmp_path):
    table = unpack(name, tmp_path).path
    for path in archives(table):
        assert check_archive(path) > 0
    for folder in histories(table):
        assert check_history(folder, table) > 0
