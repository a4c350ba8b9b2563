"""Places of requests where a value stands: they come from the document, so a new one is tried."""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "openapi" / "openapi.json").read_text()
)
HERE = "@@"
"""Stands for the value in what is about to be sent."""

NAMES = {
    "stream": "orders",
    "group": "billing",
    "consumer": "worker",
    "id": "1-0",
    "writer": "w",
    "name": "nightly",
}


class Place(NamedTuple):
    """A request with `HERE` in one place."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    pointer: str
    schema: dict[str, Any]  # of what stands there


def places(path: str) -> Iterator[Place]:
    """Yield the places in requests to a path of the document."""
    for method, operation in DOCUMENT["paths"][path].items():
        yield from _places_of(path, method, operation)


def _places_of(path: str, method: str, operation: dict[str, Any]) -> Iterator[Place]:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    body = None if schema is None else sample(schema, DOCUMENT)
    parameters = operation.get("parameters", [])
    named = [each["name"] for each in parameters if each["in"] == "path"]
    values = {name: NAMES.get(name, "1") for name in named}
    plain = path.format(**values)
    if any(each["name"] == "consumer" and each["in"] == "query" for each in parameters):
        plain += "?consumer=worker"
    joint = "&" if "?" in plain else "?"
    bare = plain
    if any(each["name"] == "match" and each["required"] for each in parameters):
        plain += f"{joint}match=orders*"
    for parameter in parameters:
        name, below = parameter["name"], resolved(parameter["schema"], DOCUMENT)
        pointer = f"/{parameter['in']}/{name}"
        if parameter["in"] == "path" and (name not in NAMES or name == "id"):
            yield Place(method, path.format(**values | {name: HERE}), {}, body, pointer, below)
        elif parameter["in"] == "query" and name not in ("consumer", "prefix", "cursor"):
            where = bare if name == "match" else plain
            joint = "&" if "?" in where else "?"
            yield Place(method, f"{where}{joint}{name}={HERE}", {}, body, pointer, below)
        elif parameter["in"] == "header":
            yield Place(method, plain, {name: HERE}, body, pointer, below)
    if schema is not None:
        for wrong, pointer, below in placed(schema, DOCUMENT, "/body"):
            yield Place(method, plain, {}, wrong, pointer, below)


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the reference it may be."""
    while "$ref" in schema:
        path = schema["$ref"].removeprefix("#/").split("/")
        schema = reduce(lambda part, name: part[name], path, document)
    return schema


def sample(schema: dict[str, Any], document: dict[str, Any], name: str = "") -> Any:
    """Return something of a schema, as small as can be."""
    schema = resolved(schema, document)
    if name in NAMES:
        return NAMES[name]
    for key in ("const", "default", "examples", "enum", "anyOf", "oneOf"):
        if key in ("anyOf", "oneOf") and key in schema:
            return sample(schema[key][0], document, name)
        if key in schema:
            return schema[key][0] if key in ("examples", "enum") else schema[key]
    if schema.get("type") == "object":
        required = schema.get("required", ())
        return {key: sample(schema["properties"][key], document, key) for key in required}
    if schema.get("type") == "array":
        return [sample(schema["items"], document)]
    return {"integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), "1-0")


def placed(
    schema: dict[str, Any], document: dict[str, Any], pointer: str = ""
) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield something of a schema for each place in it, with the place's pointer and schema."""
    schema = resolved(schema, document)
    yield HERE, pointer, schema
    for variant in schema.get("anyOf", schema.get("oneOf", ())):
        if resolved(variant, document).get("type") in ("array", "object"):
            yield from list(placed(variant, document, pointer))[1:]
    if schema.get("type") == "array":
        for body, where, below in placed(schema.get("items", {}), document, f"{pointer}/0"):
            yield [body], where, below
    elif schema.get("type") == "object":
        smallest = sample(schema, document)
        for key, part in schema.get("properties", {}).items():
            for body, where, below in placed(part, document, f"{pointer}/{key}"):
                yield {**smallest, key: body}, where, below


def kinds(schema: dict[str, Any], document: dict[str, Any]) -> set[str]:
    """Return the types of JSON that a schema takes; none: any will do."""
    schema = resolved(schema, document)
    variants = schema.get("anyOf", schema.get("oneOf"))
    if variants is not None:
        taken = [kinds(variant, document) for variant in variants]
        return set().union(*taken) if all(taken) else set()
    kind = schema.get("type", ())
    return {kind} if isinstance(kind, str) else set(kind)
