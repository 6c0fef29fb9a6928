"""Bloom filters against a model that follows Java one key at a time."""

import base64
import struct
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid, LakehandError, LimitExceeded, Unsupported
from lakehand.formats import bloom
from lakehand.formats.bloom import BloomBuilder, BloomKind, BloomSettings

ASCII = st.characters(max_codepoint=127)
OF_ONE_LENGTH = st.integers(1, 40).flatmap(
    lambda size: st.lists(st.text(ASCII, min_size=size, max_size=size), max_size=60)
)
KEYS = st.lists(st.text(min_size=1, max_size=40), max_size=60) | OF_ONE_LENGTH
SMALL = st.builds(
    BloomSettings,
    kind=st.sampled_from(BloomKind),
    entries=st.integers(1, 9),
    false_positive_rate=st.sampled_from([0.5, 0.1, 1e-3]),
    max_entries=st.integers(0, 40),
)


def signed(byte):
    return byte - 256 if byte > 127 else byte


def murmur(data, seed):
    """Hadoop's MurmurHash, a word at a time."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (seed ^ len(data)) & mask
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        k = word * m & mask
        k = k ^ k >> 24
        h = h * m & mask ^ (k * m & mask)
    rest = data[4 * words :]
    if rest:
        for back, byte in enumerate(reversed(rest)):
            h ^= signed(byte) << (8 * back) & mask
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    return h ^ h >> 15


def positions(key, hashes, bits):
    seed = 0
    for _ in range(hashes):
        seed = murmur(key.encode(), seed)
        number = seed - (1 << 32) if seed >= 1 << 31 else seed
        yield abs(number) % bits


class JavaFilter:
    """Insertion as Java does it, row by row."""

    def __init__(self, made):
        self.made, self.rows, self.current = made, [set()], 0
        self.reached, self.turn = False, 0

    def row(self):
        made, full = self.made, len(self.rows) * self.made.entries
        if made.kind is BloomKind.SIMPLE:
            return self.rows[0]
        if self.reached:
            self.turn += 1
            return self.rows[(self.turn - 1) % len(self.rows)]
        if self.current >= made.entries:
            if full >= made.max_entries:
                self.reached = True
                return self.rows[0]
            self.rows.append(set())
            self.current = 0
        return self.rows[-1]

    def add(self, key):
        self.row().update(positions(key, self.made.hashes, self.made.vector_bits))
        self.current += 1


@settings(max_examples=60, deadline=None)
@given(keys=KEYS, made=SMALL)
def test_a_filter_has_the_bits_of_javas(keys, made):
    java = JavaFilter(made)
    for key in keys:
        java.add(key)
    ours = bloom.build(pa.array(keys, pa.string()), made)
    for row, expected in zip(ours.rows, java.rows, strict=True):
        found = {i for i in range(made.vector_bits) if row[i // 8] >> i % 8 & 1}
        assert found == expected
    if made.kind is BloomKind.DYNAMIC:
        assert (ours.entries, ours.records) == (made.entries, java.current)


@settings(max_examples=60, deadline=None)
@given(keys=KEYS, others=KEYS, made=SMALL)
def test_a_key_may_be_inside_exactly_if_one_row_has_all_its_bits(keys, others, made):
    java = JavaFilter(made)
    for key in keys:
        java.add(key)
    asked = keys + others
    answers = bloom.build(pa.array(keys, pa.string()), made).might_contain(pa.array(asked))
    if asked:
        wanted = [set(positions(key, made.hashes, made.vector_bits)) for key in asked]
        assert answers.to_pylist() == [any(w <= row for row in java.rows) for w in wanted]


@settings(max_examples=40, deadline=None)
@given(keys=KEYS, made=SMALL)
def test_a_footer_entry_survives_parsing_and_writing(keys, made):
    built = bloom.build(pa.array(keys, pa.string()), made)
    assert bloom.parse(built.to_footer(), made.kind, where="f") == built


@settings(max_examples=40, deadline=None)
@given(keys=KEYS, cut=st.integers(0, 60), made=SMALL)
def test_batches_make_the_filter_that_one_array_makes(keys, cut, made):
    whole = pa.array(keys, pa.string())
    parts = BloomBuilder(made).add(whole[:cut]).add(pa.chunked_array([whole[cut:]], pa.string()))
    assert parts.finish() == bloom.build(whole.cast(pa.large_string()), made)


def test_more_keys_than_are_hashed_at_once_keep_their_order():
    made = BloomSettings(entries=1_000, max_entries=100_000, false_positive_rate=0.1)
    array = pa.array([f"key-{n * 7919 % 100_003}" for n in range(70_000)])
    one_row = replace(made, kind=BloomKind.SIMPLE)
    rows = [bloom.build(array[at : at + 1_000], one_row).rows[0] for at in range(0, 70_000, 1_000)]
    assert list(bloom.build(array, made).rows) == rows


def test_hudis_defaults_give_hudis_sizes():
    made = BloomSettings()
    assert (made.vector_bits, made.hashes) == (2_587_966, 30)
    head = base64.b64decode(bloom.build(pa.array(["a"] * 9), made).to_footer())[:25]
    assert head.hex() == "ffffffff0000001e0100277d3e0000ea600000000900000001"


def small_filter():
    made = BloomSettings(entries=4, false_positive_rate=0.1, max_entries=12)
    return base64.b64decode(bloom.build(pa.array([f"k{n}" for n in range(9)]), made).to_footer())


def parse(data, kind=BloomKind.DYNAMIC):
    return bloom.parse(base64.b64encode(data), kind, where="a.parquet")


def test_every_truncation_is_a_typed_error():
    data = small_filter()
    for length in range(len(data)):
        with pytest.raises(LakehandError, match=r"a\.parquet"):
            parse(data[:length])


@pytest.mark.parametrize("kind", BloomKind)
def test_bytes_behind_a_filter_are_an_error(kind):
    made = BloomSettings(kind=kind, entries=4)
    data = base64.b64decode(bloom.build(pa.array(["k"]), made).to_footer())
    with pytest.raises(Corrupt):
        parse(data + b"\0", kind)


@pytest.mark.parametrize(
    ("at", "value"),
    [(4, 0), (4, 2_000_000), (9, -5), (9, 0x7FFFFFFF), (13, 0), (17, -1), (21, 0x7FFFFFFF)],
    ids=["no hashes", "many hashes", "bits < 0", "bits", "entries", "records", "rows"],
)
def test_a_hostile_number_is_corrupt(at, value):
    data = bytearray(small_filter())
    struct.pack_into(">i", data, at, value)
    with pytest.raises(Corrupt):
        parse(bytes(data))


def test_rows_that_differ_in_size_are_corrupt():
    data = bytearray(small_filter())
    struct.pack_into(">i", data, 25 + 4, 7)
    with pytest.raises(Corrupt, match="differ"):
        parse(bytes(data))


def test_jenkins_hashes_of_old_writers_are_refused_by_name():
    with pytest.raises(Unsupported, match="Jenkins"):
        parse(struct.pack(">iibi", 3, 10, 0, 8) + b"\0" * 20, BloomKind.SIMPLE)


def test_text_that_is_not_base64_is_corrupt():
    with pytest.raises(Corrupt, match="base64"):
        bloom.parse(b"!!!!", BloomKind.SIMPLE, where="a.parquet")


@pytest.mark.parametrize("keys", [["a", None], ["a", ""]])
def test_keys_that_hudi_cannot_have_are_refused(keys):
    with pytest.raises(Invalid, match="record key"):
        bloom.build(pa.array(keys), BloomSettings(entries=4))


def test_settings_that_ask_for_too_much_are_refused():
    with pytest.raises(LimitExceeded, match="entries"):
        BloomSettings(entries=50_000_000)
    with pytest.raises(Invalid):
        BloomSettings(false_positive_rate=1.0)
