"""Java's Properties text. The expected values are what java.util.Properties (JDK 17) answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid, LakehandError, LimitExceeded
from lakehand.formats import java_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def parse(text: str) -> dict[str, str]:
    return java_properties.parse(text.encode("iso-8859-1"), where="p")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a == 1\n", {"a": "= 1"}),
        ("a\n", {"a": ""}),
        ("=value", {"": "value"}),
        ("  a = 1  \n", {"a": "1  "}),
        ("# c\n ! c\\\na=1\n", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("a=one, \\\n   two\\\r\n\tthree\n", {"a": "one, twothree"}),
        ("a=one\\\n\nb=2\n", {"a": "one", "b": "2"}),
        ("a=one\\\n# no comment\n", {"a": "one# no comment"}),
        ("a=b\\\\\nc=d\n", {"a": "b\\", "c": "d"}),
        ("a\\=b\\:c\\ d=1\n", {"a=b:c d": "1"}),
        (r"a=\t\n\r\f\q\"\\", {"a": '\t\n\r\fq"\\'}),
        (r"a=\u0041\u00e9\uD83D\uDE00", {"a": "Aé😀"}),
        ("k=é\n", {"k": "é"}),
        ("p=grp\\:SIMPLE,at\\:TIMESTAMP\n", {"p": "grp:SIMPLE,at:TIMESTAMP"}),
        ("\\", {"": ""}),
        ("\\\n", {"": ""}),
        ("\\\r\n", {}),
        ("\n \n\t\n", {}),
    ],
)
def test_text_reads_as_java_reads_it(text, expected):
    assert parse(text) == expected


@given(st.dictionaries(TEXT, TEXT), st.lists(TEXT, max_size=2))
def test_whatever_is_rendered_reads_back_in_the_same_order(mapping, comments):
    one_line = ["".join(c for c in comment if c not in "\r\n") for comment in comments]
    content = java_properties.render(mapping, comments=one_line)
    again = java_properties.parse(content, where="p")
    assert list(again.items()) == list(mapping.items())
    assert all(32 <= byte < 127 or byte == 10 for byte in content)


@given(st.text("ab=:# !\\u0041\t\f\r\n\xe9", max_size=60))
def test_any_text_reads_or_is_refused_and_what_it_says_survives(text):
    try:
        read = parse(text)
    except Corrupt:
        return
    assert java_properties.parse(java_properties.render(read), where="p") == read


def test_values_keep_the_characters_that_hudi_rs_does_not_unescape():
    content = java_properties.render({"k": "grp:SIMPLE,a=b#c!"})
    assert content == b"k=grp:SIMPLE,a=b#c!\n"


def test_keys_and_leading_spaces_are_escaped():
    assert java_properties.render({"a b:=#": " x "}) == b"a\\ b\\:\\=\\#=\\ x \n"


def test_a_comment_cannot_smuggle_in_a_line():
    with pytest.raises(Invalid, match="one line"):
        java_properties.render({}, comments=["x\nhoodie.table.version=1"])


@pytest.mark.parametrize("text", ["a=\\u12\n", "a=\\u12g4", "\\uZZZZ=1", "a=\\uD83D\n", "a=\\u"])
def test_a_malformed_escape_is_corrupt_and_names_the_line(text):
    with pytest.raises(Corrupt) as caught:
        parse("first=1\n" + text)
    assert caught.value.offset == len("first=1\n")


def test_half_a_surrogate_pair_is_never_written():
    with pytest.raises(Invalid):
        java_properties.render({"k": "\ud83d"})


def test_too_much_text_is_refused_unread():
    with pytest.raises(LimitExceeded):
        java_properties.parse(b"a" * (java_properties.SIZE_LIMIT + 1), where="p")


@pytest.mark.parametrize("unit", [b"\\", b"a", b"a=1\n", b"\\\n", b"\\u0041", b" ", b"a\\\n"])
def test_a_megabyte_of_anything_takes_no_longer_than_its_length_asks(unit):
    content = unit * ((1 << 20) // len(unit))
    try:
        java_properties.parse(content, where="p")
    except LakehandError:
        pytest.fail("none of these is malformed")


def test_dates_are_written_as_java_prints_them():
    assert java_properties.java_date(1_763_474_400_123) == "Tue Nov 18 14:00:00 UTC 2025"
