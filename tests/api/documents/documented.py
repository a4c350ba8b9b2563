"""The answers of an operation by the committed document."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

FOLDER = Path(__file__).parents[3] / "openapi"
DOCUMENT, FRAMES = FOLDER / "openapi.json", FOLDER / "asyncapi.json"
JSON_TYPES = "application/json", "application/problem+json"
LARGE_BYTES = 200_000
"""A larger answer has nothing that smaller ones have not."""


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@functools.cache
def _operations() -> list[tuple[re.Pattern[str], str, dict[str, Any]]]:
    """Return path, method and description of each operation; the fewer parameters the earlier."""
    paths = _read(DOCUMENT)["paths"]
    return [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), method, operation)
        for path in sorted(paths, key=lambda path: path.count("{"))
        for method, operation in paths[path].items()
    ]


def operation_of(request: httpx.Request) -> dict[str, Any] | None:
    """Return the operation a request is for, if it is for one."""
    path = request.url.raw_path.decode().partition("?")[0]
    for pattern, method, operation in _operations():
        if method == request.method.lower() and pattern.fullmatch(path):
            return operation
    return None


@functools.cache
def _validator(path: Path, schema: str) -> Any:
    """Return the validator of a schema, given as JSON, of a document."""
    components = {"components": {"schemas": _read(path)["components"]["schemas"]}}
    return jsonschema_rs.Draft202012Validator(json.loads(schema) | components)


async def check_answer(answer: httpx.Response) -> None:
    """Check an answer in JSON against its schema in the document, extremes included."""
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    operation = operation_of(answer.request)
    if media_type not in JSON_TYPES or operation is None:
        return
    response = operation["responses"].get(str(answer.status_code))
    content = {} if response is None else response.get("content", {})
    if media_type in content and int(answer.headers.get("content-length", 0)) <= LARGE_BYTES:
        value = json.loads(await answer.aread())
        _validator(DOCUMENT, json.dumps(content[media_type]["schema"])).validate(value)


def check_frame(frame: dict[str, Any]) -> None:
    """Check a frame of the gateway against its schema in the document."""
    _validator(FRAMES, json.dumps({"anyOf": _frames()[frame["type"]]})).validate(frame)


@functools.cache
def _frames() -> dict[str, list[dict[str, str]]]:
    """Return the schemas of the frames that the gateway sends, by type."""
    components = _read(FRAMES)["components"]
    frames: dict[str, list[dict[str, str]]] = {}
    for name, message in components["messages"].items():
        if name.startswith("send_"):
            schema = components["schemas"][message["payload"]["$ref"].rpartition("/")[2]]
            kind = schema["properties"]["type"]["const"]
            frames.setdefault(kind, []).append(message["payload"])
    return frames


def check_documented(answer: httpx.Response, code: str) -> None:
    """Check that the operation says it may answer with this problem."""
    operation = operation_of(answer.request)
    if operation is not None:
        response = operation["responses"].get(str(answer.status_code), {"description": "nothing"})
        name, description = operation["operationId"], response["description"]
        text = f"{name} may say {answer.status_code} {code}: {description}"
        assert f"`{code}`" in description, text
