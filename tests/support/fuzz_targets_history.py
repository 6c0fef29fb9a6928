"""The parsers of footers and history as functions of bytes, for `fuzzing.assert_survives`."""

import base64

import pyarrow as pa

from lakehand.formats import archived_timeline, bloom, lsm_timeline
from lakehand.formats.base_file import read_footer
from lakehand.formats.bloom import BloomKind

_KEYS = pa.array(["key1", "é", "x" * 40])


def parse_bloom(content):
    """A letter for the kind, then the bytes that the footer holds as base64."""
    kind = BloomKind.SIMPLE if content[:1] == b"S" else BloomKind.DYNAMIC
    found = bloom.parse(base64.b64encode(content[1:]), kind, where="f")
    found.might_contain(_KEYS)
    assert base64.b64decode(found.to_footer()) == content[1:]


def parse_bloom_text(content):
    bloom.parse(content, BloomKind.SIMPLE, where="f").might_contain(_KEYS)


def parse_footer(content):
    footer = read_footer(content, where="f")
    if footer.bloom is not None:
        footer.bloom.might_contain(_KEYS)


def parse_archive(content):
    for _ in archived_timeline.read_entries(content, where="f", on_corrupt=lambda _: None):
        pass


def parse_archive_block(content):
    schema, _, body = content.partition(b"\n\n")
    archived_timeline.decode_block(body, schema.decode("latin-1"), where="f")


def parse_history_file(content):
    for contents in (True, False):
        for _ in lsm_timeline.read_entries(pa.BufferReader(content), where="f", contents=contents):
            pass


def parse_manifest(content):
    lsm_timeline.decode_manifest(content, where="f")


def parse_version(content):
    lsm_timeline.decode_version(content, where="f")
