"""Every small document and every timeline name of the golden tables, against ours.

Java's documents must survive decode, encode, decode; what we encode must say, record by record,
what Java wrote; and the schemas that Java embedded must be ours, field by field.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
import pytest

from golden import GOLDEN, golden_names
from lakehand.formats import (
    avro_documents,
    commit_metadata,
    instant_names,
    partition_metadata,
    table_properties,
)
from lakehand.formats.plans import (
    clean,
    clustering,
    compaction,
    indexing,
    restore,
    rollback,
    savepoint,
)

PLANS: dict[str, tuple[Callable[..., Any], Callable[..., bytes]]] = {
    "HoodieRequestedReplaceMetadata": (clustering.decode, clustering.encode),
    "HoodieCompactionPlan": (compaction.decode, compaction.encode),
    "HoodieCleanerPlan": (clean.decode_plan, clean.encode_plan),
    "HoodieCleanMetadata": (clean.decode_metadata, clean.encode_metadata),
    "HoodieRollbackPlan": (rollback.decode_plan, rollback.encode_plan),
    "HoodieRollbackMetadata": (rollback.decode_metadata, rollback.encode_metadata),
    "HoodieRestorePlan": (restore.decode_plan, restore.encode_plan),
    "HoodieRestoreMetadata": (restore.decode_metadata, restore.encode_metadata),
    "HoodieSavepointMetadata": (savepoint.decode, savepoint.encode),
    "HoodieIndexPlan": (indexing.decode_plan, indexing.encode_plan),
    "HoodieIndexCommitMetadata": (indexing.decode_metadata, indexing.encode_metadata),
}
COMMITS = {"HoodieCommitMetadata", "HoodieReplaceCommitMetadata"}

NOT_IN_OLDER_WRITERS = {
    ("HoodieCompactionPlan", "missingSchedulePartitions"),  # from 1.0.2 on
    ("HoodieClusteringPlan", "missingSchedulePartitions"),  # from 1.0.2 on
    ("HoodieIndexPartitionInfo", "extraMetadata"),  # from 1.1 on
}

IN_NO_GOLDEN_TABLE = {"HoodieIndexPlan", "HoodieIndexCommitMetadata"}
"""Written when an index is built, which no golden table does."""

JSON_KEYS_NOT_OF_EVERY_WRITER = {
    "recordsStats",
    "totalValidLogBlocks",
    "totalLogBlocksSize",
    "totalLogBlocksScanTimeMs",
    "numUpdates",
    "totalLogReadTimeMs",
    "prevBaseFile",
}
"""0.15 writes the first into a log file's stat and 1.2.0 the others into every stat of a version 6
table: statistics that no reader needs, left out by us when they say nothing."""

EACH = pytest.mark.parametrize("name", golden_names())


@dataclass(frozen=True, slots=True)
class File:
    """One file of a golden table."""

    path: str
    content: bytes

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


@cache
def small_files(name: str) -> tuple[File, ...]:
    """Everything but data, of the table and of its metadata table."""
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        return tuple(
            File(info.filename, archive.read(info))
            for info in archive.infolist()
            if info.filename.startswith("table/")
            and not info.is_dir()
            and not info.filename.endswith((".crc", ".parquet", ".hfile", ".orc"))
            and ".log." not in info.filename
        )


def timelines(name: str) -> Iterator[tuple[File, int]]:
    """The timeline's files with their layout."""
    for properties in small_files(name):
        if properties.name != "hoodie.properties":
            continue
        settings = table_properties.decode(properties.content, where=properties.path)
        layout = int(settings["hoodie.timeline.layout.version"])
        folder = properties.folder if layout == 1 else f"{properties.folder}/timeline"
        for file in small_files(name):
            schema_history = file.folder == f"{properties.folder}/.schema"
            if (file.folder == folder and file is not properties) or schema_history:
                yield file, layout


@EACH
def test_every_timeline_name_is_read_and_formatted_back(name):
    found = list(timelines(name))
    assert found
    for file, layout in found:
        if file.name in {"hoodie.properties.backup", "lock"}:
            continue
        instant = instant_names.parse(file.name, layout)
        assert instant is not None, file.path
        assert instant_names.file_name(instant, layout) == file.name


@EACH
def test_properties_survive(name):
    files = [file for file in small_files(name) if file.name == "hoodie.properties"]
    assert files
    for file in files:
        properties = table_properties.decode(file.content, where=file.path)
        again = table_properties.decode(table_properties.encode(properties), where=file.path)
        assert again == properties
        comments = file.content.decode().splitlines()[:2]
        assert comments[0].startswith(("#Properties saved on ", "#Updated at "))


@EACH
def test_partition_metadata_survives(name):
    for file in small_files(name):
        if file.name == partition_metadata.FILE_NAME and "/.metadata_" not in file.folder:
            # (A restore moves a partition of the metadata table aside; its depth stays as it was.)
            found = partition_metadata.decode(file.content, where=file.path)
            depth = file.folder.removeprefix("table").count("/")
            nested = file.folder.partition("/.hoodie/metadata")
            assert found.depth == (nested[2].count("/") if nested[1] else depth)
            content = partition_metadata.encode(found, written_at_ms=0)
            assert partition_metadata.decode(content, where=file.path) == found


@EACH
def test_every_document_survives_and_says_what_java_wrote(name):
    for file, layout in timelines(name):
        instant = instant_names.parse(file.name, layout)
        if instant is None or instant.action.value == "schemacommit":
            continue
        if not file.content:
            assert instant.is_pending, f"{file.path} is empty"
        elif file.content.startswith(avro_documents.MAGIC):
            check_avro(file)
        else:
            check_json(file)


def check_avro(file: File) -> None:
    kind = avro_documents.record_name(file.content, where=file.path)
    record = avro_documents.decode(file.content, kind, where=file.path)
    if kind in COMMITS:
        value = commit_metadata.decode(file.content, where=file.path)
        value.schema(where=file.path)
        content = commit_metadata.encode(value, version=9)
        assert commit_metadata.decode(content, where=file.path) == value
        as_json = commit_metadata.encode(value, version=6)
        assert commit_metadata.decode(as_json, where=file.path) == value
    else:
        decode, encode = PLANS[kind]
        value = decode(file.content, where=file.path)
        content = encode(value)
        assert decode(content, where=file.path) == value
    assert avro_documents.decode(content, kind, where=file.path) == record
    (independent,) = fastavro.reader(io.BytesIO(file.content))
    assert says_all_of(record, independent), file.path


def says_all_of(ours: Any, theirs: Any) -> bool:
    """Equal, but for fields that the writer did not have."""
    match ours, theirs:
        case dict(), dict():
            return all(key in ours and says_all_of(ours[key], theirs[key]) for key in theirs)
        case list(), list():
            return len(ours) == len(theirs) and all(map(says_all_of, ours, theirs))
        case _:
            return bool(ours == theirs)


def check_json(file: File) -> None:
    value = commit_metadata.decode(file.content, where=file.path)
    content = commit_metadata.encode(value, version=6)
    assert commit_metadata.decode(content, where=file.path) == value
    in_avro = commit_metadata.encode(value, version=9)
    assert commit_metadata.decode(in_avro, where=file.path) == value
    ours, javas = json.loads(content), json.loads(file.content)
    javas["extraMetadata"] = {
        key: own for key, own in javas["extraMetadata"].items() if own is not None
    }
    for document in (ours, javas):
        for stats in document["partitionToWriteStats"].values():
            for stat in stats:
                for key in JSON_KEYS_NOT_OF_EVERY_WRITER:
                    stat.pop(key, None)
    assert ours == javas, file.path


def embedded_schemas() -> dict[str, dict[str, str]]:
    """Each writer schema in any golden document, by record name, with one file that has it."""
    found: dict[str, dict[str, str]] = {}
    for name in golden_names():
        for file, _ in timelines(name):
            if file.content.startswith(avro_documents.MAGIC):
                metadata = fastavro.reader(io.BytesIO(file.content)).metadata
                kind = avro_documents.record_name(file.content, where=file.path)
                found.setdefault(kind, {})[metadata["avro.schema"]] = f"{name}: {file.path}"
    return found


def normal(schema: Any, namespace: str = "") -> Any:
    """The schema without what does not matter: Java's string class and misplaced defaults."""
    match schema:
        case str():
            primitive = schema in {"null", "string", "long", "int", "boolean", "double", "bytes"}
            return schema if primitive or "." in schema else f"{namespace}.{schema}"
        case list():
            return [normal(branch, namespace) for branch in schema]
        case {"type": "record", "name": name, "fields": fields}:
            inside = schema.get("namespace", namespace)
            members = [
                {key: own for key, own in member.items() if key in {"name", "default"}}
                | {"type": normal(member["type"], inside)}
                for member in fields
            ]
            return {"type": "record", "name": f"{inside}.{name}", "fields": members}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": normal(items, namespace)}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": normal(values, namespace)}
        case {"type": inner}:
            return normal(inner, namespace)
    raise AssertionError(f"not a schema: {schema}")


def without(schema: Any, missing: set[tuple[str, str]]) -> Any:
    match schema:
        case list():
            return [without(branch, missing) for branch in schema]
        case {"type": "record", "name": name, "fields": fields}:
            short = name.rpartition(".")[2]
            kept = [
                member | {"type": without(member["type"], missing)}
                for member in fields
                if (short, member["name"]) not in missing
            ]
            return schema | {"fields": kept}
        case dict():
            return {key: without(own, missing) for key, own in schema.items()}
        case _:
            return schema


def field_names(schema: Any) -> set[tuple[str, str]]:
    match schema:
        case list():
            return {row for branch in schema for row in field_names(branch)}
        case {"type": "record", "name": name, "fields": fields}:
            rows = {(name.rpartition(".")[2], member["name"]) for member in fields}
            return rows.union(*(field_names(member["type"]) for member in fields))
        case dict():
            return {row for own in schema.values() for row in field_names(own)}
        case _:
            return set()


def test_java_s_schemas_are_ours_field_by_field():
    found = embedded_schemas()
    assert found.keys() >= COMMITS
    for kind, schemas in found.items():
        ours = normal(json.loads(avro_documents.schema_json(kind)))
        for text, place in schemas.items():
            javas = normal(json.loads(text))
            missing = field_names(ours) - field_names(javas)
            assert missing <= NOT_IN_OLDER_WRITERS, place
            assert without(ours, missing) == javas, place


def test_the_golden_tables_hold_every_kind_of_document():
    assert embedded_schemas().keys() >= (PLANS.keys() | COMMITS) - IN_NO_GOLDEN_TABLE
