"""Broken neighbours of footers and history: a typed error or a value, never worse."""

import base64
import io

import pyarrow as pa

from fuzzing import assert_survives
from lakehand.core.instants import Action, State
from lakehand.formats import archived_timeline, bloom, log_file, lsm_timeline
from lakehand.formats.archived_timeline import ArchivedInstant, Document
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.bloom import BloomKind, BloomSettings
from lakehand.formats.lsm_timeline import HistoryEntry, HistoryFile, HistoryFileName, Manifest

TARGETS = "fuzz_targets_history"
TIME = "20240101000000000"
COMMIT = {
    "partitionToWriteStats": {"p": [{"fileId": "f", "numWrites": 3}]},
    "extraMetadata": {"schema": "{}"},
    "operationType": "UPSERT",
}
ARCHIVE = archived_timeline.encode_block(
    [
        ArchivedInstant(TIME, Action.COMMIT, State.REQUESTED, TIME),
        ArchivedInstant(TIME, Action.COMMIT, State.COMPLETED, TIME, Document.COMMIT, COMMIT),
    ]
)


def filter_of(kind, entries):
    made = BloomSettings(kind, entries=entries, false_positive_rate=0.1, max_entries=9)
    return bloom.build(pa.array([f"key{n}" for n in range(7)]), made).to_footer()


def base_file(codec):
    schema = pa.schema(
        [
            ("_hoodie_record_key", pa.string()),
            ("_hoodie_commit_time", pa.string()),
            ("tags", pa.list_(pa.struct([("x", pa.int32())]))),
        ]
    )
    rows = [
        {"_hoodie_record_key": f"k{n}", "_hoodie_commit_time": TIME, "tags": [{"x": n}, None]}
        for n in range(9)
    ]
    options = BaseFileOptions(codec=codec, bloom=BloomSettings(entries=9, false_positive_rate=0.1))
    sink = io.BytesIO()
    with BaseFileWriter(sink, schema, options=options, avro_schema="{}") as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    return sink.getvalue()


def test_bloom_filters_survive(tmp_path):
    made = [(b"S", filter_of(BloomKind.SIMPLE, 9)), (b"D", filter_of(BloomKind.DYNAMIC, 3))]
    corpus = [kind + base64.b64decode(text) for kind, text in made]
    assert_survives(f"{TARGETS}:parse_bloom", corpus, tmp_path)


def test_bloom_filters_survive_as_text(tmp_path):
    corpus = [filter_of(BloomKind.SIMPLE, 9)]
    assert_survives(f"{TARGETS}:parse_bloom_text", corpus, tmp_path)


def test_base_file_footers_survive(tmp_path):
    corpus = [base_file("none"), base_file("zstd")]
    assert_survives(f"{TARGETS}:parse_footer", corpus, tmp_path)


def test_archive_files_survive(tmp_path):
    assert_survives(f"{TARGETS}:parse_archive", [ARCHIVE, ARCHIVE * 2], tmp_path)


def test_archive_blocks_survive_with_their_schemas(tmp_path):
    (block,) = log_file.read_blocks(ARCHIVE, where="f")
    corpus = [block.schema.encode() + b"\n\n" + block.read()]
    assert_survives(f"{TARGETS}:parse_archive_block", corpus, tmp_path)


def test_history_files_survive(tmp_path):
    corpus = []
    for count in (1, 40):
        sink = io.BytesIO()
        lsm_timeline.write_entries(
            sink,
            [HistoryEntry(TIME, TIME, Action.COMMIT, b"Obj\x01" * n, None) for n in range(count)],
        )
        corpus.append(sink.getvalue())
    assert_survives(f"{TARGETS}:parse_history_file", corpus, tmp_path)


def test_manifests_survive(tmp_path):
    files = tuple(HistoryFile(HistoryFileName(TIME, TIME, level), 7) for level in range(3))
    corpus = [lsm_timeline.encode_manifest(Manifest(files)), b'{"files":[]}']
    assert_survives(f"{TARGETS}:parse_manifest", corpus, tmp_path)


def test_version_files_survive(tmp_path):
    assert_survives(f"{TARGETS}:parse_version", [b"1", b"123456789"], tmp_path)
