"""The documents do not break clients of the last release; and every way of doing so is seen."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.contract import breaks, schema_breaks
from tests.sdk.workshop import ROOT

OPENAPI = ROOT / "openapi"
Document = dict[str, Any]


def read(name: str) -> Document:
    document: Document = json.loads((OPENAPI / name).read_text())
    return document


def test_the_interface_breaks_no_client_of_the_last_release() -> None:
    changes = breaks(read("released/openapi.json"), read("openapi.json"))
    assert not changes, "\n".join(changes)


def test_the_conversation_breaks_no_client_of_the_last_release() -> None:
    old, new = read("released/asyncapi.json"), read("asyncapi.json")
    assert old["components"]["messages"].keys() <= new["components"]["messages"].keys()
    for name, message in old["components"]["messages"].items():
        schema = message["payload"]["$ref"].rpartition("/")[2]
        assert new["components"]["messages"][name]["payload"] == message["payload"]
        changes = schema_breaks(old, new, schema, is_sent=name.startswith("receive_"))
        assert not changes, "\n".join(changes)


def reference(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def content(schema: Document) -> Document:
    """Return a body that is of a schema, or a text."""
    return {"application/json": {"schema": schema}, "text/plain": {"schema": {"type": "string"}}}


SMALL: Document = {
    "paths": {
        "/things": {
            "get": {
                "operationId": "listThings",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 9}},
                    {"name": "order", "in": "query", "schema": {"enum": ["asc", "desc"]}},
                ],
                "responses": {
                    "200": {
                        "description": "",
                        "headers": {"ETag": {"schema": {"type": "string"}}},
                        "content": content({"type": "array", "items": reference("Thing")}),
                    },
                    "404": {"description": ""},
                },
            },
            "post": {
                "operationId": "makeThing",
                "requestBody": {"content": content(reference("New"))},
                "responses": {"204": {"description": ""}},
            },
        }
    },
    "components": {
        "schemas": {
            "Thing": {
                "type": "object",
                "required": ["id", "kind"],
                "properties": {
                    "id": {"type": "string"},
                    "kind": {"enum": ["a", "b"]},
                    "part": {"anyOf": [reference("Thing"), {"type": "null"}]},
                    "size": {"type": "integer", "format": "int64"},
                },
            },
            "New": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string", "minLength": 1, "maxLength": 9},
                    "kind": {"enum": ["a", "b"]},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                },
            },
        }
    },
}

GET = ("paths", "/things", "get")
POST = ("paths", "/things", "post")
THING = ("components", "schemas", "Thing")
NEW = ("components", "schemas", "New")
Change = Callable[[Document], object]


def at(document: Document, *path: Any) -> Any:
    """Return the part of a document at a path."""
    part: Any = document
    for step in path:
        part = part[step]
    return part


def put(*path: Any, value: Any) -> Change:
    """Return the change that sets a part of a document."""
    return lambda document: at(document, *path[:-1]).__setitem__(path[-1], value)


def drop(*path: Any) -> Change:
    """Return the change that takes a part out of a document."""
    return lambda document: at(document, *path[:-1]).__delitem__(path[-1])


LIST_200 = "GET /things -> 200"
THINGS = f"{LIST_200} application/json[] (Thing)"
MADE = "POST /things body application/json (New)"
LIMIT = "GET /things query parameter limit"

BREAKING: dict[str, Change] = {
    "GET /things: operation removed": drop("paths", "/things"),
    "POST /things: operation removed": drop(*POST),
    "GET /things: operationId listThings became all": put(*GET, "operationId", value="all"),
    "schema New: removed": drop(*NEW),
    f"{LIMIT}: removed": drop(*GET, "parameters", 0),
    f"{LIMIT}: became required": put(*GET, "parameters", 0, "required", value=True),
    "GET /things query parameter by: added as required": lambda document: at(
        document, *GET, "parameters"
    ).append({"name": "by", "in": "query", "required": True, "schema": {}}),
    f"{LIMIT}: maximum 9 became 8": put(*GET, "parameters", 0, "schema", "maximum", value=8),
    f"{LIMIT}: minimum none became 1": put(*GET, "parameters", 0, "schema", "minimum", value=1),
    f"{LIMIT}: type integer became string": put(
        *GET, "parameters", 0, "schema", value={"type": "string"}
    ),
    "GET /things query parameter order: desc is not taken any more": put(
        *GET, "parameters", 1, "schema", "enum", value=["asc"]
    ),
    f"{LIST_200}: status removed": drop(*GET, "responses", "200"),
    f"{LIST_200} text/plain: media type removed": drop(
        *GET, "responses", "200", "content", "text/plain"
    ),
    f"{LIST_200} header ETag: removed": drop(*GET, "responses", "200", "headers", "ETag"),
    f"{THINGS}.size: field removed": drop(*THING, "properties", "size"),
    f"{THINGS}.id: is not always there any more": put(*THING, "required", value=["kind"]),
    f"{THINGS}.id: type string became integer": put(
        *THING, "properties", "id", "type", value="integer"
    ),
    f"{THINGS}.size: format int64 became int32": put(
        *THING, "properties", "size", "format", value="int32"
    ),
    f"{THINGS}.kind: c may be answered now": put(
        *THING, "properties", "kind", "enum", value=["a", "b", "c"]
    ),
    f"{THINGS}.id: null may be answered now": put(
        *THING, "properties", "id", value={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "POST /things body: removed": drop(*POST, "requestBody"),
    "POST /things body: became required": put(*POST, "requestBody", "required", value=True),
    "POST /things body text/plain: media type removed": drop(
        *POST, "requestBody", "content", "text/plain"
    ),
    f"{MADE}.tags: field removed": drop(*NEW, "properties", "tags"),
    f"{MADE}.kind: became required": put(*NEW, "required", value=["id", "kind"]),
    f"{MADE}.more: added as required": lambda document: (
        put(*NEW, "properties", "more", value={})(document),
        put(*NEW, "required", value=["id", "more"])(document),
    ),
    f"{MADE}.kind: b is not taken any more": put(*NEW, "properties", "kind", "enum", value=["a"]),
    f"{MADE}.note: null is not taken any more": put(
        *NEW, "properties", "note", value={"type": "string"}
    ),
    f"{MADE}.tags[]: type string became integer": put(
        *NEW, "properties", "tags", "items", "type", value="integer"
    ),
    f"{MADE}.tags: maxItems 3 became 2": put(*NEW, "properties", "tags", "maxItems", value=2),
    f"{MADE}.id: minLength 1 became 2": put(*NEW, "properties", "id", "minLength", value=2),
    f"{MADE}.id: pattern none became x": put(*NEW, "properties", "id", "pattern", value="x"),
    f"{MADE}: further fields are refused": put(*NEW, "additionalProperties", value=False),
}


@pytest.mark.parametrize("change", BREAKING)
def test_a_breaking_change_is_named_with_its_place(change: str) -> None:
    changed = copy.deepcopy(SMALL)
    BREAKING[change](changed)
    if change == "schema New: removed":
        del changed["paths"]["/things"]["post"]  # or nothing would know it any more

    assert change in breaks(SMALL, changed)


COMPATIBLE: dict[str, Change] = {
    "nothing": lambda _: None,
    "a path": put("paths", "/more", value={}),
    "an operation": put("paths", "/things", "delete", value={"operationId": "x", "responses": {}}),
    "a schema": put("components", "schemas", "More", value={}),
    "an optional parameter": lambda document: at(document, *GET, "parameters").append(
        {"name": "by", "in": "query", "schema": {}}
    ),
    "a wider bound": put(*GET, "parameters", 0, "schema", "maximum", value=10),
    "no bound": drop(*GET, "parameters", 0, "schema", "maximum"),
    "a value to send": put(*NEW, "properties", "kind", "enum", value=["a", "b", "c"]),
    "a type to send": put(*GET, "parameters", 0, "schema", "type", value="number"),
    "a field to send": put(*NEW, "properties", "more", value={"type": "string"}),
    "a field to leave out": put(*NEW, "required", value=[]),
    "null to send": put(
        *NEW,
        "properties",
        "tags",
        value={"anyOf": [at(SMALL, *NEW, "properties", "tags"), {"type": "null"}]},
    ),
    "a media type to send": put(*POST, "requestBody", "content", "text/csv", value={}),
    "a status": put(*GET, "responses", "429", value={"description": ""}),
    "a media type to ask for": put(*GET, "responses", "200", "content", "text/csv", value={}),
    "a field answered": put(*THING, "properties", "more", value={"type": "string"}),
    "a field always answered": put(*THING, "required", value=["id", "kind", "size"]),
    "a value answered no more": put(*THING, "properties", "kind", "enum", value=["a"]),
    "null answered no more": put(*THING, "properties", "part", value=reference("Thing")),
    "a text": put(*GET, "responses", "200", "description", value="Things."),
}


@pytest.mark.parametrize("what", COMPATIBLE)
def test_a_compatible_change_passes(what: str) -> None:
    changed = copy.deepcopy(SMALL)
    COMPATIBLE[what](changed)

    assert breaks(SMALL, changed) == []
