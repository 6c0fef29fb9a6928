"""Partition paths: Hudi's exact folders, and the way back."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.partition_paths import (
    DEFAULT_PARTITION,
    PartitionField,
    PartitionScheme,
    PartitionType,
    TimestampFormat,
    TimestampType,
    ValueType,
    escape,
    parse_value,
    unescape,
    zone_of,
)
from lakehand.errors import Invalid, Unsupported

ONE = (PartitionField("p"),)
TWO = (PartitionField("p"), PartitionField("q"))


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("[b]{c}", "%5Bb%5D%7Bc}"),
        ("ünï", "ünï"),
        ("a b", "a b"),
        ("x/y", "x%2Fy"),
        ("k=v", "k%3Dv"),
        ("\x01\x1f\x7f", "%01%1F%7F"),
        ("\"#%'*:?\\^", "%22%23%25%27%2A%3A%3F%5C%5E"),
        ("\x00|<>&;}~", "\x00|<>&;}~"),
    ],
)
def test_exactly_these_characters_are_escaped(value, escaped):
    assert escape(value) == escaped
    assert unescape(escaped) == value


@given(st.text())
def test_unescaping_undoes_escaping(value):
    assert unescape(escape(value)) == value
    assert "/" not in escape(value)


@pytest.mark.parametrize("text", ["%", "%4", "%zz", "100%", "%+1"])
def test_a_percent_sign_that_begins_no_escape_stays(text):
    assert unescape(text) == text


@pytest.mark.parametrize(
    ("scheme", "record", "path"),
    [
        (PartitionScheme(), {"p": 1}, ""),
        (PartitionScheme(ONE), {"p": 7}, "7"),
        (PartitionScheme(ONE), {"p": None}, DEFAULT_PARTITION),
        (PartitionScheme(ONE), {"p": ""}, DEFAULT_PARTITION),
        (PartitionScheme(ONE, hive_style=True), {"p": None}, f"p={DEFAULT_PARTITION}"),
        (PartitionScheme(TWO, hive_style=True), {"p": "a", "q": True}, "p=a/q=true"),
        (PartitionScheme(ONE), {"p": "x/y"}, "x/y"),
        (PartitionScheme(ONE, url_encode=True), {"p": "x/y"}, "x%2Fy"),
        (PartitionScheme(ONE, url_encode=True, hive_style=True), {"p": "k=v"}, "p=k%3Dv"),
        (PartitionScheme(ONE), {"p": date(2024, 2, 28)}, "2024-02-28"),
        (PartitionScheme(ONE, slash_dates=True), {"p": date(2024, 2, 28)}, "2024/02/28"),
        (PartitionScheme(ONE), {"p": Decimal("1.50")}, "1.50"),
        (PartitionScheme(ONE), {"p": 1.0}, "1.0"),
        (PartitionScheme((PartitionField("a.b"),), hive_style=True), {"a": {"b": 1}}, "a.b=1"),
    ],
)
def test_paths_are_written_as_hudi_does(scheme, record, path):
    assert scheme.path_of(record) == path


VALUES = st.none() | st.text(min_size=1).filter(lambda text: text != DEFAULT_PARTITION)


@given(VALUES, VALUES, st.booleans())
def test_encoded_values_of_several_fields_are_read_back(one, other, hive_style):
    scheme = PartitionScheme(TWO, hive_style=hive_style, url_encode=True)
    path = scheme.path_of({"p": one, "q": other})
    assert scheme.values_of(path) == {"p": one, "q": other}


@given(VALUES, st.booleans())
def test_a_single_field_is_read_back_without_encoding_too(value, hive_style):
    scheme = PartitionScheme(ONE, hive_style=hive_style)
    assert scheme.values_of(scheme.path_of({"p": value})) == {"p": value}


def test_slash_separated_dates_are_read_back():
    scheme = PartitionScheme(ONE, slash_dates=True)
    assert scheme.values_of("2024/02/28") == {"p": "2024-02-28"}


@pytest.mark.parametrize(
    ("scheme", "path"),
    [
        (PartitionScheme(), "p=1"),
        (PartitionScheme(TWO), "a/b/c"),
        (PartitionScheme(TWO), "a"),
        (PartitionScheme(ONE, hive_style=True), "a"),
        (PartitionScheme(ONE, hive_style=True), "q=a"),
    ],
)
def test_paths_that_cannot_be_told_apart_are_refused(scheme, path):
    with pytest.raises(Invalid):
        scheme.values_of(path)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (None, ValueType.INTEGER, None),
        ("-7", ValueType.INTEGER, -7),
        ("TRUE", ValueType.BOOLEAN, True),
        ("1.0E10", ValueType.FLOAT, 1e10),
        ("12.50", ValueType.DECIMAL, Decimal("12.50")),
        ("2024-02-28", ValueType.DATE, date(2024, 2, 28)),
        ("1709082123000004", ValueType.TIMESTAMP, datetime(2024, 2, 28, 1, 2, 3, 4, tzinfo=UTC)),
        ("1_0", ValueType.STRING, "1_0"),
    ],
)
def test_values_are_read_back_with_their_types(text, kind, value):
    assert parse_value(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1_0", ValueType.INTEGER),
        (" 1", ValueType.INTEGER),
        ("٣", ValueType.INTEGER),
        ("9" * 5000, ValueType.INTEGER),
        ("yes", ValueType.BOOLEAN),
        ("1.2.3", ValueType.DECIMAL),
        ("28/02/2024", ValueType.DATE),
        ("9" * 30, ValueType.TIMESTAMP),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(text, kind):
    with pytest.raises(Invalid, match=f"is no {kind.value}"):
        parse_value(text, kind)


# -- the timestamp key generator ------------------------------------------------------------------

MOMENT = datetime(2020, 9, 13, 12, 26, 40, 123_000, tzinfo=UTC)
MILLIS = 1_600_000_000_123


def stamp(kind: TimestampType, pattern: str = "yyyy/MM/dd HH:mm:ss.SSS", **more) -> TimestampFormat:
    return TimestampFormat(kind, pattern, **more)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (stamp(TimestampType.EPOCH_MILLIS), MILLIS, "2020/09/13 12:26:40.123"),
        (stamp(TimestampType.EPOCH_MICROS), MILLIS * 1000, "2020/09/13 12:26:40.123"),
        (stamp(TimestampType.EPOCH_MICROS), MOMENT, "2020/09/13 12:26:40.123"),
        (stamp(TimestampType.UNIX_TIMESTAMP), MILLIS // 1000, "2020/09/13 12:26:40.000"),
        (stamp(TimestampType.UNIX_TIMESTAMP), 1.9, "1970/01/01 00:00:01.000"),
        (stamp(TimestampType.SCALAR, "yyyyMMdd", scalar_unit="DAYS"), 19_000, "20220108"),
        (stamp(TimestampType.SCALAR, "yyyyMMdd", scalar_unit="DAYS"), date(2022, 1, 8),
         "20220108"),
        (stamp(TimestampType.EPOCH_MICROS), -1, "1970/01/01 00:00:00.000"),
        (stamp(TimestampType.EPOCH_MILLIS, "yyyyMMdd"), None, "19700101"),
        (stamp(TimestampType.DATE_STRING, "yyyyMMdd", input_patterns=("yyyy-MM-dd",)),
         "2024-02-28", "20240228"),
        (stamp(TimestampType.DATE_STRING, "yyyyMMdd", input_patterns=("yyyy-MM-dd",)), None,
         "19700101"),
        (stamp(TimestampType.MIXED, "yyyyMMddHH",
               input_patterns=("yyyy-MM-dd'T'HH:mm:ssZ", "yyyy-MM-dd'T'HH:mm:ss.SSSZ"),
               output_zone=zone_of("Asia/Kolkata")),
         "2024-02-28T20:00:00.500+0000", "2024022901"),
        (stamp(TimestampType.DATE_STRING, "HH", input_patterns=("yyyy-MM-dd HHZ",),
               output_zone=None), "2024-02-28 20+0530", "20"),
    ],
)  # fmt: skip
def test_timestamps_become_folders_as_hudi_makes_them(form, value, text):
    assert form.text_of(value) == text


@pytest.mark.parametrize(
    ("form", "value", "problem"),
    [
        (stamp(TimestampType.EPOCH_MILLIS), "2024-02-28", "no input date format"),
        (stamp(TimestampType.DATE_STRING, input_patterns=("yyyy",)), "x", "not a time of the form"),
        (stamp(TimestampType.DATE_STRING, input_patterns=("yyyy",)), 7, "not a time of type"),
        (stamp(TimestampType.EPOCH_MILLIS), True, "boolean"),
        (stamp(TimestampType.EPOCH_MILLIS), [], "list"),
        (stamp(TimestampType.EPOCH_MILLIS), float("nan"), "nan"),
        (stamp(TimestampType.UNIX_TIMESTAMP), 10**18, "between the years"),
    ],
)
def test_values_that_are_no_times_are_refused(form, value, problem):
    with pytest.raises(Invalid, match=problem):
        form.text_of(value)


def test_unknown_units_and_zones_are_refused():
    with pytest.raises(Unsupported, match="FORTNIGHTS"):
        stamp(TimestampType.SCALAR, scalar_unit="FORTNIGHTS")
    with pytest.raises(Unsupported, match="Mars/Olympus"):
        zone_of("Mars/Olympus")
    assert zone_of("gmt") is UTC


def test_the_settings_of_a_timestamp_field_may_be_missing():
    scheme = PartitionScheme((PartitionField("at", PartitionType.TIMESTAMP),))
    with pytest.raises(Unsupported, match="does not say how partition field 'at'"):
        scheme.path_of({"at": 1})


@given(st.integers(-62_135_510_400, 253_402_214_400), st.integers(-840, 840))
def test_a_zone_shifts_the_folder_and_not_the_moment(seconds, minutes):
    zone = timezone(timedelta(minutes=minutes))
    form = stamp(TimestampType.UNIX_TIMESTAMP, "yyyyMMddHHmmss", output_zone=zone)
    local = datetime(1970, 1, 1, tzinfo=UTC).astimezone(zone) + timedelta(seconds=seconds)
    assert form.text_of(seconds) == f"{local.year:04d}{local.strftime('%m%d%H%M%S')}"
