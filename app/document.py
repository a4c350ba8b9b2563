"""Document: what the OpenAPI document says beyond what the routes say themselves."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.problems import Problem, responses
from app.schemas import NewEntry

_EVERYWHERE = responses(
    "origin_refused", "too_large", "unsupported_media_type", "internal", "unavailable", "draining"
)
_REF = "#/components/schemas/{model}"


def install(app: FastAPI) -> None:
    """Make an app's document name the problems that any operation can answer with."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        document: dict[str, Any] = app.openapi_schema or {}
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def _complete(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _, found = models_json_schema(
        [(Problem, "serialization"), (NewEntry, "validation")], ref_template=_REF
    )
    schemas.update(found["$defs"])
    # FastAPI's own shape of a validation error, which this gateway never answers with.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in _EVERYWHERE.items():
                operation["responses"].setdefault(str(status), response)
