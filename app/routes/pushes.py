"""Pushes: set, described, listed, deleted, paused, resumed, retried, tested, replayed."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import is_open, needs
from headgate.app.automation import pushes
from headgate.app.automation.push_acts import PushActs, may_manage
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
    ToolsDep,
    check_at_most,
    cursor_of,
    gateway_of,
    page_after,
)
from headgate.app.http.operation import Operation
from headgate.app.wire.ids import AnId, parse_id
from headgate.app.wire.problems import SETTING, responses
from headgate.app.wire.pushes import (
    PatternPushInput,
    Push,
    PushAttempt,
    PushAttempts,
    Pushes,
    PushInput,
    PushReplay,
    PushReplayInput,
    RetriedPush,
    SecretRotation,
)
from headgate.engine.entry import EntryId

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
_REPLAY = _CHANGE | responses("malformed", "unsupported_media_type", "invalid_id", "limit_reached")
_ATTEMPTS = _FIND | responses("invalid_id")
_TEST = _CHANGE | responses("rate_limited", "not_supported")
_THERE: dict[int | str, dict[str, object]] = {
    200: {"description": "The push already existed, and now has these settings.", "model": Push}
}
_SET = _THERE | responses(*SETTING, "not_supported", "stream_not_found", "group_not_found")
_PATTERN_SET = _THERE | responses(*SETTING, "not_supported", "invalid_id")
_PATTERN_FIND = responses("not_found", "invalid_request", "not_supported")
_PATTERN_CHANGE = _PATTERN_FIND | responses("overloaded", "memory_full")
_PATTERN_TEST = _PATTERN_CHANGE | responses("rate_limited")


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


class AttemptsPage(NamedTuple):
    limit: int
    before: EntryId | None
    entry_id: EntryId | None  # None: attempts of all entries


def attempts_page(
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of attempts per page.")
    ] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
    entry_id: Annotated[
        AnId | None, Query(alias="id", description="Id of an entry: only its attempts are listed.")
    ] = None,
) -> AttemptsPage:
    after = page_after(cursor, limit).after
    text = None if after is None else after.decode(errors="replace")
    before = None if text is None else parse_id(text, field="/query/cursor")
    of = None if entry_id is None else parse_id(entry_id, field="/query/id")
    return AttemptsPage(limit, before, of)


AttemptsDep = Annotated[AttemptsPage, Depends(attempts_page)]


async def _attempts(push: PushActs, page: AttemptsPage) -> Response:
    found, end = await push.attempts(page.limit, before=page.before, of=page.entry_id)
    next_cursor = None if end is None else cursor_of(str(end).encode())
    answer: PushAttempts = {"attempts": found, "next_cursor": next_cursor}
    return json_answer(answer)


@router.put(_PLACE, operation_id="setPush", status_code=201, responses=_SET)
@needs(Verb.PUSH)
async def set_push(push: PushDep, response: Response, new: PushInput) -> Push:
    """Send the entries of a group to a URL, or change how they are sent.

    The gateway is a consumer of the group. It sends each entry at least once, in a POST request
    with a signature as of Standard Webhooks. `webhook-id` stays the same when an entry is sent
    again. The answer of the receiver has these effects:

    - 2xx acknowledges the entry.
    - 410 disables the push.
    - 429 and 503 stop requests for the time in `Retry-After`.
    - Everything else is a failure.

    The policy of the group says when a failed entry is sent again (`backoff_ms`; default: 1 s, 2 s,
    4 s up to 5 min), when it becomes a dead letter, in which order entries are sent, and how many
    per second. If all requests fail, the receiver gets only one request per backoff.

    The answer has the `secret`, once. A push that already exists keeps its secret, unless the
    gateway cannot read it any more. Setting a push needs `push`, `manage` and `consume` on the
    group.
    """
    answer, is_new = await push.put(new)
    response.status_code = 201 if is_new else 200
    return answer


@router.get(_PLACE, operation_id="describePush", responses=_FIND)
@needs(Verb.MANAGE)
async def describe_push(push: PushDep) -> Push:
    """Describe the push of a group and the latest answers of its receiver."""
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
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of pushes per page.")
    ] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Response:
    """List the pushes of all groups that you may manage. A page may have fewer than the limit."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = page_after(cursor, limit)
    stored, last_name = await pushes.load_page(tools.perform, page.after, limit)
    shown = [
        await tools.summary(each.push, each) for each in stored if may_manage(access, each.push)
    ]
    next_cursor = None if last_name is None else cursor_of(last_name)
    answer: Pushes = {"pushes": shown, "next_cursor": next_cursor}
    return json_answer(answer)


@router.get(
    f"{_PLACE}/attempts",
    operation_id="listPushAttempts",
    response_model=PushAttempts,
    responses=_ATTEMPTS,
)
@needs(Verb.MANAGE)
async def list_push_attempts(push: PushDep, page: AttemptsDep) -> Response:
    """List the attempts of a push, newest first; with `id`, those of one entry.

    The gateway keeps the latest 10,000 attempts of a push for `attempts_days`. It writes them about
    once a second, so a gateway that crashes loses the newest ones. A page may have fewer attempts
    than the limit.
    """
    return await _attempts(push, page)


@router.delete(_PLACE, operation_id="deletePush", status_code=204, responses=_CHANGE)
@needs(Verb.MANAGE)
async def delete_push(push: PushDep) -> None:
    """Delete the push of a group. The group stays, and unacknowledged entries stay pending."""
    await push.delete()


@router.post(f"{_PLACE}/pause", operation_id="pausePush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def pause_push(push: PushDep) -> Push:
    """Pause a push until it is resumed. Requests in flight finish."""
    return await push.pause()


@router.post(f"{_PLACE}/resume", operation_id="resumePush", responses=_CHANGE)
@needs(Verb.PUSH)
async def resume_push(push: PushDep) -> Push:
    """Resume a push that was paused or disabled."""
    return await push.resume()


@router.post(f"{_PLACE}/retry", operation_id="retryPush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def retry_push(push: PushDep) -> RetriedPush:
    """Retry failed entries at once instead of after their delay, at most 10,000 entries."""
    return await push.retry()


@router.post(f"{_PLACE}/test", operation_id="testPush", responses=_TEST)
@needs(Verb.PUSH)
async def test_push(push: PushDep) -> PushAttempt:
    """Send a test event to the URL of a push now, and return the result.

    The request has the format, the headers and the signature of the push. Its entry has the id
    `0-0` and the field `test`, and the header `headgate-test` is `true`. No entry of the stream is
    sent or acknowledged, and the counts of the push do not change. You can also test a push that is
    paused or disabled. A push sends one test event at a time; you need `push` and `manage`.
    """
    return await push.test()


@router.post(f"{_PLACE}/replay", operation_id="replayPush", responses=_REPLAY)
@needs(Verb.PUSH)
async def replay_push(push: PushDep, wanted: PushReplayInput) -> PushReplay:
    """Send entries of a range again, without moving the group; `dry_run` only counts them.

    The gateway sends the entries from `start` to `end` that match `filter` and the filters of the
    group, up to the last entry that the group has read. The requests have the usual `webhook-id`,
    and the header `headgate-replay` with the id of the replay. They use at most half of
    `concurrency`, and one request at a time if the group has a `key_field`. A failed entry is
    retried by the policy of the group, but sent at most 5 times; then it counts as failed. Nothing
    is acknowledged in the group.

    A push has one replay at a time; `describePush` shows its progress. After a restart the gateway
    continues, and sends up to 1,000 entries once more. To start a replay, you need `push`, `manage`
    and `consume` on the group.
    """
    return await push.replay(wanted)


@router.delete(f"{_PLACE}/replay", operation_id="cancelPushReplay", responses=_CHANGE)
@needs(Verb.MANAGE)
async def cancel_push_replay(push: PushDep) -> PushReplay:
    """Cancel the replay of a push. Entries that were sent stay sent."""
    return await push.cancel_replay()


@router.post(f"{_PLACE}/rotate", operation_id="rotatePushSecret", responses=_ROTATE)
@needs(Verb.MANAGE)
async def rotate_push_secret(push: PushDep, rotation: SecretRotation | None = None) -> Push:
    """Replace the secret of a push. The answer has the new secret, once.

    For a while, requests are signed with both secrets, so that receivers have time to change
    theirs.
    """
    return await push.rotate(rotation)


@router.put(_PATTERN_PLACE, operation_id="setPatternPush", status_code=201, responses=_PATTERN_SET)
@needs(Verb.PUSH)
async def set_pattern_push(push: PatternPushDep, response: Response, new: PatternPushInput) -> Push:
    """Send the entries of the group of this name, in all streams that match, to a URL.

    This is `setPush` for a group over a pattern. The gateway reads the streams as `readGroups`
    does: streams take turns, streams that are created later are included, and `create` creates the
    group where it is missing. `$` in `create` means the end of each stream that exists when the
    push is set, and the beginning of streams that are created later. A request has entries of one
    stream, and names it. The policy of the group applies in each stream. Failures in one stream do
    not delay others, unless all requests to the receiver fail. `concurrency` counts the requests of
    all streams. The push does not end with any stream or group: delete it.

    The push reads the streams in which the credential has `push`, `manage` and `consume` on the
    group when the push is set. It creates groups where the credential has `manage`. Later changes
    of the credential have no effect until you set the push again. To describe and change the push,
    you need `manage` on the group in all streams that it may read; to resume it, `push` as well.
    """
    answer, is_new = await push.put(new)
    response.status_code = 201 if is_new else 200
    return answer


@router.get(_PATTERN_PLACE, operation_id="describePatternPush", responses=_PATTERN_FIND)
@needs(Verb.MANAGE)
async def describe_pattern_push(push: PatternPushDep) -> Push:
    """Describe the push of a group over a pattern and the latest answers of its receiver."""
    return await push.describe()


@router.get(
    f"{_PATTERN_PLACE}/attempts",
    operation_id="listPatternPushAttempts",
    response_model=PushAttempts,
    responses=_PATTERN_FIND | responses("invalid_id"),
)
@needs(Verb.MANAGE)
async def list_pattern_push_attempts(push: PatternPushDep, page: AttemptsDep) -> Response:
    """List the attempts of a push over a pattern, as `listPushAttempts` does."""
    return await _attempts(push, page)


@router.delete(
    _PATTERN_PLACE, operation_id="deletePatternPush", status_code=204, responses=_PATTERN_CHANGE
)
@needs(Verb.MANAGE)
async def delete_pattern_push(push: PatternPushDep) -> None:
    """Delete the push of a group over a pattern. The groups and their pending entries stay."""
    await push.delete()


@router.post(f"{_PATTERN_PLACE}/pause", operation_id="pausePatternPush", responses=_PATTERN_CHANGE)
@needs(Verb.MANAGE)
async def pause_pattern_push(push: PatternPushDep) -> Push:
    """Pause a push over a pattern until it is resumed. Requests in flight finish."""
    return await push.pause()


@router.post(
    f"{_PATTERN_PLACE}/resume", operation_id="resumePatternPush", responses=_PATTERN_CHANGE
)
@needs(Verb.PUSH)
async def resume_pattern_push(push: PatternPushDep) -> Push:
    """Resume a push over a pattern that was paused or disabled."""
    return await push.resume()


@router.post(f"{_PATTERN_PLACE}/retry", operation_id="retryPatternPush", responses=_PATTERN_CHANGE)
@needs(Verb.MANAGE)
async def retry_pattern_push(push: PatternPushDep) -> RetriedPush:
    """Retry failed entries of all streams at once instead of after their delay.

    At most 10,000 entries are retried.
    """
    return await push.retry()


@router.post(f"{_PATTERN_PLACE}/test", operation_id="testPatternPush", responses=_PATTERN_TEST)
@needs(Verb.PUSH)
async def test_pattern_push(push: PatternPushDep) -> PushAttempt:
    """Send a test event to the URL of a push over a pattern, as `testPush` does.

    The pattern is in the place of the stream.
    """
    return await push.test()


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
        200: {"description": "The public keys.", "content": {_JWK_SET: {"schema": _JWKS}}},
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
