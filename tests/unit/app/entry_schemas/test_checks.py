"""Checks of entries: how texts are read, what is said of faults, and what no schema may have."""

import json
from typing import Any

import pytest

from headgate.app.entry_schemas.bounds import (
    COST_MAX,
    SCHEMA_BYTES_MAX,
    SUBSCHEMAS_MAX,
    VALUES_MAX,
    SchemaRefused,
)
from headgate.app.entry_schemas.checks import CompiledSchema, read_schema


def compiled(field: Any, **root: Any) -> CompiledSchema:
    return CompiledSchema({"type": "object", "properties": {"a": field}} | root)


def faults(schema: CompiledSchema, *pairs: bytes) -> list[tuple[str, str]]:
    return [(field, text) for field, text in schema.faults(pairs)]


VALUES = [
    ({"type": "integer"}, b"5", b"5.5"),
    ({"type": "integer"}, b" -5 ", b"05"),
    ({"type": "integer"}, b"5.0", b'"5"'),
    ({"type": "number"}, b"1e3", b"NaN"),
    ({"type": "number"}, b"0", b"9" * 5_000),
    ({"type": "boolean"}, b"true", b"True"),
    ({"type": ["integer", "null"]}, b"null", b""),
    ({"type": "array", "items": {"type": "integer"}}, b"[1, 2]", b'[1, "2"]'),
    ({"type": "array"}, b"[]", b"[" * 5_000 + b"]" * 5_000),
    ({"type": "object", "required": ["b"]}, b'{"b": 1}', b"{}"),
    ({"enum": [1, None, False]}, b"false", b"0"),
    ({"enum": ["1", "2"]}, b"1", b"3"),
    ({"const": 1}, b"1", b"true"),
    ({"type": "string", "maxLength": 2}, "äö".encode(), b"abc"),
    ({"type": "string", "pattern": "^[a-z]+$"}, b"a", b"A"),
    ({"type": "string", "format": "date-time"}, b"2026-01-01T00:00:00Z", b"yesterday"),
    ({"type": "string", "minLength": 1}, b"\xc3\xa4", b"\xff"),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, b"5", b"55"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, b"5", b"x"),
    ({"$ref": "#/$defs/n"}, b"5", b"x"),
    ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, b"1", b"0"),
]


@pytest.mark.parametrize(("field", "good", "bad"), VALUES)
def test_a_value_is_read_as_json_unless_its_field_may_be_a_text(
    field: Any, good: bytes, bad: bytes
) -> None:
    schema = compiled(field, **{"$defs": {"n": {"type": "integer"}}})
    assert faults(schema, b"a", good) == []
    [(name, text)] = faults(schema, b"a", bad)
    assert (name, bool(text)) == ("a", True)


def test_a_fault_names_its_field() -> None:
    schema = compiled({"type": "integer"}, required=["a"], additionalProperties=False)
    assert sorted(faults(schema, b"b", b"1", b"c", b"2")) == [
        ("a", "is required"), ("b", "unknown field"), ("c", "unknown field"),
    ]  # fmt: skip
    assert faults(schema, b"a", b"x") == [("a", '"x" is not of type "integer"')]
    assert faults(schema, b"a", b"1", b"a", b"1") == [("a", "repeats")]
    assert faults(schema, b"a", b"1", b"\xff", b"1") == [("\ufffd", "unknown field")]
    inner = compiled({"type": "array", "items": {"type": "integer"}})
    assert faults(inner, b"a", b'[1, "x"]') == [("a", '/1: "x" is not of type "integer"')]
    assert len(faults(inner, b"a", json.dumps(["x"] * 60).encode())) == 10
    assert len(faults(schema, b"a", b'"' + b"x" * 100_000 + b'"')[0][1]) < 400


def test_a_field_that_may_be_any_text_is_not_looked_at() -> None:
    schema = compiled({"type": "string", "title": "Any"})
    assert faults(schema, b"a", b"\xff", b"b", b"\xfe" * 2**20) == []
    looking = compiled({"type": "string"}, dependentSchemas={"b": False})
    assert faults(looking, b"a", b"\xff") == [("a", "is not UTF-8")]


DEEP: Any = True
for _ in range(200):
    DEEP = {"items": DEEP}

DOUBLING = {
    f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(30)
} | {"d30": True}

REFUSED = [
    ("many subschemas", {"allOf": [True] * 100_000}),
    ("subschemas", {"properties": {f"p{n}": {} for n in range(SUBSCHEMAS_MAX)}}),
    ("wide", {"properties": {"a": {"allOf": [True] * (COST_MAX + 1)}}}),
    ("doubling", {"$ref": "#/$defs/d0", "$defs": DOUBLING}),
    ("deep", DEEP),
    ("a loop", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    ("recursion", {"properties": {"a": {"$ref": "#/$defs/a"}},
                   "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
    ("itself", {"$ref": "#"}),
    ("a remote schema", {"$ref": "https://example.com/schema.json"}),
    ("nothing", {"$ref": "#/$defs/b"}),
    ("a dynamic reference", {"$dynamicRef": "#node"}),
    ("an anchor", {"$defs": {"a": {"$anchor": "b"}}}),
    ("another dialect", {"$schema": "http://json-schema.org/draft-07/schema#"}),
    ("unevaluated properties", {"unevaluatedProperties": False}),
    ("an unknown keyword", {"propertees": {}}),
    ("an unknown format", {"properties": {"a": {"format": "regex"}}}),
    ("many values", {"properties": {"a": {"enum": list(range(VALUES_MAX + 1))}}}),
    ("values of objects", {"properties": {"a": {"enum": [{"b": 1}]}}}),
    ("a large pattern", {"properties": {"a": {"pattern": "a{1,1000}{1,1000}"}}}),
    ("a long pattern", {"properties": {"a": {"pattern": "a" * 1_000}}}),
    ("backtracking", {"properties": {"a": {"pattern": "(?=a)b"}}}),
    ("a back reference", {"patternProperties": {r"(a)\1": True}}),
    ("many patterns", {"patternProperties": {f"a{n}": True for n in range(100)}}),
    ("a wrong type", {"properties": {"a": {"type": "int"}}}),
    ("no object", {"properties": [1]}),
    ("no schema", {"properties": {"a": 1}}),
    ("no text", {"properties": {"a": {"pattern": 1}}}),
    ("no list", {"required": "a"}),
    ("a wrong bound", {"minProperties": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schema"), REFUSED)
def test_no_stream_has_a_schema_that_takes_long_or_looks_elsewhere(name: str, schema: Any) -> None:
    with pytest.raises(SchemaRefused):
        CompiledSchema(schema)


def test_a_schema_has_its_size() -> None:
    for text in (b"[" * 10_000, b'{"title":"%b"}' % (b"x" * SCHEMA_BYTES_MAX), b"true", b"\xff"):
        with pytest.raises(SchemaRefused):
            read_schema(text)


WIDE = {"allOf": [{"type": "array", "maxItems": n} for n in range(1, 30)]}

TOO_MUCH = [("a", "too much to be checked")]

HEAVY = [
    ({"type": "array", "items": WIDE}, b"[" + b",".join([b"[]"] * 80_000) + b"]", TOO_MUCH),
    ({"type": "array", "uniqueItems": True}, json.dumps(list(range(40_000))).encode(), TOO_MUCH),
    ({"type": "object"}, b'{"a":' * 900 + b"1" + b"}" * 900, []),
    ({"type": "string", "pattern": "^(x+x+)+$"}, b"x" * 250_000, []),
    ({"type": "string", "maxLength": 10**6}, b"x" * 300_000, TOO_MUCH),
    ({"type": "string"}, b"x" * 16 * 2**20, []),
    (
        {"items": {"required": [f"r{n}" for n in range(500)]}},
        b"[" + b"{}," * 5_000 + b"{}]",
        TOO_MUCH,
    ),
]


@pytest.mark.parametrize(("field", "value", "expected"), HEAVY)
def test_what_takes_long_is_refused(field: Any, value: bytes, expected: Any) -> None:
    assert faults(compiled({"type": "array"} | field), b"a", value) == expected
