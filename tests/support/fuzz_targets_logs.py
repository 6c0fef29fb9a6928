"""What the fuzzer feeds: bytes in, and every log file read to its last value."""

from lakehand.formats import avro_schema
from lakehand.formats.log_file import BlockType, LogLimits, read_blocks
from lakehand.formats.log_records import read_data, read_deletes

_LIMITS = LogLimits(max_content_bytes=1 << 26, max_header_bytes=1 << 22)


def whole_log_file(content: bytes) -> None:
    """Read all that a log file holds."""
    for block in read_blocks(content, where="fuzz.log", limits=_LIMITS):
        match block.type:
            case BlockType.AVRO_DATA | BlockType.PARQUET_DATA:
                for batch in read_data(block, batch_rows=64):
                    batch.validate(full=True)
            case BlockType.DELETE:
                deletes = read_deletes(block)
                deletes.record_keys.validate(full=True)
                for values in deletes.ordering.values.values():
                    values.validate(full=True)
            case _:
                block.read()


def schema(content: bytes) -> None:
    """Read an Avro schema."""
    avro_schema.to_arrow(content.decode("utf-8", "surrogateescape"), where="fuzz.avsc")
