import pytest

from lakehand.errors import Corrupt
from lakehand.formats import partition_metadata
from lakehand.formats.partition_metadata import PartitionMetadata


def test_a_file_of_java_is_read():
    content = b"#partition metadata\n#Tue Nov 18 14:00:00 UTC 2025\ncommitTime=20251118140000123\n"
    found = partition_metadata.decode(content + b"partitionDepth=2\n", where="p")
    assert found == PartitionMetadata(commit_time="20251118140000123", depth=2)


@pytest.mark.parametrize("depth", [0, 1, 7])
def test_what_is_written_reads_back_and_looks_like_javas(depth):
    metadata = PartitionMetadata(commit_time="20251118140000123", depth=depth)
    content = partition_metadata.encode(metadata, written_at_ms=1_763_474_400_123)
    assert partition_metadata.decode(content, where="p") == metadata
    assert content.startswith(b"#partition metadata\n#Tue Nov 18 14:00:00 UTC 2025\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"commitTime=20251118140000123\n",
        b"partitionDepth=1\n",
        b"commitTime=x\npartitionDepth=1\n",
        b"commitTime=1\npartitionDepth=-1\n",
        b"commitTime=1\npartitionDepth=" + b"9" * 5000,
    ],
)
def test_a_file_without_both_entries_is_corrupt(content):
    with pytest.raises(Corrupt) as caught:
        partition_metadata.decode(content, where="x/.hoodie_partition_metadata")
    assert caught.value.where == "x/.hoodie_partition_metadata"
