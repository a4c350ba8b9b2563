"""Evolution of schemas: which changes may refuse entries that were allowed before."""

from typing import Any

import pytest

from headgate.app.entry_schemas.evolution import narrowed


def of(field: Any = None, **root: Any) -> dict[str, Any]:
    """Return a schema of entries with a field `a`, and no others unless `root` says so."""
    named = {} if field is None else {"a": field}
    return {"type": "object", "properties": named, "additionalProperties": False} | root


INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
EMPTY: dict[str, Any] = {"type": "object"}
REF = {"$ref": "#/$defs/a"}

COMPATIBLE = [
    ("the same", of(INTEGER), of(INTEGER)),
    ("a text for people", of(INTEGER), of(INTEGER | {"title": "A", "x-unit": "s"}, title="T")),
    ("a new field of a closed schema", of(), of(INTEGER)),
    ("a new field that may be anything", EMPTY, EMPTY | {"properties": {"a": {}}}),
    ("open again", of(INTEGER), of(INTEGER, additionalProperties=True)),
    ("no more required", of(INTEGER, required=["a"]), of(INTEGER)),
    ("a wider type", of(INTEGER), of(NUMBER)),
    ("one more type", of(INTEGER), of({"type": ["integer", "null"]})),
    ("any type", of(INTEGER), of({})),
    ("one more value", of({"enum": ["a"]}), of({"enum": ["a", "b"]})),
    ("a value among others", of({"const": "a"}), of({"enum": ["b", "a"]})),
    ("a lower minimum", of(INTEGER | {"minimum": 2}), of(INTEGER | {"minimum": 1})),
    ("no maximum", of(INTEGER | {"maximum": 2}), of(INTEGER)),
    ("a longer text", of(TEXT | {"maxLength": 2}), of(TEXT | {"maxLength": 3})),
    ("no pattern", of(TEXT | {"pattern": "a"}), of(TEXT)),
    ("no format", of(TEXT | {"format": "date"}), of(TEXT)),
    ("a divisor", of(INTEGER | {"multipleOf": 4}), of(INTEGER | {"multipleOf": 2})),
    ("one more alternative", of({"anyOf": [INTEGER]}), of({"anyOf": [INTEGER, TEXT]})),
    ("wider items", of({"items": INTEGER}), of({"items": NUMBER})),
    ("a wider definition", of(REF, **{"$defs": {"a": INTEGER}}), of(REF, **{"$defs": {"a": {}}})),
    ("what allowed nothing", of(False), of(INTEGER)),
]

INCOMPATIBLE = [
    ("a removed field", of(INTEGER), of(), "/properties/a"),
    ("closed", EMPTY, of(), "/additionalProperties"),
    ("a new field of an open schema", EMPTY, EMPTY | {"properties": {"a": TEXT}}, "/properties/a"),
    ("newly required", of(INTEGER), of(INTEGER, required=["a"]), "/required"),
    ("also required", of(TEXT, required=[]), of(TEXT, required=["a"]), "/required"),
    ("a narrower type", of(NUMBER), of(INTEGER), "/properties/a/type"),
    ("another type", of(INTEGER), of(TEXT), "/properties/a/type"),
    ("a type", of({}), of(INTEGER), "/properties/a/type"),
    ("a removed value", of({"enum": ["a", "b"]}), of({"enum": ["a"]}), "/properties/a/enum"),
    ("1 is not true", of({"enum": [1]}), of({"enum": [True]}), "/properties/a/enum"),
    ("values at all", of(TEXT), of(TEXT | {"enum": ["a"]}), "/properties/a/enum"),
    ("a greater minimum", of({"minimum": 1}), of({"minimum": 2}), "/properties/a/minimum"),
    ("a minimum", of(INTEGER), of(INTEGER | {"minimum": 0}), "/properties/a/minimum"),
    ("a pattern", of(TEXT), of(TEXT | {"pattern": "a"}), "/properties/a/pattern"),
    ("another pattern", of({"pattern": "a"}), of({"pattern": "b"}), "/properties/a/pattern"),
    ("a format", of(TEXT), of(TEXT | {"format": "date"}), "/properties/a/format"),
    ("a multiple", of({"multipleOf": 2}), of({"multipleOf": 4}), "/properties/a/multipleOf"),
    ("unique items", of({}), of({"uniqueItems": True}), "/properties/a/uniqueItems"),
    ("narrower items", of({"items": NUMBER}), of({"items": INTEGER}), "/properties/a/items/type"),
    ("fewer alternatives", of({"anyOf": [TEXT, INTEGER]}), of({"anyOf": [TEXT]}), "/properties/a"),
    ("another condition", of(TEXT, **{"not": INTEGER}), of(TEXT, **{"not": TEXT}), "/not"),
    ("a dropped minContains", of(contains=TEXT, minContains=0), of(contains=TEXT), ""),
    (
        "a narrower definition",
        of(REF, **{"$defs": {"a": NUMBER}}),
        of(REF, **{"$defs": {"a": INTEGER}}),
        "/properties/a/$ref/type",
    ),
    (
        "a definition within a condition",
        of(TEXT, allOf=[REF], **{"$defs": {"a": EMPTY}}),
        of(TEXT, allOf=[REF], **{"$defs": {"a": NUMBER}}),
        "/allOf",
    ),
    ("values that are read as text", of({"enum": [1]}), of({"enum": [1, "a"]}), "/properties/a"),
]


@pytest.mark.parametrize(("name", "old", "new"), COMPATIBLE)
def test_what_allows_all_that_was_allowed_is_compatible(name: str, old: Any, new: Any) -> None:
    assert list(narrowed(old, new)) == [], name


@pytest.mark.parametrize(("name", "old", "new", "place"), INCOMPATIBLE)
def test_what_may_refuse_what_was_allowed_is_told(
    name: str, old: Any, new: Any, place: str
) -> None:
    places = ["".join(f"/{part}" for part in each.place) for each in narrowed(old, new)]
    assert places, name
    assert places[0].startswith(place), name
