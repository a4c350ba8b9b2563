"""Histories: what the gateway, its streams and its groups were like, and are right now."""

import asyncio
from collections.abc import AsyncGenerator
from math import isnan
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.http.answers import json_answer
from headgate.app.http.dependencies import AccessDep, GroupDep, StreamDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.http.streaming import EVENT_STREAM, HEARTBEAT, EventStream
from headgate.app.live.event_connection import EventConnection
from headgate.app.measuring.recorder import HistoryPart, HistoryQuestion, Step
from headgate.app.wire.events import event
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.histories import (
    GatewayHistory,
    GatewaySample,
    GroupHistory,
    StreamHistory,
)
from headgate.engine.errors import Draining, StreamError
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.streams import DescribeStream

admin = APIRouter(prefix="/v1/admin", tags=["Operations"], route_class=Operation)
router = APIRouter(prefix="/v1/streams/{stream}", tags=["Operations"], route_class=Operation)

_ANSWERS = responses("invalid_request", "unavailable")
_SAMPLE_S = 1.0


def asked_part(
    step: Annotated[
        Step, Query(description="`second`: the last 15 minutes. `minute`: the last day.")
    ] = Step.SECOND,
    after_ms: Annotated[
        int, Query(ge=0, le=COUNT_MAX, description="Only values after this unix time.")
    ] = 0,
) -> HistoryQuestion:
    return HistoryQuestion(step, after_ms)


QuestionDep = Annotated[HistoryQuestion, Depends(asked_part)]


@admin.get(
    "/history", operation_id="readGatewayHistory", response_model=GatewayHistory, responses=_ANSWERS
)
@needs(Verb.ADMIN)
async def gateway_history(request: Request, question: QuestionDep) -> Response:
    """Return the history of the gateway, over all its processes.

    With `minute`, values are the means of their seconds. `request_ms_p99`, `fsync_ms_p99` and
    `loop_delay_ms` are maximums.
    """
    part = await gateway_of(request).history.read(question)
    series: Any = part.series
    answer: GatewayHistory = {"step_ms": part.step_ms, "times_ms": part.times_ms, "series": series}
    return json_answer(answer)


@admin.get(
    "/history/events",
    operation_id="followGatewayHistory",
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM | responses("invalid_request", "too_many_connections"),
)
@needs(Verb.ADMIN, by_url=True)
async def gateway_events(request: Request, access: AccessDep) -> EventStream:
    """Send the state of the gateway once a second, as events `sample {time_ms, values}`.

    `values` has the names of the series of `GET /v1/admin/history`. The last event is `draining` or
    `problem`.
    """
    gateway = gateway_of(request)
    access = gateway.connected(access)
    return EventStream(_samples(request, access), gateway.limits)


@router.get(
    "/history",
    operation_id="readStreamHistory",
    response_model=StreamHistory,
    responses=_ANSWERS | responses("stream_not_found"),
)
@needs(Verb.READ, Verb.MANAGE)
async def stream_history(
    request: Request, access: AccessDep, stream: StreamDep, question: QuestionDep
) -> Response:
    """Return the history of a stream, if the stream is observed."""
    await access.perform(DescribeStream(stream))
    question = replace(question, stream=stream)
    return _answer(await gateway_of(request).history.read(question))


@router.get(
    "/groups/{group}/history",
    operation_id="readGroupHistory",
    response_model=GroupHistory,
    responses=_ANSWERS | responses("stream_not_found", "group_not_found"),
)
@needs(Verb.READ, Verb.CONSUME, Verb.MANAGE)
async def group_history(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep, question: QuestionDep
) -> Response:
    """Return the history of a group, if the group is observed.

    With `minute`, values are the means of their seconds. `oldest_pending_ms` is the maximum.
    """
    await access.perform(DescribeGroup(stream, group))
    question = replace(question, stream=stream, group=group)
    return _answer(await gateway_of(request).history.read(question))


def _answer(part: HistoryPart) -> Response:
    series: Any = part.series
    answer: StreamHistory | GroupHistory = {
        "step_ms": part.step_ms,
        "times_ms": part.times_ms,
        "observed": part.is_observed,
        "series": series,
    }
    return json_answer(answer)


async def _samples(request: Request, access: Access) -> AsyncGenerator[bytes, None]:
    """Yield an event for each new row of the history, until the connection has to end."""
    gateway = gateway_of(request)
    history = gateway.history
    connection = EventConnection(gateway, request, access)
    ended = asyncio.ensure_future(connection.wait_end())
    with connection.listed():
        try:
            with access.usage.connections.held():
                after_ms = 0
                while not ended.done():
                    rows = await history.read(HistoryQuestion(Step.SECOND, after_ms))
                    if rows.times_ms:
                        after_ms = rows.times_ms[-1]
                    yield event("sample", _newest(rows)) if rows.times_ms else HEARTBEAT
                    await asyncio.wait([ended], timeout=_SAMPLE_S)
                await ended
                yield connection.last_event(Draining())
        except (StreamError, GatewayError) as error:
            yield connection.last_event(error)
        finally:
            ended.cancel()
            del ended  # what it raised knows this frame


def _newest(rows: HistoryPart) -> GatewaySample:
    values = {name: values[-1] for name, values in rows.series.items()}
    return GatewaySample(
        time_ms=rows.times_ms[-1],
        values={name: None if isnan(value) else value for name, value in values.items()},
    )
