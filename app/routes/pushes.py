"""Pushes: set, describe, list, delete, pause, resume, retry, and rotate the secret."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import is_open, needs
from headgate.app.automation import pushes
from headgate.app.automation.push_acts import PushActs, PushTools, may_manage
from headgate.app.automation.pushes import PushPlace
from headgate.app.automation.signing import known_key
from headgate.app.automation.webhooks import NO_KEYS
from headgate.app.backends.port import Ability
from headgate.app.http.answers import json_answer
from headgate.app.http.dependencies import (
    CURSOR,
    AccessDep,
    GroupDep,
    LimitsDep,
    PatternDep,
    StreamDep,
    check_at_most,
    cursor_of,
    gateway_of,
    page_after,
)
from headgate.app.http.operation import Operation
from headgate.app.wire.problems import Code, responses
from headgate.app.wire.pushes import (
    PatternPushInput,
    Push,
    Pushes,
    PushInput,
    RetriedPush,
    SecretRotation,
)

router = APIRouter(prefix="/v1", tags=["Push"], route_class=Operation)

_JWK_SET = "application/jwk-set+json"
_JWK = {"type": "object", "additionalProperties": {"type": "string"}}
_JWKS = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": _JWK}},
}
_PLACE = "/streams/{stream}/groups/{group}/push"
_PATTERN_PLACE = "/groups/{group}/push"

_FIND = responses("not_found", "stream_not_found", "group_not_found", "invalid_request")
_CHANGE = _FIND | responses("overloaded", "memory_full")
_ROTATE = _CHANGE | responses("malformed", "unsupported_media_type", "not_supported")
_SETTING: tuple[Code, ...] = (
    "malformed",
    "limit_reached",
    "unsupported_media_type",
    "invalid_request",
    "overloaded",
    "memory_full",
    "not_supported",
)
_THERE: dict[int | str, dict[str, object]] = {
    200: {"description": "It was there, and is as asked for now.", "model": Push}
}
_SET = _THERE | responses(*_SETTING, "stream_not_found", "group_not_found")
_PATTERN_SET = _THERE | responses(*_SETTING, "invalid_id")
_PATTERN_FIND = responses("not_found", "invalid_request", "not_supported")
_PATTERN_CHANGE = _PATTERN_FIND | responses("overloaded", "memory_full")


def push_tools(request: Request) -> PushTools:
    gateway = gateway_of(request)
    return PushTools(gateway.backend.perform, gateway.targets, gateway.sealing, gateway.auth.now_ms)


ToolsDep = Annotated[PushTools, Depends(push_tools)]


def push_of_group(
    access: AccessDep, tools: ToolsDep, stream: StreamDep, group: GroupDep
) -> PushActs:
    return PushActs(access, PushPlace(stream, group), tools)


def push_of_pattern(
    request: Request, access: AccessDep, tools: ToolsDep, group: GroupDep, pattern: PatternDep
) -> PushActs:
    gateway_of(request).require(Ability.PATTERNS)
    return PushActs(access, PushPlace(pattern, group, is_pattern=True), tools)


PushDep = Annotated[PushActs, Depends(push_of_group)]
PatternPushDep = Annotated[PushActs, Depends(push_of_pattern)]


@router.put(_PLACE, operation_id="setPush", status_code=201, responses=_SET)
@needs(Verb.PUSH)
async def set_push(push: PushDep, response: Response, new: PushInput) -> Push:
    """Let the gateway send the entries of a group to a URL, or change how it does.

    The gateway is a consumer of the group. Each entry comes at least once, in a POST with the
    signature of Standard Webhooks; `webhook-id` is the same whenever it comes again. 2xx
    acknowledges it. 410 disables the push; behind 429 and 503 nothing is sent for the time of
    `Retry-After`. Everything else is a failure: the group's policy says when the entry comes again
    (`backoff_ms`; 1 s, 2 s, 4 s up to 5 min unless given), when it becomes a dead letter, in which
    order, and how many there are a second. A receiver that does nothing but fail gets one request
    for each backoff.

    The answer has the `secret`, once; a push that was there keeps its own, unless that cannot be
    read any more. This needs `push`, `manage` and `consume` on the group.
    """
    answer, is_new = await push.put(new)
    response.status_code = 201 if is_new else 200
    return answer


@router.get(_PLACE, operation_id="describePush", responses=_FIND)
@needs(Verb.MANAGE)
async def describe_push(push: PushDep) -> Push:
    """Describe the push of a group, and what its receiver answered."""
    return await push.describe()


@router.get(
    "/pushes",
    operation_id="listPushes",
    response_model=Pushes,
    responses=responses("invalid_request"),
)
@needs(Verb.MANAGE)
async def list_pushes(
    access: AccessDep,
    tools: ToolsDep,
    limits: LimitsDep,
    limit: Annotated[int, Query(ge=1, le=1000, description="Pushes of one page, at most.")] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Response:
    """List the pushes of all groups that one may manage. A page may have fewer than the limit."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = page_after(cursor, limit)
    stored, last_name = await pushes.load_page(tools.perform, page.after, limit)
    shown = [
        await tools.summary(each.push, each) for each in stored if may_manage(access, each.push)
    ]
    next_cursor = None if last_name is None else cursor_of(last_name)
    answer: Pushes = {"pushes": shown, "next_cursor": next_cursor}
    return json_answer(answer)


@router.delete(_PLACE, operation_id="deletePush", status_code=204, responses=_CHANGE)
@needs(Verb.MANAGE)
async def delete_push(push: PushDep) -> None:
    """Delete the push of a group. The group stays, and what was not acknowledged is pending."""
    await push.delete()


@router.post(f"{_PLACE}/pause", operation_id="pausePush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def pause_push(push: PushDep) -> Push:
    """Let a push send nothing until it is resumed. Requests on their way end."""
    return await push.pause()


@router.post(f"{_PLACE}/resume", operation_id="resumePush", responses=_CHANGE)
@needs(Verb.PUSH)
async def resume_push(push: PushDep) -> Push:
    """Let a push go on that was paused or disabled."""
    return await push.resume()


@router.post(f"{_PLACE}/retry", operation_id="retryPush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def retry_push(push: PushDep) -> RetriedPush:
    """Send at once what failed and would have to wait, 10,000 entries at most."""
    return await push.retry()


@router.post(f"{_PLACE}/rotate", operation_id="rotatePushSecret", responses=_ROTATE)
@needs(Verb.MANAGE)
async def rotate_push_secret(push: PushDep, rotation: SecretRotation | None = None) -> Push:
    """Replace the secret of a push. The answer has the new one, once.

    Requests are signed with both for a while, so receivers can change theirs without haste.
    """
    return await push.rotate(rotation)


@router.put(_PATTERN_PLACE, operation_id="setPatternPush", status_code=201, responses=_PATTERN_SET)
@needs(Verb.PUSH)
async def set_pattern_push(push: PatternPushDep, response: Response, new: PatternPushInput) -> Push:
    """Let the gateway send the entries of the group of this name in all streams that match.

    It is `setPush` for a group over a pattern, which the gateway reads as `readGroups` does:
    streams take turns, streams that are made later are among them, and `create` makes the group
    where there is none. `$` in it means the end of each stream that is there when the push is set,
    and the beginning of those that come later. A request has entries of one stream, and says which.
    In each stream the policy of the group holds; what fails in one holds up no other, as long as
    the receiver does not fail for all of them. `concurrency` counts the requests of all streams.
    The push does not end with any stream or group: delete it.

    It reads the streams in which the credential has `push`, `manage` and `consume` on the group
    when the push is set, and creates groups where it has `manage`. That stays so, whatever becomes
    of the credential; set the push again to have it as it is then. To see and to change the push
    needs `manage` on the group in all streams that it may read, to resume it `push` as well.
    """
    answer, is_new = await push.put(new)
    response.status_code = 201 if is_new else 200
    return answer


@router.get(_PATTERN_PLACE, operation_id="describePatternPush", responses=_PATTERN_FIND)
@needs(Verb.MANAGE)
async def describe_pattern_push(push: PatternPushDep) -> Push:
    """Describe the push of a group over a pattern, and what its receiver answered."""
    return await push.describe()


@router.delete(
    _PATTERN_PLACE, operation_id="deletePatternPush", status_code=204, responses=_PATTERN_CHANGE
)
@needs(Verb.MANAGE)
async def delete_pattern_push(push: PatternPushDep) -> None:
    """Delete the push of a group over a pattern. The groups stay, with what is pending."""
    await push.delete()


@router.post(f"{_PATTERN_PLACE}/pause", operation_id="pausePatternPush", responses=_PATTERN_CHANGE)
@needs(Verb.MANAGE)
async def pause_pattern_push(push: PatternPushDep) -> Push:
    """Let a push over a pattern send nothing until it is resumed. Requests on their way end."""
    return await push.pause()


@router.post(
    f"{_PATTERN_PLACE}/resume", operation_id="resumePatternPush", responses=_PATTERN_CHANGE
)
@needs(Verb.PUSH)
async def resume_pattern_push(push: PatternPushDep) -> Push:
    """Let a push over a pattern go on that was paused or disabled."""
    return await push.resume()


@router.post(f"{_PATTERN_PLACE}/retry", operation_id="retryPatternPush", responses=_PATTERN_CHANGE)
@needs(Verb.MANAGE)
async def retry_pattern_push(push: PatternPushDep) -> RetriedPush:
    """Send at once what failed in any stream and would have to wait, 10,000 entries at most."""
    return await push.retry()


@router.post(f"{_PATTERN_PLACE}/rotate", operation_id="rotatePatternPushSecret", responses=_ROTATE)
@needs(Verb.MANAGE)
async def rotate_pattern_push_secret(
    push: PatternPushDep, rotation: SecretRotation | None = None
) -> Push:
    """Replace the secret of a push over a pattern, as `rotatePushSecret` does."""
    return await push.rotate(rotation)


@router.get(
    "/push/jwks.json",
    operation_id="getPushKeys",
    response_class=Response,
    responses={
        200: {"description": "The keys.", "content": {_JWK_SET: {"schema": _JWKS}}},
        **responses("invalid_request"),
    },
)
@is_open
async def get_push_keys(request: Request) -> Response:
    """Return the public keys of pushes that sign with `v1a`, as a JWK Set."""
    gateway = gateway_of(request)
    key = await known_key(gateway.backend.perform, gateway.sealing)
    headers = {"Content-Type": _JWK_SET, "Cache-Control": "public, max-age=300"}
    return Response(NO_KEYS if key is None else key.jwks(), 200, headers)
