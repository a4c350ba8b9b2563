"""Pushes: set, describe, list, delete, pause, resume, retry, and rotate the secret."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import is_open, needs
from headgate.app.auth.principal import Need
from headgate.app.automation import pushes
from headgate.app.automation.pushes import PushDefinition, PushRecord, StoredPush, name_of
from headgate.app.automation.signing import (
    KeyMissing,
    PushSecrets,
    known_key,
    new_secret,
    public_text,
    signing_key,
)
from headgate.app.automation.targets import TargetRefused
from headgate.app.automation.webhooks import NO_KEYS
from headgate.app.gateway.gateway import Gateway
from headgate.app.http.answers import json_answer
from headgate.app.http.dependencies import (
    CURSOR,
    AccessDep,
    GroupDep,
    LimitsDep,
    StreamDep,
    check_at_most,
    cursor_of,
    gateway_of,
    page_after,
)
from headgate.app.http.operation import Operation
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.pushes import (
    Push,
    Pushes,
    PushInput,
    PushPhase,
    PushSummary,
    RetriedPush,
    SecretRotation,
    SignatureKind,
)
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import StreamsChanged
from headgate.engine.replies import PendingItem
from headgate.engine.requests.deliveries import ListPending, Nack, NackMode
from headgate.engine.requests.groups import DescribeGroup

router = APIRouter(prefix="/v1", tags=["Push"], route_class=Operation)

_JWK_SET = "application/jwk-set+json"
_JWK = {"type": "object", "additionalProperties": {"type": "string"}}
_JWKS = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": _JWK}},
}
_PLACE = "/streams/{stream}/groups/{group}/push"
_TRIES_MAX = 10
_RETRIED_MAX = 10_000
_RETRIED_AT_ONCE = 1_000
_SOON_MS = 500

_FIND = responses("not_found", "stream_not_found", "group_not_found", "invalid_request")
_CHANGE = _FIND | responses("overloaded", "memory_full")


@router.put(
    _PLACE,
    operation_id="setPush",
    status_code=201,
    responses={
        200: {"description": "It was there, and is as asked for now.", "model": Push},
        **responses(
            "malformed",
            "stream_not_found",
            "group_not_found",
            "limit_reached",
            "unsupported_media_type",
            "invalid_request",
            "overloaded",
            "memory_full",
            "not_supported",
        ),
    },
)
@needs(Verb.PUSH)
async def set_push(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    group: GroupDep,
    response: Response,
    new: PushInput,
) -> Push:
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
    _require(access, stream, group, Verb.PUSH, Verb.MANAGE, Verb.CONSUME)
    gateway = gateway_of(request)
    with access.act("setPush"):
        await access.perform(DescribeGroup(stream, group))
        try:
            gateway.targets.check(new.url)
        except TargetRefused as error:
            raise GatewayError("invalid_request", f"{error}", pointer="/body/url") from None
        for _ in range(_TRIES_MAX):
            before = await pushes.load(gateway.backend.perform, stream, group)
            try:
                held, is_new, push = await _definition(gateway, new, stream, group, before)
                if before is None:
                    push = replace(push, maker=access.maker)
                await pushes.write(gateway.backend.perform, push, before)
            except StreamsChanged:
                continue
            except KeyMissing as error:
                raise GatewayError("not_supported", f"no secrets can be kept: {error}") from None
            response.status_code = 201 if before is None else 200
            answer = await _wire(gateway, push)
            return {**answer, "secret": held.secret} if is_new else answer
    raise GatewayError("overloaded", "Others change this push at the same time.")


@router.get(_PLACE, operation_id="describePush", responses=_FIND)
@needs(Verb.MANAGE)
async def describe_push(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep
) -> Push:
    """Describe the push of a group, and what its receiver answered."""
    _require(access, stream, group, Verb.MANAGE)
    stored = await _stored(request, access, stream, group)
    return await _wire(gateway_of(request), stored.push)


@router.get(
    "/pushes",
    operation_id="listPushes",
    response_model=Pushes,
    responses=responses("invalid_request"),
)
@needs(Verb.MANAGE)
async def list_pushes(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    limit: Annotated[int, Query(ge=1, le=1000, description="Pushes of one page, at most.")] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Response:
    """List the pushes of all groups that one may manage. A page may have fewer than the limit."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    gateway, page = gateway_of(request), page_after(cursor, limit)
    stored, last_name = await pushes.load_page(gateway.backend.perform, page.after, limit)
    may = access.principal.may
    shown = [
        await _summary(gateway, each.push, each)
        for each in stored
        if may(Need((Verb.MANAGE,), each.push.stream, each.push.group))
    ]
    next_cursor = None if last_name is None else cursor_of(last_name)
    answer: Pushes = {"pushes": shown, "next_cursor": next_cursor}
    return json_answer(answer)


@router.delete(_PLACE, operation_id="deletePush", status_code=204, responses=_CHANGE)
@needs(Verb.MANAGE)
async def delete_push(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep
) -> None:
    """Delete the push of a group. The group stays, and what was not acknowledged is pending."""
    _require(access, stream, group, Verb.MANAGE)
    with access.act("deletePush"):
        stored = await _stored(request, access, stream, group)
        await pushes.delete(gateway_of(request).backend.perform, stored.name)


@router.post(f"{_PLACE}/pause", operation_id="pausePush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def pause_push(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep
) -> Push:
    """Let a push send nothing until it is resumed. Requests on their way end."""
    return await _changed(
        *(request, access, stream, group), "pausePush", lambda push: replace(push, is_paused=True)
    )


@router.post(f"{_PLACE}/resume", operation_id="resumePush", responses=_CHANGE)
@needs(Verb.PUSH)
async def resume_push(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep
) -> Push:
    """Let a push go on that was paused or disabled."""
    _require(access, stream, group, Verb.PUSH)
    return await _changed(*(request, access, stream, group), "resumePush", _resumed)


@router.post(f"{_PLACE}/retry", operation_id="retryPush", responses=_CHANGE)
@needs(Verb.MANAGE)
async def retry_push(
    request: Request, access: AccessDep, stream: StreamDep, group: GroupDep
) -> RetriedPush:
    """Send at once what failed and would have to wait, 10,000 entries at most."""
    _require(access, stream, group, Verb.MANAGE)
    await _stored(request, access, stream, group)
    with access.act("retryPush"):
        perform = gateway_of(request).backend.perform
        count, start = 0, MIN_ID
        while count < _RETRIED_MAX:
            items = await perform(ListPending(stream, group, start, limit=_RETRIED_AT_ONCE))
            ids = [item.id for item in items if _has_failed(item)]
            if ids:
                await perform(Nack(stream, group, ids, NackMode.FAIL, delay_ms=0))
                count += len(ids)
            after = items[-1].id.next() if len(items) == _RETRIED_AT_ONCE else None
            if after is None:
                break
            start = after
        await _change(
            request, stream, group, lambda push: replace(push, retry_count=push.retry_count + 1)
        )
        return RetriedPush(entries=count)


@router.post(
    f"{_PLACE}/rotate",
    operation_id="rotatePushSecret",
    responses=_CHANGE | responses("malformed", "unsupported_media_type", "not_supported"),
)
@needs(Verb.MANAGE)
async def rotate_push_secret(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    group: GroupDep,
    rotation: SecretRotation | None = None,
) -> Push:
    """Replace the secret of a push. The answer has the new one, once.

    Requests are signed with both for a while, so receivers can change theirs without haste.
    """
    _require(access, stream, group, Verb.MANAGE)
    gateway, rotation = gateway_of(request), rotation or SecretRotation.model_validate({})
    with access.act("rotatePushSecret"):
        for _ in range(_TRIES_MAX):
            before = await _stored(request, access, stream, group)
            held = await gateway.sealing.unseal(before.push.sealed, PushSecrets)
            if held is None:
                text = "the key is missing that encrypted the secrets: set the push anew"
                raise GatewayError("not_supported", text)
            held = held.rotated(gateway.auth.now_ms(), rotation.overlap_ms)
            sealed = await gateway.sealing.seal(held)
            push = replace(before.push, sealed=sealed)
            try:
                await pushes.write(gateway.backend.perform, push, before)
            except StreamsChanged:
                continue
            return {**await _wire(gateway, push), "secret": held.secret}
    raise GatewayError("overloaded", "Others change this push at the same time.")


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


def _require(access: Access, stream: bytes, group: bytes, *verbs: Verb) -> None:
    access.require([Need((verb,), stream, group) for verb in verbs])


async def _stored(request: Request, access: Access, stream: bytes, group: bytes) -> StoredPush:
    await access.perform(DescribeGroup(stream, group))
    stored = await pushes.load(gateway_of(request).backend.perform, stream, group)
    if stored is None:
        raise GatewayError("not_found", "This group has no push.")
    return stored


async def _definition(
    gateway: Gateway, new: PushInput, stream: bytes, group: bytes, before: StoredPush | None
) -> tuple[PushSecrets, bool, PushRecord]:
    """Return the secrets, whether they are new, and the push to write."""
    old = None
    if before is not None:
        old = await gateway.sealing.unseal(before.push.sealed, PushSecrets)
    if old is None:
        held = PushSecrets(stream, group, new.url, new_secret(), new.headers)
    else:
        held = replace(old, url=new.url, headers=new.headers)
    is_by_key = new.signature is SignatureKind.ED25519
    if is_by_key and await signing_key(gateway.backend.perform, gateway.sealing) is None:
        raise KeyMissing("the key that encrypted the one of `v1a` is not there")
    definition = PushDefinition(
        new.concurrency,
        new.timeout_ms,
        new.body,
        new.batch_max,
        new.signature,
        new.disable_after_ms,
    )
    sealed = await gateway.sealing.seal(held)
    if before is None:
        return held, True, PushRecord(stream, group, definition, sealed, gateway.auth.now_ms())
    changed = replace(before.push, definition=definition, sealed=sealed)
    return held, old is None, changed


async def _changed(
    request: Request,
    access: Access,
    stream: bytes,
    group: bytes,
    act: str,
    make: Callable[[PushRecord], PushRecord],
) -> Push:
    _require(access, stream, group, Verb.MANAGE)
    await _stored(request, access, stream, group)
    with access.act(act):
        push = await _change(request, stream, group, make)
    return await _wire(gateway_of(request), push)


async def _change(
    request: Request, stream: bytes, group: bytes, make: Callable[[PushRecord], PushRecord]
) -> PushRecord:
    perform = gateway_of(request).backend.perform
    try:
        push = await pushes.change(perform, name_of(stream, group), make)
    except StreamsChanged:
        raise GatewayError("overloaded", "Others change this push at the same time.") from None
    if push is None:
        raise GatewayError("not_found", "This group has no push.")
    return push


def _has_failed(item: PendingItem) -> bool:
    """Return whether an entry waits after a failure, and not for its own delivery time.

    An entry that is due soon may be with a reader before it could be released.
    """
    return item.consumer is None and item.delivery_count > 0 and item.delay_ms > _SOON_MS


def _resumed(push: PushRecord) -> PushRecord:
    return replace(
        push,
        is_paused=False,
        failing_since_ms=None,
        failures=0,
        disabled_at_ms=None,
        disabled_reason=None,
        retry_count=push.retry_count + 1,
    )


async def _wire(gateway: Gateway, push: PushRecord) -> Push:
    stored = await pushes.load(gateway.backend.perform, push.stream, push.group)
    answers = await pushes.answers(gateway.backend.perform, push.name)
    return {**await _summary(gateway, push, stored), "answers": msgspec.to_builtins(answers)}


async def _summary(gateway: Gateway, push: PushRecord, stored: StoredPush | None) -> PushSummary:
    held = await gateway.sealing.unseal(push.sealed, PushSecrets)
    definition = push.definition
    previous_ms = 0 if held is None else held.previous_until_ms
    key = None
    if definition.signature is SignatureKind.ED25519:
        key = await known_key(gateway.backend.perform, gateway.sealing)
    return {
        "stream": text_of(push.stream),
        "group": text_of(push.group),
        "url": None if held is None else held.url,
        "concurrency": definition.concurrency,
        "timeout_ms": definition.timeout_ms,
        "body": definition.body,
        "batch_max": definition.batch_max,
        "signature": definition.signature,
        "disable_after_ms": definition.disable_after_ms,
        "header_names": [] if held is None else sorted(held.headers),
        "state": PushPhase.UNREADABLE if held is None else push.phase,
        "failing_since_ms": push.failing_since_ms,
        "failure_count": push.failures,
        "disabled_at_ms": push.disabled_at_ms,
        "disabled_reason": push.disabled_reason,
        "public_key": None if key is None else public_text(key),
        "previous_secret_until_ms": previous_ms if previous_ms > gateway.auth.now_ms() else None,
        "created_at_ms": push.created_at_ms,
        "delivered_count": 0 if stored is None else stored.counts.delivered,
        "failed_count": 0 if stored is None else stored.counts.failed,
    }
