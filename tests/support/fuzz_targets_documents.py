"""What the fuzzer calls for documents: bytes in, and whatever parses must also survive."""

from lakehand.formats import (
    commit_metadata,
    instant_names,
    java_properties,
    partition_metadata,
    table_properties,
    writer_schemas,
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


def properties(content: bytes) -> None:
    """Properties of any kind."""
    found = java_properties.parse(content, where="fuzz")
    again = java_properties.parse(java_properties.render(found), where="fuzz")
    assert again == found


def table(content: bytes) -> None:
    """``hoodie.properties``."""
    table_properties.decode(content, where="fuzz")


def partition(content: bytes) -> None:
    """``.hoodie_partition_metadata``."""
    partition_metadata.decode(content, where="fuzz")


def name(content: bytes) -> None:
    """A file's name in both layouts."""
    text = content.decode("utf-8", "surrogateescape")
    for layout in (1, 2):
        found = instant_names.parse(text, layout)
        assert found is None or instant_names.file_name(found, layout) == text


def commit(content: bytes) -> None:
    """Commit metadata, JSON or Avro, with the schema that it carries."""
    found = commit_metadata.decode(content, where="fuzz")
    for version in (6, 8, 9):
        again = commit_metadata.encode(found, version=version)
        assert commit_metadata.decode(again, where="fuzz") == found
    found.schema(where="fuzz")


def schema(content: bytes) -> None:
    """A writer schema."""
    try:
        writer_schemas.canonical(content)
    except writer_schemas.BadSchema:
        return


def clustering_plan(content: bytes) -> None:
    """The deepest of the plans."""
    assert clustering.decode(clustering.encode(clustering.decode(content, where="a")), where="b")


def plans(content: bytes) -> None:
    """Every other plan and report; the first byte says which."""
    decode, encode = _PLANS[content[0] % len(_PLANS)] if content else _PLANS[0]
    assert decode(encode(decode(content[1:], where="a")), where="b")


_PLANS = (
    (compaction.decode, compaction.encode),
    (clean.decode_plan, clean.encode_plan),
    (clean.decode_metadata, clean.encode_metadata),
    (rollback.decode_plan, rollback.encode_plan),
    (rollback.decode_metadata, rollback.encode_metadata),
    (restore.decode_plan, restore.encode_plan),
    (restore.decode_metadata, restore.encode_metadata),
    (savepoint.decode, savepoint.encode),
    (indexing.decode_plan, indexing.encode_plan),
    (indexing.decode_metadata, indexing.encode_metadata),
)
