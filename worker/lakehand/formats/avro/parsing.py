"""An Avro schema's JSON, made into a tree of nodes.

Names are resolved while the tree is built. A schema comes from a file and may be hostile, so its
depth and its size are bounded here, once.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

from lakehand.errors import Corrupt, LimitExceeded, Unsupported
from lakehand.formats.avro.nodes import (
    Choice,
    Fixed,
    Items,
    Member,
    Node,
    Nullable,
    Plain,
    Record,
    Symbols,
    Wire,
    list_of,
    map_of,
)

MAX_DEPTH: Final = 64
MAX_LEAVES: Final = 16_384
MAX_FIXED_SIZE: Final = 1 << 16
MAX_SCHEMA_CHARS: Final = 8 << 20


_PRIMITIVES: Final[dict[str, Plain]] = {
    "boolean": Plain(Wire.BOOLEAN, pa.bool_()),
    "int": Plain(Wire.INT, pa.int32()),
    "long": Plain(Wire.LONG, pa.int64()),
    "float": Plain(Wire.FLOAT, pa.float32()),
    "double": Plain(Wire.DOUBLE, pa.float64()),
    "bytes": Plain(Wire.BYTES, pa.binary()),
    "string": Plain(Wire.STRING, pa.string()),
}

_LOGICAL: Final[dict[tuple[str, str], Plain]] = {
    ("int", "date"): Plain(Wire.INT, pa.date32()),
    ("int", "time-millis"): Plain(Wire.INT, pa.time32("ms")),
    ("long", "time-micros"): Plain(Wire.LONG, pa.time64("us")),
    ("long", "timestamp-millis"): Plain(Wire.LONG, pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): Plain(Wire.LONG, pa.timestamp("us", "UTC")),
    ("long", "timestamp-nanos"): Plain(Wire.LONG, pa.timestamp("ns", "UTC")),
    ("long", "local-timestamp-millis"): Plain(Wire.LONG, pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): Plain(Wire.LONG, pa.timestamp("us")),
    ("long", "local-timestamp-nanos"): Plain(Wire.LONG, pa.timestamp("ns")),
}

# Types of newer Hudi versions whose bytes mean more than their Avro type says.
_REFUSED_LOGICAL: Final = frozenset({"vector", "variant", "blob"})


def parse(schema_json: str, *, where: str) -> Record:
    """Return the tree of a record's schema; ``where`` names the file that holds it."""
    if len(schema_json) > MAX_SCHEMA_CHARS:
        raise LimitExceeded(f"{where}: an Avro schema of {len(schema_json)} characters")
    try:
        declaration = json.loads(schema_json)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"the Avro schema is not JSON: {error}", where=where) from error
    node = _Parser(where).node(declaration, namespace="", path="the schema", depth=0)
    if not isinstance(node, Record):
        raise Corrupt("the Avro schema is not a record's", where=where)
    return node


class _Parser:
    """Resolves names while it builds the tree; one per schema."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, Node | None] = {}

    def node(self, declared: object, *, namespace: str, path: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise LimitExceeded(f"{self._where}: {path} nests deeper than {MAX_DEPTH} levels")
        if isinstance(declared, str):
            return self._by_name(declared, namespace, path)
        if isinstance(declared, list):
            return self._union(declared, namespace, path, depth)
        if not isinstance(declared, dict):
            raise self._corrupt(f"{path}: {declared!r:.80} is no Avro type")
        kind = declared.get("type")
        match kind:
            case "record" | "error":
                return self._record(declared, namespace, path, depth)
            case "fixed":
                return self._fixed(declared, namespace, path)
            case "enum":
                return self._enum(declared, namespace, path)
            case "array":
                item = self.node(
                    declared.get("items"), namespace=namespace, path=f"{path}[]", depth=depth + 1
                )
                return self._array(item, path)
            case "map":
                value = self.node(
                    declared.get("values"), namespace=namespace, path=f"{path}{{}}", depth=depth + 1
                )
                return self._map(value, path)
            case str() if kind in _PRIMITIVES:
                return self._primitive(kind, declared, path)
            case _:
                return self.node(kind, namespace=namespace, path=path, depth=depth + 1)

    def _by_name(self, name: str, namespace: str, path: str) -> Node:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if name == "null":
            raise Unsupported(f"{self._where}: {path} has the Avro type null alone")
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            full = name
        if full not in self._named:
            raise self._corrupt(f"{path}: no Avro type is named {name!r:.80}")
        node = self._named[full]
        if node is None:
            raise Unsupported(f"{self._where}: {path} refers to {full}, which it is part of")
        return node

    def _union(self, declared: list[object], namespace: str, path: str, depth: int) -> Node:
        nulls = [index for index, branch in enumerate(declared) if branch == "null"]
        if len(nulls) != 1 or len(declared) < 2:
            raise Unsupported(
                f"{self._where}: {path} is a union of {_branch_names(declared)}; only unions with"
                " null are supported"
            )
        others = [
            self.node(branch, namespace=namespace, path=path, depth=depth + 1)
            for branch in declared
            if branch != "null"
        ]
        if any(isinstance(node, Nullable | Choice) for node in others):
            raise self._corrupt(f"{path}: a union directly inside a union")
        if len(others) == 1:
            return Nullable(others[0], nulls[0])
        if nulls[0] != 0:
            raise Unsupported(f"{self._where}: {path} is a union of {_branch_names(declared)}")
        arms = [pa.field(f"branch{index + 1}", node.arrow) for index, node in enumerate(others)]
        arrow = pa.dense_union([pa.field("branch0", pa.null()), *arms])
        leaves = self._bounded(sum(node.leaves for node in others), path)
        return Choice(tuple(others), arrow, leaves)

    def _record(self, declared: dict[str, object], namespace: str, path: str, depth: int) -> Record:
        full, space = self._declare(declared, namespace, path)
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise self._corrupt(f"{path}: the record {full} has no fields")
        members: list[Member] = []
        leaves = 1
        for entry in fields:
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not name.isprintable() or not name:
                raise self._corrupt(f"{path}: the record {full} has a field without a name")
            below = f"{path}.{name}" if depth else name
            node = self.node(entry.get("type"), namespace=space, path=below, depth=depth + 1)
            members.append(Member(name, node))
            leaves = self._bounded(leaves + node.leaves, path)
        if len({member.name for member in members}) != len(members):
            raise self._corrupt(f"{path}: the record {full} has two fields of one name")
        arrow = pa.struct([member.arrow_field() for member in members])
        size = min(sum(member.node.min_size for member in members), 1 << 40)
        cells = 1 + sum(member.node.cells for member in members)
        record = Record(full, tuple(members), arrow, leaves, cells, size)
        self._named[full] = record
        return record

    def _fixed(self, declared: dict[str, object], namespace: str, path: str) -> Fixed:
        full, _ = self._declare(declared, namespace, path)
        size = declared.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise self._corrupt(f"{path}: the fixed type {full} has no size")
        if size > MAX_FIXED_SIZE:
            raise LimitExceeded(f"{self._where}: {path} is a fixed type of {size} bytes")
        arrow: pa.DataType = pa.binary(size)
        if declared.get("logicalType") == "decimal":
            arrow = self._decimal(declared, path)
        else:
            self._refuse_logical(declared, path)
        node = Fixed(size, arrow)
        self._named[full] = node
        return node

    def _enum(self, declared: dict[str, object], namespace: str, path: str) -> Symbols:
        full, _ = self._declare(declared, namespace, path)
        symbols = declared.get("symbols")
        if not isinstance(symbols, list) or not symbols:
            raise self._corrupt(f"{path}: the enum {full} has no symbols")
        if not all(isinstance(symbol, str) and symbol.isprintable() for symbol in symbols):
            raise self._corrupt(f"{path}: the enum {full} has a symbol that is no name")
        node = Symbols(tuple(symbols))
        self._named[full] = node
        return node

    def _array(self, item: Node, path: str) -> Items:
        # Items without bytes would let a few bytes ask for any amount of work and memory.
        if item.min_size == 0:
            raise Unsupported(f"{self._where}: {path} is an array of records without fields")
        node = list_of(item)
        self._bounded(node.leaves, path)
        return node

    def _map(self, value: Node, path: str) -> Items:
        node = map_of(_PRIMITIVES["string"], value)
        self._bounded(node.leaves, path)
        return node

    def _primitive(self, kind: str, declared: dict[str, object], path: str) -> Plain:
        logical = declared.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return Plain(Wire.BYTES, self._decimal(declared, path), leaves=2, cells=2)
        self._refuse_logical(declared, path)
        # The specification lets readers ignore logical types that they do not know.
        if isinstance(logical, str):
            return _LOGICAL.get((kind, logical), _PRIMITIVES[kind])
        return _PRIMITIVES[kind]

    def _decimal(self, declared: dict[str, object], path: str) -> pa.DataType:
        precision, scale = declared.get("precision"), declared.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            raise self._corrupt(f"{path}: a decimal without precision")
        if not 1 <= precision <= 76:
            raise Unsupported(
                f"{self._where}: {path} is a decimal of {precision} digits; the limit is 76"
            )
        if not 0 <= scale <= precision:
            raise self._corrupt(f"{path}: a decimal of {precision} digits with scale {scale}")
        return (
            pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        )

    def _refuse_logical(self, declared: dict[str, object], path: str) -> None:
        logical = declared.get("logicalType")
        if isinstance(logical, str) and logical.lower() in _REFUSED_LOGICAL:
            raise Unsupported(f"{self._where}: {path} has the logical type {logical}")

    def _declare(self, declared: dict[str, object], namespace: str, path: str) -> tuple[str, str]:
        """Note a named type as begun; return its full name and the namespace inside it."""
        name, space = declared.get("name"), declared.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(space, str | None):
            raise self._corrupt(f"{path}: a {declared['type']} without a name")
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._named:
            raise self._corrupt(f"{path}: the name {full} is declared twice")
        self._named[full] = None
        return full, full.rpartition(".")[0]

    def _bounded(self, leaves: int, path: str) -> int:
        if leaves > MAX_LEAVES:
            raise LimitExceeded(f"{self._where}: {path} has more than {MAX_LEAVES} columns")
        return leaves

    def _corrupt(self, problem: str) -> Corrupt:
        return Corrupt(f"the Avro schema is broken: {problem}", where=self._where)


def _branch_names(declared: list[object]) -> str:
    names = [
        str(branch.get("name") or branch.get("type")) if isinstance(branch, dict) else str(branch)
        for branch in declared[:12]
    ]
    return ", ".join(name[:60] for name in names) or "nothing"
