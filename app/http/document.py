"""The parts of the OpenAPI document that the routes do not describe."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.routing import Route

from headgate.app.auth.needs import Needs
from headgate.app.http.dependencies import required_consumer
from headgate.app.http.operation import Operation
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.credentials import SECURITY_SCHEMES
from headgate.app.wire.examples import examples
from headgate.app.wire.problems import FenceProblem, KeyProblem, Problem, RowProblem, responses
from headgate.app.wire.schemas.entries import CloudEvent, EntryInput, without_null

_EVERYWHERE = responses(
    "unauthenticated",
    "forbidden",
    "origin_refused",
    "wrong_type",
    "too_large",
    "unsupported_media_type",
    "header_too_large",
    "rate_limited",
    "internal",
    "overloaded",
    "unavailable",
    "not_leader",
    "draining",
)

_LINKS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("appendEntry", "getEntry", {"id": "$response.body#/id"}),
    ("appendEntries", "getEntry", {"id": "$response.body#/last_id"}),
    ("createStream", "appendEntry", {}),
    ("readEntries", "readEntries", {"after": "$response.body#/next_after"}),
    ("getEntry", "deleteEntry", {}),
    ("createGroup", "readGroup", {}),
    ("readGroup", "ackEntries", {}),
    ("readGroup", "nackEntries", {}),
    ("readGroup", "extendEntries", {}),
    ("listPending", "claimEntries", {}),
    ("putRow", "readRow", {}),
    ("setPush", "describePush", {}),
    ("setSchedule", "runSchedule", {}),
    ("stageChunk", "commitBatch", {}),
)
"""Operations that follow one another, with values of the answer that the second one takes."""

_KEPT = (
    *("stream", "group", "consumer", "id", "key", "schedule", "writer", "batch"),
    *("match", "prefix"),
)
"""Parameters that the second one takes from the request of the first."""

_REF = "#/components/schemas/{model}"
# The first server: what is tried out on /docs goes to the gateway that serves it, by its own name.
_OWN = "The gateway that serves this document."
_LOCAL = {
    "url": "http://127.0.0.1:8080",
    "description": "A gateway on this machine with its default port.",
}


def install(app: FastAPI, root_path: str = "") -> None:
    """Make an app's document name the problems that any operation can answer with."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate(), _operations(app), root_path or "/")
        document: dict[str, Any] = app.openapi_schema or {}
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    _serve_from_thread(app)


def _serve_from_thread(app: FastAPI) -> None:
    """Build the document in a thread at its first request, as it takes 0.2 s."""
    url, lock, made = app.openapi_url, asyncio.Lock(), list[bytes]()

    async def serve(_: Request) -> Response:
        async with lock:
            if not made:
                made.append(await PAGES.call(lambda: to_json(app.openapi())))
        return Response(made[0], media_type="application/json")

    assert url is not None
    routes = app.router.routes
    [place] = [
        at for at, route in enumerate(routes) if isinstance(route, Route) and route.path == url
    ]
    routes[place] = Route(url, serve, include_in_schema=False)


def _operations(app: FastAPI) -> dict[str, Operation]:
    operations = (context.original_route for context in iter_route_contexts(app.routes))
    return {
        operation.operation_id: operation
        for operation in operations
        if isinstance(operation, Operation) and operation.operation_id is not None
    }


def _complete(document: dict[str, Any], operations: dict[str, Operation], own_url: str) -> None:
    document["servers"] = [{"url": own_url, "description": _OWN}, _LOCAL]
    components = document.setdefault("components", {})
    components["securitySchemes"] = SECURITY_SCHEMES
    schemas = components.setdefault("schemas", {})
    _, schema = models_json_schema(
        [
            (Problem, "serialization"),
            (RowProblem, "serialization"),
            (FenceProblem, "serialization"),
            (KeyProblem, "serialization"),
            (EntryInput, "validation"),
            (CloudEvent, "validation"),
        ],
        ref_template=_REF,
    )
    schemas.update(schema["$defs"])
    # FastAPI's own shape of a validation error, which this gateway never answers with.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _widen(document)
    shown = examples()
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in _EVERYWHERE.items():
                known = operation["responses"].get(str(status), {})
                operation["responses"][str(status)] = _merged(known, response)
            operation["summary"] = _first_sentence(operation["description"])
            route = operations[operation["operationId"]]
            _say_needs(operation, route.declared)
            _tighten(operation, names_consumer=_depends_on(route.dependant, required_consumer))
            _show(operation, shown.get(operation["operationId"], {}))
    _link(
        {each["operationId"]: each for path in document["paths"].values() for each in path.values()}
    )


def _say_needs(operation: dict[str, Any], needs: Needs) -> None:
    verbs = sorted(needs.verbs)
    operation["x-needs"] = verbs
    if needs.is_open:
        operation["security"] = []
        return
    schemes = list(SECURITY_SCHEMES) if needs.by_url else ["bearer"]
    # A gateway without credentials needs none.
    operation["security"] = [*({scheme: []} for scheme in schemes), {}]
    named = " or ".join(f"`{verb}`" for verb in verbs)
    operation["description"] += f"\n\nNeeds {named or 'any right'}."


def _tighten(operation: dict[str, Any], *, names_consumer: bool) -> None:
    """Say what the signatures cannot: no parameter is null, and some operations need a consumer."""
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = without_null(parameter["schema"])
        if names_consumer and (parameter["name"], parameter["in"]) == ("consumer", "query"):
            parameter["required"] = True


def _depends_on(dependant: Dependant, dependency: Callable[..., Any]) -> bool:
    return any(
        each.call is dependency or _depends_on(each, dependency) for each in dependant.dependencies
    )


def _link(operations: dict[str, dict[str, Any]]) -> None:
    pages = [
        (name, name, {"cursor": "$response.body#/next_cursor"})
        for name, operation in operations.items()
        if "cursor" in _places(operation)
    ]
    for name, target, values in (*_LINKS, *pages):
        here, there = _places(operations[name]), _places(operations[target])
        kept = (each for each in _KEPT if each in here and each in there)
        same = {each: f"$request.{here[each]}.{each}" for each in kept}
        link = {"operationId": target, "parameters": {**same, **values}}
        for status in {"200", "201"} & operations[name]["responses"].keys():
            operations[name]["responses"][status].setdefault("links", {})[target] = link


def _places(operation: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["in"] for each in operation.get("parameters", ())}


def _merged(known: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if not known:
        return response
    if "application/problem+json" not in known["content"]:
        return known
    codes = re.findall(r"`\w+`", response["description"])
    missing = [code for code in codes if code not in known["description"]]
    return {**known, "description": " or ".join([known["description"], *missing])}


def _widen(part: Any) -> None:
    """Give every integer the format int64: without it, generated clients use 32 bits."""
    if isinstance(part, dict):
        if part.get("type") == "integer":
            part["format"] = "int64"
        for each in part.values():
            _widen(each)
    elif isinstance(part, list):
        for each in part:
            _widen(each)


def _is_number(schema: dict[str, Any]) -> bool:
    return any(variant.get("type") == "integer" for variant in (schema, *schema.get("anyOf", ())))


def _first_sentence(text: str) -> str:
    return text.partition("\n")[0].partition(". ")[0].removesuffix(".")


def _show(operation: dict[str, Any], example: dict[str, Any]) -> None:
    values = example.get("parameters", {})
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in values:
            value = values[parameter["name"]]
            parameter["example"] = int(value) if _is_number(parameter["schema"]) else value
    bodies = [
        (operation.get("requestBody", {}), example.get("request", {})),
        (operation["responses"].get(example.get("status"), {}), example.get("response", {})),
    ]
    for body, shown in bodies:
        for media_type, value in shown.items():
            body["content"][media_type]["example"] = value
