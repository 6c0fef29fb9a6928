"""What a reader asks for: predicates as triples or as an Arrow expression.

Both become one ``RowFilter``: the expression that decides over merged rows, the columns it needs,
and, of triples, the single comparisons, by which whole partitions can be left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from lakehand.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    Triple = tuple[str, str, Any]
    Filter = pc.Expression | Sequence[Triple]


@unique
class Operator(Enum):
    """The comparisons of a triple."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "IN"
    NOT_IN = "NOT IN"


_LISTED = frozenset({Operator.IN, Operator.NOT_IN})
_SPELLINGS = {"==": "=", "<>": "!="}


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison of a column with a value (with IN and NOT_IN: a sequence of values)."""

    column: str
    operator: Operator
    value: Any

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """Return the comparison as an expression on a column of ``schema``."""
        kind = schema.field(self.column).type
        column: Any = pc.field(self.column)
        result: pc.Expression
        match self.operator:
            case Operator.IN:
                result = column.isin(self._values(kind, self._listed()))
            case Operator.NOT_IN:
                # As in SQL, a null is neither in a list nor not in it.
                result = column.is_valid() & ~column.isin(self._values(kind, self._listed()))
            case Operator.EQUAL:
                result = column == self._scalar(kind)
            case Operator.NOT_EQUAL:
                result = column != self._scalar(kind)
            case Operator.LESS:
                result = column < self._scalar(kind)
            case Operator.LESS_OR_EQUAL:
                result = column <= self._scalar(kind)
            case Operator.GREATER:
                result = column > self._scalar(kind)
            case Operator.GREATER_OR_EQUAL:
                result = column >= self._scalar(kind)
            case _:
                assert_never(self.operator)
        return result

    def operands(self, schema: pa.Schema) -> list[Any]:
        """Return the values compared with, as Python values of the column's type."""
        values = self._listed() if self.operator in _LISTED else [self.value]
        found: list[Any] = self._values(schema.field(self.column).type, values).to_pylist()
        return found

    def _listed(self) -> list[Any]:
        """Return the values of a list without nulls: as in SQL, nothing equals a null."""
        return [value for value in self.value if value is not None]

    def _scalar(self, kind: pa.DataType) -> pa.Scalar[Any]:
        value: pa.Scalar[Any] = self._values(kind, [self.value])[0]
        return value

    def _values(self, kind: pa.DataType, given: list[Any]) -> pa.Array[Any]:
        """Return the values in the column's type; text is converted as a cast would."""
        try:
            if given and all(isinstance(value, str) for value in given):
                return pa.array(given, pa.string()).cast(kind)
            return pa.array(given, kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise Invalid(
                f"filter on {self.column}: {self.value!r} is no value of type {kind} ({error})"
            ) from error


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to return; a row for which the expression is null is not returned."""

    expression: pc.Expression
    columns: frozenset[str]
    predicates: tuple[Predicate, ...] = ()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass."""
        table = pa.Table.from_batches([batch]).filter(self.expression)
        rows = table.combine_chunks().to_batches()
        return rows[0] if rows else batch.slice(0, 0)


def parse_filter(given: Filter | None, schema: pa.Schema) -> RowFilter | None:
    """Return the filter over columns of ``schema``; None and no triples filter nothing."""
    if given is None:
        return None
    if isinstance(given, pc.Expression):
        return RowFilter(given, _columns_of(given, schema))
    predicates = tuple(_predicate(triple, schema) for triple in given)
    if not predicates:
        return None
    expression = predicates[0].expression(schema)
    for predicate in predicates[1:]:
        expression &= predicate.expression(schema)
    return RowFilter(expression, frozenset(one.column for one in predicates), predicates)


def require_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Raise ``Invalid`` for a name that the table does not have, with the nearest that it has."""
    for name in names:
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(schema.names)}"
            raise Invalid(f"the table has no column {name!r}: {hint}")


def _predicate(triple: Triple, schema: pa.Schema) -> Predicate:
    try:
        column, operator, value = triple
        spelled = " ".join(operator.upper().split())
        known = Operator(_SPELLINGS.get(spelled, spelled))
    except (TypeError, ValueError, AttributeError) as error:
        operators = ", ".join(each.value for each in Operator)
        raise Invalid(
            f"filter {triple!r} is not (column, operator, value) with one of {operators}"
        ) from error
    require_columns([column], schema)
    is_list = isinstance(value, Collection) and not isinstance(value, str)
    if known in _LISTED and not is_list:
        raise Invalid(f"filter {triple!r}: {known.value} needs a list of values")
    return Predicate(column, known, value)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> frozenset[str]:
    """Return the columns that the expression reads.

    Arrow does not list them; but an expression cannot be bound to a schema that lacks one.
    """
    failure = _binding_error(expression, schema)
    if failure is not None:
        raise Invalid(f"the filter {expression} does not fit the table: {failure}")
    return frozenset(
        field.name
        for number, field in enumerate(schema)
        if _binding_error(expression, schema.remove(number)) is not None
    )


def _binding_error(expression: pc.Expression, schema: pa.Schema) -> str | None:
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, KeyError, TypeError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return None
