"""The judge of Avro schemas that come out of a file, before any decoder sees them.

A writer schema is as untrusted as the bytes that it describes, and a decoder written in C follows
it blindly: a record that holds itself overruns the stack, an array of nothing spins for as long as
its count says, a chain of names nests without end. ``canonical`` therefore builds a schema of its
own from the parts that mean something to a decoder, and lets only schemas through in which

* no type holds itself, and nesting is bounded after all names are resolved;
* every value outside a union takes at least one byte, so that work is bounded by the bytes;
* records and unions have a bounded number of members.

Logical types, aliases, defaults and documentation are dropped: they would only change how the
decoder presents the bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypeAlias, cast

SIZE_LIMIT = 1 << 20
"""Bytes of JSON. Hudi's own schemas have less than 20 KiB."""
DEPTH_LIMIT = 64
"""Levels of nesting after names are resolved. Hudi's own schemas have less than 20."""
FIELD_LIMIT = 1000
BRANCH_LIMIT = 16

Schema: TypeAlias = "str | list[Schema] | dict[str, Schema | int | list[str]]"

_Node: TypeAlias = dict[str, object]
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


class BadSchema(Exception):
    """The schema is broken or would harm the decoder. Callers add the file's name."""


def canonical(text: bytes | str) -> Schema:
    """Return the schema in its shortest form, full names throughout, or raise ``BadSchema``."""
    if len(text) > SIZE_LIMIT:
        raise BadSchema(f"a writer schema of {len(text)} bytes; the limit is {SIZE_LIMIT}")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"the writer schema is no JSON: {error}") from error
    schema, _ = _Walk().visit(parsed, "", 0)
    return schema


@dataclass(slots=True)
class _Walk:
    """One pass over a schema: what is named so far, with how deep each named type reaches."""

    depths: dict[str, int] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def visit(self, node: object, namespace: str, depth: int) -> tuple[Schema, int]:
        """Return the canonical form of ``node`` and the number of levels that it holds."""
        if depth > DEPTH_LIMIT:
            raise BadSchema(f"the writer schema nests deeper than {DEPTH_LIMIT} levels")
        match node:
            case str():
                return self._name(node, namespace, depth)
            case list():
                return self._union(node, namespace, depth)
            case {"type": "record" | "error"}:
                return self._record(cast("_Node", node), namespace, depth)
            case {"type": ("array" | "map") as kind}:
                member = "items" if kind == "array" else "values"
                inner, levels = self.visit(cast("_Node", node).get(member), namespace, depth + 1)
                return {"type": kind, member: inner}, levels + 1
            case {"type": "enum" | "fixed"}:
                return self._leaf(cast("_Node", node), namespace), 1
            case {"type": (str() | dict() | list()) as inner_type}:
                return self.visit(inner_type, namespace, depth + 1)
            case _:
                raise BadSchema(f"the writer schema holds {str(node)[:80]!r}, which is no type")

    def _name(self, name: str, namespace: str, depth: int) -> tuple[Schema, int]:
        if name in _PRIMITIVES:
            return name, 1
        if name == "null":
            raise BadSchema("the writer schema has a value that takes no bytes")
        full = _full_name(name, namespace)
        if full in self.open:
            raise BadSchema(f"the writer schema's {full} holds itself")
        if full not in self.depths:
            raise BadSchema(f"the writer schema names {full}, which is not defined before")
        levels = self.depths[full]
        if depth + levels > DEPTH_LIMIT:
            raise BadSchema(f"the writer schema nests deeper than {DEPTH_LIMIT} levels")
        return full, levels

    def _union(self, branches: list[object], namespace: str, depth: int) -> tuple[Schema, int]:
        if not 0 < len(branches) <= BRANCH_LIMIT:
            raise BadSchema(f"the writer schema has a union of {len(branches)} types")
        members: list[Schema] = []
        deepest = 0
        for branch in branches:
            if isinstance(branch, list):
                raise BadSchema("the writer schema has a union within a union")
            if branch in ("null", {"type": "null"}):
                members.append("null")
                continue
            member, levels = self.visit(branch, namespace, depth + 1)
            members.append(member)
            deepest = max(deepest, levels)
        return members, deepest + 1

    def _record(self, node: _Node, namespace: str, depth: int) -> tuple[Schema, int]:
        full = self._define(node, namespace)
        inner_namespace = full.rpartition(".")[0]
        fields = node.get("fields")
        if not isinstance(fields, list) or not 0 < len(fields) <= FIELD_LIMIT:
            raise BadSchema(f"the writer schema's {full} has no fields, or too many")
        self.open.add(full)
        members: dict[str, Schema] = {}
        deepest = 0
        for member in fields:
            if not (
                isinstance(member, dict)
                and isinstance(name := member.get("name"), str)
                and name not in members
                and "type" in member
            ):
                raise BadSchema(f"the writer schema's {full} has the field {str(member)[:80]}")
            members[name], levels = self.visit(member["type"], inner_namespace, depth + 1)
            deepest = max(deepest, levels)
        self.open.remove(full)
        self.depths[full] = deepest + 1
        listed: list[Schema] = [{"name": name, "type": kind} for name, kind in members.items()]
        return {"type": "record", "name": full, "fields": listed}, deepest + 1

    def _leaf(self, node: _Node, namespace: str) -> Schema:
        full = self._define(node, namespace)
        self.depths[full] = 1
        match node:
            case {"type": "enum", "symbols": list() as symbols} if symbols and all(
                isinstance(symbol, str) for symbol in symbols
            ):
                return {"type": "enum", "name": full, "symbols": list(symbols)}
            case {"type": "fixed", "size": int() as size} if size > 0:
                return {"type": "fixed", "name": full, "size": size}
            case _:
                raise BadSchema(f"the writer schema's {full} is incomplete")

    def _define(self, node: _Node, namespace: str) -> str:
        name, own_namespace = node.get("name"), node.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(own_namespace, str):
            raise BadSchema("the writer schema has a type without a name")
        full = _full_name(name, own_namespace)
        if full in self.depths or full in self.open:
            raise BadSchema(f"the writer schema defines {full} twice")
        return full


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
