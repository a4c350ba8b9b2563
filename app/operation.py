"""Operation: the route class of the interface. It refuses what FastAPI would let pass.

A body must be of a media type the operation takes, and every query parameter must be one the
operation knows: what is not understood is refused, never ignored.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute

from app.problems import GatewayError

JSON = frozenset({"application/json"})


class Operation(APIRoute):
    """A route that is strict about media types and query parameters."""

    media_types = JSON

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the checks in front."""
        handle = super().get_route_handler()
        known = {
            field.alias
            for field in get_flat_params(self.dependant)
            if getattr(field.field_info, "in_", None) is ParamTypes.query
        }

        async def check_and_handle(request: Request) -> Response:
            check_query(request, known)
            check_media_type(request, self.media_types)
            return await handle(request)

        return check_and_handle


class BatchOperation(Operation):
    """An operation that also takes one JSON value per line."""

    media_types = JSON | {"application/x-ndjson"}


class PatchOperation(Operation):
    """An operation that takes a merge patch (RFC 7396)."""

    media_types = JSON | {"application/merge-patch+json"}


def check_query(request: Request, known: set[str]) -> None:
    """Refuse query parameters the operation does not know, or that are given twice.

    Raises:
        GatewayError: naming the first.
    """
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise GatewayError(
                "invalid_request", f"unknown parameter {name!r}", pointer=f"/query/{name}"
            )
        if name in seen:
            raise GatewayError(
                "invalid_request", f"{name!r} is given twice", pointer=f"/query/{name}"
            )
        seen.add(name)


def media_type_of(request: Request) -> str:
    """Return the media type of the request's body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, media_types: frozenset[str]) -> None:
    """Refuse a body of a media type the operation does not take.

    Raises:
        GatewayError: naming those it takes.
    """
    has_body = request.headers.get("content-length", "0") != "0"
    has_body = has_body or "transfer-encoding" in request.headers
    if has_body and media_type_of(request) not in media_types:
        expected = " or ".join(sorted(media_types))
        text = f"the body must be {expected}: say so in the Content-Type header"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")
