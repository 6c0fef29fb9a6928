"""What a write may change in a table's schema, and what it refuses by name."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Invalid, Unsupported
from lakehand.formats import avro_schema
from lakehand.read.alignment import align
from lakehand.write.schema_change import reconcile

I8, I32, I64 = pa.int8(), pa.int32(), pa.int64()
F32, F64, TEXT, BYTES, DAY = pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()
WALL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def dec(precision, scale):
    return pa.decimal128(precision, scale)


def one(kind, *, nullable=True, name="v"):
    return pa.schema([pa.field(name, kind, nullable=nullable)])


def within(kind):
    """The type in a struct of a list of a map of a struct: every step down."""
    inner = pa.map_(TEXT, pa.struct([("zip", kind)]))
    return pa.struct([("stops", pa.list_(inner)), ("note", TEXT)])


WIDENED = [
    (I32, I64, I64),
    (I32, F32, F32),
    (I32, F64, F64),
    (I64, F32, F32),
    (I64, F64, F64),
    (F32, F64, F64),
    (I32, TEXT, TEXT),
    (I64, TEXT, TEXT),
    (dec(10, 2), dec(12, 2), dec(12, 2)),
    (dec(10, 2), dec(12, 4), dec(12, 4)),
]
KEPT = [
    (I64, I32, I64),
    (I32, pa.int16(), I32),
    (F32, I64, F32),
    (F64, I32, F64),
    (F64, F32, F64),
    (TEXT, I32, TEXT),
    (TEXT, DAY, TEXT),
    (TEXT, dec(9, 2), TEXT),
    (dec(12, 4), dec(10, 2), dec(12, 4)),
    (INSTANT, pa.timestamp("us", "Europe/Oslo"), INSTANT),
    (INSTANT, pa.timestamp("ns", "UTC"), INSTANT),
    (WALL, pa.timestamp("s"), WALL),
    (pa.timestamp("ms"), WALL, pa.timestamp("ms")),
    (TEXT, pa.null(), TEXT),
    (TEXT, pa.dictionary(I32, TEXT), TEXT),
    (BYTES, pa.large_binary(), BYTES),
]
REFUSED = [
    (I32, pa.bool_()),
    (TEXT, pa.bool_()),
    (TEXT, F64),
    (F64, TEXT),
    (DAY, TEXT),
    (dec(10, 2), TEXT),
    (BYTES, TEXT),
    (TEXT, BYTES),
    (INSTANT, WALL),
    (WALL, INSTANT),
    (I64, WALL),
    (DAY, INSTANT),
    (dec(10, 2), I32),
    (dec(10, 4), dec(11, 2)),
    (I32, pa.struct([("x", I32)])),
    (pa.struct([("x", I32)]), pa.list_(I32)),
    (pa.binary(4), pa.binary(5)),
]


@pytest.mark.parametrize(("table", "data", "result"), WIDENED + KEPT)
def test_the_wider_type_stands_at_every_depth(table, data, result):
    assert reconcile(one(table), one(data)) == one(result)
    assert reconcile(one(within(table)), one(within(data))) == one(within(result))


@pytest.mark.parametrize(("table", "data"), REFUSED)
def test_types_of_which_neither_holds_the_other_are_refused_by_path(table, data):
    with pytest.raises(Invalid) as refused:
        reconcile(one(table), one(data))
    assert f"column v has type {table} in the table and {data} in the data" in str(refused.value)
    with pytest.raises(Invalid) as refused:
        reconcile(one(within(table)), one(within(data)))
    assert "column v.stops.element.value.zip has type" in str(refused.value)


EXAMPLES = {
    I8: 7, pa.int16(): 7, I32: 7, I64: 7, F32: 1.5, F64: 1.5, TEXT: "x", DAY: 9,
    dec(9, 2): Decimal("1.25"), dec(10, 2): Decimal("1.25"), dec(12, 2): Decimal("1.25"),
    dec(12, 4): Decimal("1.25"), WALL: 3, INSTANT: 3, pa.timestamp("ms"): 3, BYTES: b"x",
}  # fmt: skip


@pytest.mark.parametrize(("table", "data", "result"), WIDENED + KEPT)
def test_what_was_written_before_still_reads_under_the_new_schema(table, data, result):
    schema = reconcile(one(table), one(data))
    old = pa.record_batch([pa.array([EXAMPLES[table], None], table)], names=["v"])
    found = align(old, schema, where="an older file").column("v")
    assert found.type == result
    assert found.null_count == 1
    assert avro_schema.to_arrow(avro_schema.from_arrow(schema, table_name="t"), where="t") == schema


def test_new_columns_go_to_the_end_and_are_nullable_whatever_the_data_says():
    table = pa.schema([("id", TEXT), ("place", pa.struct([("city", TEXT)]))])
    place = pa.struct([("zip", I32), ("city", TEXT)])
    data = pa.schema([pa.field("new", I32, nullable=False), ("place", place), ("id", TEXT)])
    merged = pa.struct([("city", TEXT), ("zip", I32)])
    assert reconcile(table, data) == pa.schema([("id", TEXT), ("place", merged), ("new", I32)])
    with pytest.raises(
        Invalid, match=r"column place\.zip \(int32\), which the table does not have"
    ):
        reconcile(table, data, allow_new_columns=False)


def test_columns_that_the_data_lacks_must_be_nullable():
    place = pa.struct([pa.field("city", TEXT, nullable=False), ("zip", I32)])
    table = pa.schema([pa.field("id", TEXT, nullable=False), ("v", I32), ("place", place)])
    assert reconcile(table, pa.schema([table.field("id")])) == table
    with pytest.raises(Invalid, match="lacks column id, which may not be null"):
        reconcile(table, one(I32))
    with pytest.raises(Invalid, match=r"lacks column place\.city, which may not be null"):
        reconcile(table, pa.schema([("id", TEXT), ("place", pa.struct([("zip", I32)]))]))


@pytest.mark.parametrize(
    "inner",
    [
        lambda field: one(field.type, nullable=field.nullable),
        lambda field: one(pa.struct([field])),
        lambda field: one(pa.list_(field)),
        lambda field: one(pa.map_(TEXT, field)),
    ],
)
@pytest.mark.parametrize(("table", "data"), [(False, False), (False, True), (True, False)])
def test_nullability_is_only_ever_relaxed(inner, table, data):
    old, new = (inner(pa.field("x", I32, nullable=one)) for one in (table, data))
    wanted = inner(pa.field("x", I32, nullable=table or data))
    assert reconcile(old, new).equals(wanted)


def test_the_first_write_gives_the_table_its_schema_in_hudis_types():
    data = pa.schema([
        ("_hoodie_commit_time", TEXT), ("_hoodie_operation", TEXT),
        ("byte", I8), ("short", pa.int16()), ("u", pa.uint32()), ("half", pa.float16()),
        ("long_text", pa.large_string()), ("code", pa.dictionary(I8, TEXT)),
        ("at", pa.timestamp("ns", "Asia/Tokyo")), ("wall", pa.timestamp("s")),
        ("day", pa.date64()), ("of_day", pa.time64("ns")), ("sum", pa.decimal256(20, 3)),
        ("many", pa.large_list(I8)), ("few", pa.list_(I8, 3)), ("fixed", pa.binary(3)),
        pa.field("_hoodie_is_deleted", pa.bool_(), nullable=False, metadata={"a": "b"}),
    ])  # fmt: skip
    wanted = pa.schema([
        ("byte", I32), ("short", I32), ("u", I64), ("half", F32),
        ("long_text", TEXT), ("code", TEXT), ("at", INSTANT), ("wall", WALL),
        ("day", DAY), ("of_day", pa.time64("us")), ("sum", dec(20, 3)),
        ("many", pa.list_(I32)), ("few", pa.list_(I32)), ("fixed", pa.binary(3)),
        pa.field("_hoodie_is_deleted", pa.bool_(), nullable=False),
    ])  # fmt: skip
    for table in (None, pa.schema([])):
        assert reconcile(table, data).equals(wanted, check_metadata=True)
    assert reconcile(wanted, data) == wanted


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.duration("us"), r"duration\[us\], which Hudi tables do not have"),
        (pa.month_day_nano_interval(), "month_day_nano_interval, which Hudi"),
        (pa.uint64(), "uint64, which Hudi"),
        (pa.decimal256(50, 2), r"decimal256\(50, 2\), which Hudi"),
        (pa.null(), "has nulls only and no type"),
        (pa.map_(I32, TEXT), "a map with keys of type int32"),
        (
            pa.struct([("value", BYTES), pa.field("meta", BYTES, metadata={"variant": "true"})]),
            "is a variant",
        ),
    ],
)  # fmt: skip
def test_types_that_hudi_does_not_have_are_refused_by_path(kind, problem):
    for table in (None, one(TEXT, name="other")):
        with pytest.raises(Unsupported, match=f"column v .*{problem}"):
            reconcile(table, one(kind))
        with pytest.raises(Unsupported, match=r"column v\.stops\.(.*\.)?zip .*" + problem):
            reconcile(table, one(within(kind)))


def test_nesting_without_end_is_refused():
    kind = TEXT
    for _ in range(70):
        kind = pa.struct([("x", kind)])
    with pytest.raises(Unsupported, match="nests deeper than 64"):
        reconcile(None, one(kind))


@pytest.mark.parametrize(
    ("table", "data", "named"),
    [
        (["id"], ["id", "Name", "name"], "Name and name"),
        (["id", "zip"], ["id", "ZIP"], "zip and ZIP"),
        (None, ["id", "id"], "id and id"),
        (["id"], ["id", "id"], "id and id"),
    ],
)
def test_columns_that_spark_cannot_tell_apart_are_refused(table, data, named):
    def schema(names):
        return None if names is None else pa.schema([(name, TEXT) for name in names])

    with pytest.raises(Invalid, match=f"columns {named} are one to Spark"):
        reconcile(schema(table), schema(data))
    inside = [None if one is None else pa.struct(list(schema(one))) for one in (table, data)]
    old, new = (None if kind is None else pa.schema([("s", kind)]) for kind in inside)
    with pytest.raises(Invalid, match=rf"columns s\.{named.replace('and ', 'and s.')} are one"):
        reconcile(old, new)


@pytest.mark.parametrize(
    ("table", "data", "fits"),
    [
        (I32, I64, True),
        (I64, TEXT, True),
        (dec(10, 2), dec(12, 2), True),
        (dec(10, 2), dec(12, 4), False),
        (I32, F64, False),
        (F32, F64, False),
        (TEXT, I32, True),
    ],
)
def test_columns_of_keys_and_paths_widen_only_while_their_text_stays(table, data, fits):
    for name, wrapped in (("v", one), ("v.x", lambda kind: one(pa.struct([("x", kind)])))):
        if fits:
            reconcile(wrapped(table), wrapped(data), same_text=[name, "elsewhere", "v.none"])
        else:
            with pytest.raises(Invalid, match=f"column {name} is part of the table's keys"):
                reconcile(wrapped(table), wrapped(data), same_text=[name])


KINDS = st.sampled_from([I8, I32, I64, F32, F64, TEXT, BYTES, DAY, WALL, INSTANT, dec(9, 2)])
FIELDS = st.lists(
    st.tuples(st.sampled_from("abcd"), KINDS, st.booleans()), max_size=4, unique_by=lambda f: f[0]
).map(lambda rows: pa.schema([pa.field(n, k, nullable=is_null) for n, k, is_null in rows]))


@settings(deadline=None)
@given(FIELDS, FIELDS)
def test_what_was_reconciled_once_changes_no_more(table, data):
    try:
        first = reconcile(reconcile(None, table), data)
    except Invalid:
        return
    assert reconcile(first, data) == first
    assert reconcile(first, first) == first
    assert set(first.names) == {*table.names, *data.names}
