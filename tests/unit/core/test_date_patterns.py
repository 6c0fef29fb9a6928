"""Java's date patterns, written and read as Java does."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.date_patterns import (
    compile_pattern,
    format_moment,
    moment_of_millis,
    parse_moment,
)
from lakehand.errors import Invalid, Unsupported

MOMENT = datetime(2024, 2, 9, 15, 4, 5, 67_000, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy/MM/dd", "2024/02/09"),
        ("yyyy-M-d", "2024-2-9"),
        ("yyMMdd", "240209"),
        ("yyyyDDD", "2024040"),
        ("hh:mm a", "03:04 PM"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2024-02-09T15:04:05.067-0330"),
        ("HHZZ", "15-03:30"),
        ("S", "0"),
        ("SSSSSS", "067000"),
        ("'year='yyyy", "year=2024"),
        ("''yyyy''", "'2024'"),
        ("yyyy'o''clock'", "2024o'clock"),
        ("", ""),
    ],
)
def test_moments_are_written_as_java_does(pattern, text):
    assert format_moment(pattern, MOMENT) == text


@pytest.mark.parametrize("pattern", ["MMM", "EEE", "yyyy-MM-dd z", "w", "G", "X", "Q"])
def test_letters_that_depend_on_a_locale_or_are_rare_are_refused_by_name(pattern):
    with pytest.raises(Unsupported, match="is not supported"):
        compile_pattern(pattern)


def test_patterns_that_are_broken_are_refused():
    with pytest.raises(Invalid, match="unclosed quote"):
        compile_pattern("yyyy'x")
    with pytest.raises(Invalid, match="too long"):
        compile_pattern("y" * 300)
    with pytest.raises(Unsupported, match="twice"):
        parse_moment(["yyyy yyyy"], "2024 2024", UTC)


PATTERNS = st.sampled_from(
    [
        "yyyy-MM-dd HH:mm:ss.SSS",
        "yyyyMMddHHmmssSSS",
        "dd/MM/yyyy hh:mm:ss.SSS a",
        "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "yyyyDDD HH:mm:ss.SSS",
    ]
)
MILLIS = st.integers(-62_135_510_400_000, 253_402_214_400_000)


@given(PATTERNS, MILLIS)
def test_what_is_written_reads_back_as_the_same_moment(pattern, epoch_ms):
    moment = moment_of_millis(epoch_ms, UTC)
    assert parse_moment([pattern], format_moment(pattern, moment), UTC) == moment


def test_the_first_pattern_that_fits_is_taken():
    read = parse_moment(["yyyy-MM-dd", "yyyyMMdd"], "20240209", UTC)
    assert read == datetime(2024, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2024-02-30", "2024-13-01", "", "2024-02-09x", "٢٠٢٤-02-09"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Invalid, match="yyyy-MM-dd"):
        parse_moment(["yyyy-MM-dd"], text, UTC)


def test_two_digit_years_have_a_fixed_window():
    assert parse_moment(["yyMMdd"], "690101", UTC).year == 2069
    assert parse_moment(["yyMMdd"], "700101", UTC).year == 1970


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_read_or_refused(pattern, text):
    with suppress(Invalid, Unsupported):
        parse_moment([pattern], text, UTC)
