"""Record keys are equal to Java's to the letter."""

import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.key_generators import (
    KeyGenerator,
    SingleFieldEncoding,
    find_key_generator,
    java_double,
    java_float,
    java_string,
    record_key,
    single_field_encoding,
)
from lakehand.errors import Invalid

SIMPLE, COMPLEX = KeyGenerator.SIMPLE, KeyGenerator.COMPLEX


@pytest.mark.parametrize(
    ("generator", "fields", "record", "key"),
    [
        (SIMPLE, ["id"], {"id": 7}, "7"),
        (KeyGenerator.NON_PARTITION, ["id"], {"id": "k0"}, "k0"),
        (KeyGenerator.NON_PARTITION, ["a", "b"], {"a": 1, "b": 2}, "a:1,b:2"),
        (COMPLEX, ["id"], {"id": "k0"}, "id:k0"),
        (COMPLEX, ["id", "id2"], {"id": None, "id2": 0}, "id:__null__,id2:0"),
        (COMPLEX, ["id", "id2"], {"id": "", "id2": "x"}, "id:__empty__,id2:x"),
        (SIMPLE, ["a.b"], {"a": {"b": "deep"}}, "deep"),
        (KeyGenerator.TIMESTAMP, ["id"], {"id": "t"}, "t"),
        (KeyGenerator.CUSTOM, ["id"], {"id": "c"}, "c"),
    ],
)
def test_keys_are_written_as_hudi_does(generator, fields, record, key):
    assert record_key(generator, fields, record) == key


def test_the_older_encoding_of_a_single_complex_field_is_the_plain_value():
    key = record_key(COMPLEX, ["id"], {"id": "k0"}, encoding=SingleFieldEncoding.PLAIN)
    assert key == "k0"


@pytest.mark.parametrize(
    ("version", "existing", "encoding"),
    [
        (6, None, SingleFieldEncoding.NAMED),
        (6, "id:k0", SingleFieldEncoding.NAMED),
        (6, "k0", SingleFieldEncoding.PLAIN),
        (8, "k0", SingleFieldEncoding.PLAIN),
        (9, "k0", SingleFieldEncoding.NAMED),
    ],
)
def test_the_keys_that_are_there_say_how_the_next_are_written(version, existing, encoding):
    assert single_field_encoding(version, field="id", existing_key=existing) is encoding


@pytest.mark.parametrize(
    ("generator", "fields", "record", "problem"),
    [
        (SIMPLE, ["id"], {"id": None}, "null or empty"),
        (SIMPLE, ["id"], {"id": ""}, "null or empty"),
        (COMPLEX, ["a", "b"], {"a": None, "b": ""}, "all null or empty"),
        (SIMPLE, ["id"], {"other": 1}, "not in the record"),
        (SIMPLE, ["a.b"], {"a": None}, "null or empty"),
        (SIMPLE, [], {"id": 1}, "no record key fields"),
        (SIMPLE, ["id"], {"id": b"x"}, "bytes"),
        (SIMPLE, ["id"], {"id": Decimal("NaN")}, "Decimal"),
    ],
)
def test_records_that_hudi_refuses_are_refused(generator, fields, record, problem):
    with pytest.raises(Invalid, match=problem):
        record_key(generator, fields, record)


@pytest.mark.parametrize("generator", KeyGenerator)
def test_a_key_generator_is_found_by_each_of_its_names(generator):
    for name in generator.value.types:
        assert find_key_generator(name, "") is generator
    for name in generator.value.classes:
        assert find_key_generator("", name) is generator


def test_a_key_generator_of_the_users_own_is_unknown():
    assert find_key_generator("USER_PROVIDED", "com.example.Mine") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (-3, "-3"),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E+3"), "1E+3"),
        (Decimal("0E-7"), "0E-7"),
        (date(2024, 2, 28), "2024-02-28"),
        (datetime(2024, 2, 28, 1, 2, 3, 4, tzinfo=UTC), "1709082123000004"),
        (datetime(2024, 2, 28, 1, 2, 3, 4), "1709082123000004"),  # noqa: DTZ001 - without zone
        (datetime(2024, 2, 28, 2, tzinfo=timezone(timedelta(hours=1))), "1709082000000000"),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "-1"),
    ],
)
def test_values_show_as_java_shows_them(value, text):
    assert java_string(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [  # as Java 17 prints them
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (-1.5, "-1.5"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123_456_789.125, "1.23456789125E8"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_show_as_java_shows_them(value, text):
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_as_itself(value):
    assert struct.pack("d", float(java_double(value))) == struct.pack("d", value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_as_itself_with_the_fewest_digits(value):
    text = java_float(value)
    assert np.float32(text) == np.float32(value)
    shortest = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    digits = shortest.partition("e")[0].lstrip("-").replace(".", "").strip("0")
    ours = text.partition("E")[0].lstrip("-").replace(".", "").strip("0")
    assert len(ours) <= max(len(digits), 2)


def test_powers_of_two_keep_the_digits_that_their_closer_neighbours_below_ask_for():
    for exponent in range(-149, 128):
        value = np.float32(2.0**exponent)
        assert np.float32(java_float(float(value))) == value
