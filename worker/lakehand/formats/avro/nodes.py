"""What an Avro schema means: a tree of nodes, each with the Arrow type that it becomes.

Decoding, walking, encoding and the schema itself all follow this one tree. A node knows how many
Arrow columns it makes (``leaves``), how many values of them a null of it still takes (``cells``)
and how few bytes a value takes (``min_size``): these bound the memory and the loops of reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any, TypeAlias, assert_never

import pyarrow as pa

from lakehand.errors import Unsupported


@unique
class Wire(Enum):
    """How a value without a size of its own schema is laid out in bytes."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Plain:
    """A primitive, with or without a logical type (``arrow`` says which)."""

    wire: Wire
    arrow: pa.DataType
    leaves: int = 1
    cells: int = 1

    @property
    def min_size(self) -> int:
        """The fewest bytes that a value takes."""
        return {Wire.FLOAT: 4, Wire.DOUBLE: 8}.get(self.wire, 1)


@dataclass(frozen=True, slots=True)
class Fixed:
    """``size`` bytes: binary or a decimal."""

    size: int
    arrow: pa.DataType

    @property
    def leaves(self) -> int:
        """One for every 16 bytes, so that wide values count for the memory they take."""
        return 1 + self.size // 16

    @property
    def cells(self) -> int:
        """As many."""
        return self.leaves

    @property
    def min_size(self) -> int:
        """Its size."""
        return self.size


@dataclass(frozen=True, slots=True)
class Symbols:
    """An enum: the index of a symbol, read as the symbol itself."""

    symbols: tuple[str, ...]
    arrow: pa.DataType = field(default_factory=pa.string)
    leaves: int = 1
    cells: int = 1
    min_size: int = 1


@dataclass(frozen=True, slots=True)
class Nullable:
    """A union of null and one type, in either order."""

    item: Node
    null_branch: int

    @property
    def arrow(self) -> pa.DataType:
        """The item's type; being nullable is a property of Arrow's field."""
        return self.item.arrow

    @property
    def leaves(self) -> int:
        """Those of the item."""
        return self.item.leaves

    @property
    def cells(self) -> int:
        """Those of the item."""
        return self.item.cells

    @property
    def min_size(self) -> int:
        """The branch's index alone."""
        return 1


@dataclass(frozen=True, slots=True)
class Items:
    """An array, or a map (``entry`` is then the record of a key and a value)."""

    entry: Node
    arrow: pa.DataType
    leaves: int
    cells: int = 1
    min_size: int = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a record."""

    name: str
    node: Node

    @property
    def nullable(self) -> bool:
        """Whether the column can hold nulls."""
        return isinstance(self.node, Nullable | Choice)

    def arrow_field(self) -> pa.Field[pa.DataType]:
        """Return the Arrow field."""
        return pa.field(self.name, self.node.arrow, nullable=self.nullable)


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its fields one after the other."""

    name: str
    members: tuple[Member, ...]
    arrow: pa.DataType
    leaves: int
    cells: int
    min_size: int

    def arrow_schema(self) -> pa.Schema:
        """Return the fields as a schema of their own."""
        return pa.schema([member.arrow_field() for member in self.members])


@dataclass(frozen=True, slots=True)
class Choice:
    """A union of more than null and one type; branch 0 is null.

    Hudi's own records use it (delete entries, column statistics); tables may not.
    """

    branches: tuple[Node, ...]
    arrow: pa.DataType
    leaves: int
    cells: int = 1
    min_size: int = 1


Node: TypeAlias = Plain | Fixed | Symbols | Nullable | Items | Record | Choice


def refuse_choices(node: Node, *, where: str, path: str = "the schema") -> None:
    """Refuse unions of several types, which a table's columns cannot hold."""
    match node:
        case Choice(branches=branches):
            raise Unsupported(f"{where}: {path} is a union of {len(branches)} types beside null")
        case Record(members=members):
            for member in members:
                refuse_choices(member.node, where=where, path=member.name)
        case Nullable(item=item):
            refuse_choices(item, where=where, path=path)
        case Items(entry=entry):
            refuse_choices(entry, where=where, path=path)
        case Plain() | Fixed() | Symbols():
            pass
        case _:
            assert_never(node)


def list_of(node: Node) -> Items:
    """Return the node of an array whose items are ``node``."""
    item = pa.field("element", node.arrow, nullable=Member("element", node).nullable)
    return Items(node, pa.list_(item), 1 + node.leaves)


def map_of(key: Plain, value: Node) -> Items:
    """Return the node of a map: an array of entries with a key and a value."""
    members = (Member("key", key), Member("value", value))
    leaves, cells, size = 2 + value.leaves, 2 + value.cells, 1 + value.min_size
    fields: list[Any] = [member.arrow_field() for member in members]
    entry = Record("entry", members, pa.struct(fields), leaves, cells, size)
    return Items(entry, pa.map_(fields[0], fields[1]), leaves)
