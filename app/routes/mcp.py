"""MCP: the endpoint for AI agents (Model Context Protocol); its packages are in the extra `mcp`."""

from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Response
from starlette.types import Scope

from headgate.app.auth.needs import needs
from headgate.app.http.dependencies import LimitsDep
from headgate.app.http.operation import Operation, WholeRequest
from headgate.app.http.streaming import while_present
from headgate.app.runtime.threads import AGENTS
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.structure import DENSE_BYTES_MIN

# Not in the document: the protocol describes itself to its clients.
router = APIRouter(route_class=Operation, include_in_schema=False)

_BODY_BYTES_MAX = DENSE_BYTES_MIN
_READ_BYTES_MAX = 48 * 1024
"""Of names and values in one answer: models have little room."""

_Answering = Callable[[Scope, bytes, Mapping[str, Any]], Coroutine[Any, Any, Response]]


@cache
def _answering() -> _Answering:
    """Return what answers; the import takes as long as a start of the gateway."""
    try:
        answer: _Answering = import_module("headgate.app.mcp.endpoint").answer
    except ModuleNotFoundError:
        text = "this gateway does not have the packages for MCP: headgate[mcp] brings them"
        raise GatewayError("extra_missing", text) from None
    return answer


@router.post("/mcp", operation_id="callMcp")
@needs()
async def call_mcp(request: WholeRequest, limits: LimitsDep) -> Response:
    """Answer a message of an agent."""
    if len(request.content) > _BODY_BYTES_MAX:
        raise GatewayError("too_large", f"at most {_BODY_BYTES_MAX} bytes", pointer="/body")
    answer = await AGENTS.call(_answering)
    size_bytes = min(limits.read_bytes_max, _READ_BYTES_MAX)
    own = {"limits": limits.model_copy(update={"read_bytes_max": size_bytes})}
    return await while_present(request, answer(request.scope, request.content, own))
