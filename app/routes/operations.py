"""Operations: health, readiness, metrics, bounds."""

from functools import cache

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import is_open, needs
from headgate.app.backends.leading import bucket_of
from headgate.app.http.dependencies import LimitsDep, gateway_of
from headgate.app.http.operation import Operation, prompt
from headgate.app.live import asyncapi
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.limits import Limits
from headgate.app.wire.schemas.operations import Health
from headgate.engine.errors import Draining, NotLeader, Unavailable
from headgate.engine.replies import LeaderRole

router = APIRouter(tags=["Operations"], route_class=Operation)


@router.head("/healthz", include_in_schema=False)
@router.get(
    "/healthz",
    operation_id="checkHealth",
    responses=responses("invalid_request", "unavailable"),
    response_model_exclude_unset=True,
)
@is_open
@prompt
async def healthz(request: Request) -> Health:
    """Check that the gateway is alive, even if its disk accepts no writes."""
    if gateway_of(request).died.is_set():
        raise Unavailable("the gateway has failed and is shutting down")
    return Health(status="ok")


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    operation_id="checkReadiness",
    responses=responses("invalid_request", "draining", "unavailable", "not_leader"),
    response_model_exclude_unset=True,
)
@is_open
async def readyz(request: Request) -> Health:
    """Check that the gateway can serve all requests: it can write, has room, and is not draining.

    A standby is never ready, even if it answers reads, so that a load balancer finds the leader.
    """
    backend = gateway_of(request).backend
    if backend.is_draining:
        raise Draining
    bucket = bucket_of(backend)
    if bucket is not None and bucket.role is LeaderRole.STANDBY:
        raise NotLeader(bucket.leader)
    if backend.refusal is not None:
        raise Unavailable(backend.refusal)
    facts: dict[str, object] = {"durable": backend.durable}
    if bucket is not None:
        facts |= {"role": bucket.role, "unshipped_bytes": bucket.unshipped_bytes}
        if bucket.unshipped_ms is not None:
            facts["unshipped_ms"] = bucket.unshipped_ms
    if warnings := list(gateway_of(request).warnings()):
        facts["warnings"] = warnings
    return Health(status="ok").model_copy(update=facts)


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    operation_id="readMetrics",
    response_class=Response,
    responses={
        200: {
            "description": "Metrics in the Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **responses("invalid_request"),
    },
)
@needs(Verb.ADMIN, opened_by="open_metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics in the Prometheus text format."""
    text = await gateway_of(request).metrics_text()
    return Response(text, media_type="text/plain; version=0.0.4")


@router.head("/asyncapi.json", include_in_schema=False)
@router.get("/asyncapi.json", include_in_schema=False)
@is_open
async def asyncapi_document() -> Response:
    """Return the description of the WebSocket (AsyncAPI)."""
    return Response(await PAGES.call_if_awaited(_asyncapi), media_type="application/json")


@cache
def _asyncapi() -> bytes:
    return to_json(asyncapi.document())


@router.get("/v1/limits", operation_id="describeLimits", responses=responses("invalid_request"))
@needs()
async def limits(limits: LimitsDep) -> Limits:
    """Return the limits of this gateway."""
    return limits
