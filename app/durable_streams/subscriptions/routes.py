"""Subscriptions, below the reserved prefix of the protocol."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, Request, Response

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import is_open, needs
from headgate.app.auth.principal import Need
from headgate.app.automation.targets import TargetRefused
from headgate.app.automation.webhooks import NO_KEYS
from headgate.app.durable_streams.protocol import CONTROL, ROOT, SAFE, offset_of, path_of, root_url
from headgate.app.durable_streams.subscriptions import store
from headgate.app.durable_streams.subscriptions.leases import (
    Acknowledgement,
    SigningKey,
    TokenClaim,
    Wake,
    WakeLeases,
    known_key,
    signing_key,
)
from headgate.app.durable_streams.subscriptions.runner import streams_wire
from headgate.app.durable_streams.subscriptions.store import (
    PREFIX,
    Reach,
    Stored,
    SubscriptionFault,
    SubscriptionState,
    WakeKind,
    decoded,
    invalid,
    names_of,
    parse,
    unknown,
)
from headgate.app.http.dependencies import AccessDep, gateway_of
from headgate.app.http.operation import UncheckedOperation, WholeRequest
from headgate.engine.errors import StreamExists
from headgate.engine.requests.streams import DeleteStream

# Not in the document, as all of the protocol: see `durable_streams.routes`.
router = APIRouter(
    prefix=f"{ROOT}{CONTROL}", route_class=UncheckedOperation, include_in_schema=False
)

_PLACE = "/subscriptions/{subscription}"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_WORKER_MAX = 256

F = TypeVar("F", bound=Callable[..., Awaitable[Response]])


def _answers(operation: F) -> F:
    @wraps(operation)
    async def answering(**names: Any) -> Response:
        try:
            response = await operation(**names)
        except SubscriptionFault as fault:
            facts = {"code": fault.code, "message": str(fault), **fault.facts}
            response = _json(fault.status, {"error": facts})
        response.headers.update(SAFE)
        return response

    return answering  # type: ignore[return-value]


def _json(status: int, value: object) -> Response:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return Response(msgspec.json.encode(value), status, headers)


def subscription_id(subscription: str) -> str:
    if _ID.fullmatch(subscription) is None:
        raise invalid(
            "the id of a subscription may have at most 128 characters: letters, digits and `._~-`"
        )
    return subscription


def _require(access: Access, subscription: str, *verbs: Verb) -> None:
    subscription_id(subscription)
    access.require([Need(verbs, PREFIX + subscription.encode(), is_owned=True)])


async def _key(request: Request) -> SigningKey:
    return await signing_key(gateway_of(request).backend.perform)


async def _leases(request: Request, *, is_for_all: bool = False) -> WakeLeases:
    """Return the leases; with `is_for_all` (anybody may ask) no key is created."""
    gateway = gateway_of(request)
    perform = gateway.backend.perform
    key = await (known_key if is_for_all else signing_key)(perform)
    if key is None:
        raise unknown()
    return WakeLeases(perform, key, gateway.auth.now_ms())


@router.get("/jwks.json", operation_id="getDurableStreamKeys")
@is_open
async def get_keys(request: WholeRequest) -> Response:
    """Return the public keys of webhooks (6.5)."""
    headers = {
        "Content-Type": "application/jwk-set+json",
        "Cache-Control": "public, max-age=300",
        **SAFE,
    }
    key = await known_key(gateway_of(request).backend.perform)
    return Response(NO_KEYS if key is None else key.jwks(), 200, headers)


@router.put(_PLACE, operation_id="putDurableSubscription")
@needs(Verb.MANAGE)
@_answers
async def put_subscription(request: WholeRequest, access: AccessDep, subscription: str) -> Response:
    """Make a subscription, unless it is there as it is wanted (6.2)."""
    _require(access, subscription, Verb.MANAGE)
    gateway = gateway_of(request)
    definition = parse(request.content)
    if definition.webhook_url is not None:
        _require(access, subscription, Verb.PUSH)
        try:
            gateway.targets.check(definition.webhook_url)
        except TargetRefused as error:
            raise SubscriptionFault(400, "WEBHOOK_URL_REJECTED", str(error)) from None
    access.require([Need((Verb.READ,), text.encode()) for text in definition.streams])
    if definition.wake_stream is not None:
        access.require([Need((Verb.APPEND,), definition.wake_stream.encode())])
    reach = access.principal.reach((Verb.READ,))
    state = SubscriptionState(
        definition,
        root_url(request),
        gateway.auth.now_ms(),
        None if reach is None else Reach(sorted(reach.names), sorted(reach.prefixes)),
        maker=access.maker,
    )
    perform = gateway.backend.perform
    status = 201
    try:
        await store.check_room(perform, subscription, access.maker)
        await store.make(access, subscription, state)
    except StreamExists:
        status = 200
    stored = await store.load(perform, subscription)
    if stored.state.definition != definition:
        text = "a subscription with this id exists with another configuration"
        raise SubscriptionFault(409, "SUBSCRIPTION_ALREADY_EXISTS", text)
    return _json(status, await _wire(request, stored))


@router.get(_PLACE, operation_id="getDurableSubscription")
@needs(Verb.READ, Verb.MANAGE)
@_answers
async def get_subscription(request: WholeRequest, access: AccessDep, subscription: str) -> Response:
    """Describe a subscription (6.3)."""
    _require(access, subscription, Verb.READ, Verb.MANAGE)
    stored = await store.load(gateway_of(request).backend.perform, subscription)
    return _json(200, await _wire(request, stored))


@router.delete(_PLACE, operation_id="deleteDurableSubscription", status_code=204)
@needs(Verb.MANAGE)
@_answers
async def delete_subscription(
    request: WholeRequest, access: AccessDep, subscription: str
) -> Response:
    """Delete a subscription; wakes that are on their way are void (6.3)."""
    _require(access, subscription, Verb.MANAGE)
    perform = gateway_of(request).backend.perform
    stored = await store.load(perform, subscription)
    await access.perform_owned(DeleteStream(stored.name))
    return Response(status_code=204)


class _Streams(msgspec.Struct):
    streams: list[str]


@router.post(f"{_PLACE}/streams", operation_id="linkDurableStreams", status_code=204)
@needs(Verb.MANAGE)
@_answers
async def link_streams(request: WholeRequest, access: AccessDep, subscription: str) -> Response:
    """Add streams to a subscription (6.4)."""
    _require(access, subscription, Verb.MANAGE)
    paths = decoded(request.content, _Streams).streams
    access.require([Need((Verb.READ,), name.encode()) for name in names_of(paths)])
    await (await _leases(request)).link(subscription, paths)
    return Response(status_code=204)


@router.delete(
    f"{_PLACE}/streams/{{path:path}}", operation_id="unlinkDurableStream", status_code=204
)
@needs(Verb.MANAGE)
@_answers
async def unlink_stream(
    request: WholeRequest, access: AccessDep, subscription: str, path: str
) -> Response:
    """Remove a stream from a subscription (6.4)."""
    _require(access, subscription, Verb.MANAGE)
    await (await _leases(request)).unlink(subscription, path)
    return Response(status_code=204)


class _Worker(msgspec.Struct):
    worker: str


@router.post(f"{_PLACE}/claim", operation_id="claimDurableSubscription")
@needs(Verb.CONSUME, Verb.MANAGE)
@_answers
async def claim(request: WholeRequest, access: AccessDep, subscription: str) -> Response:
    """Take the lease of a subscription (7.2)."""
    _require(access, subscription, Verb.CONSUME, Verb.MANAGE)
    worker = decoded(request.content, _Worker).worker
    if not 0 < len(worker) <= _WORKER_MAX:
        raise invalid(f"the name of a worker must have 1 to {_WORKER_MAX} characters")
    claimed = await (await _leases(request)).claim(subscription, worker)
    state, now_s = claimed.state, gateway_of(request).auth.now_ms() // 1000
    key = await _key(request)
    return _json(
        200,
        {
            "wake_id": state.wake_id,
            "generation": state.generation,
            "token": key.token(TokenClaim(subscription, state.generation), now_s),
            "streams": streams_wire(claimed.status),
            "lease_ttl_ms": state.definition.lease_ms,
        },
    )


class _Ack(msgspec.Struct):
    stream: str
    offset: str


class _Report(msgspec.Struct):
    wake_id: str
    generation: int
    acks: list[_Ack] = []
    done: bool = False


@router.post(f"{_PLACE}/callback", operation_id="callBackDurableSubscription")
@is_open
@_answers
async def call_back(request: WholeRequest, subscription: str) -> Response:
    """Acknowledge entries after a webhook, by the token of its wake (7.1)."""
    return await _acknowledge(request, subscription)


@router.post(f"{_PLACE}/ack", operation_id="acknowledgeDurableSubscription")
@is_open
@_answers
async def acknowledge(request: WholeRequest, subscription: str) -> Response:
    """Acknowledge as the worker that has claimed it, by its token (7.2)."""
    return await _acknowledge(request, subscription)


async def _acknowledge(request: WholeRequest, subscription: str) -> Response:
    subscription_id(subscription)
    report = decoded(request.content, _Report)
    acks = [(each.stream, each.offset) for each in report.acks]
    has_more = await (await _leases(request, is_for_all=True)).acknowledge(
        subscription,
        _token(request),
        Acknowledgement(Wake(report.wake_id, report.generation), acks, report.done),
    )
    return _json(200, {"ok": True, "next_wake": has_more})


class _WakeBody(msgspec.Struct):
    wake_id: str
    generation: int


@router.post(f"{_PLACE}/release", operation_id="releaseDurableSubscription", status_code=204)
@is_open
@_answers
async def release(request: WholeRequest, subscription: str) -> Response:
    """Give the lease back, by the token of the claim (7.2)."""
    subscription_id(subscription)
    body = decoded(request.content, _WakeBody)
    wake = Wake(body.wake_id, body.generation)
    await (await _leases(request, is_for_all=True)).release(subscription, _token(request), wake)
    return Response(status_code=204)


def _token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def _wire(request: Request, stored: Stored) -> dict[str, object]:
    state, definition = stored.state, stored.state.definition
    webhook = None
    if definition.kind is WakeKind.WEBHOOK:
        jwks_url = f"{state.root}{CONTROL}/jwks.json"
        signing = {"alg": "ed25519", "kid": (await _key(request)).kid, "jwks_url": jwks_url}
        webhook = {"url": definition.webhook_url, "signing": signing}
    return {
        "id": stored.id,
        "subscription_id": stored.id,
        "type": definition.kind,
        "pattern": definition.pattern,
        "streams": [
            {
                "path": path_of(name),
                "link_type": "explicit" if link.is_explicit else "glob",
                "acked_offset": offset_of(link.acked),
            }
            for name, link in sorted(stored.links.items())
        ],
        "webhook": webhook,
        "wake_stream": definition.wake_stream and path_of(definition.wake_stream.encode()),
        "lease_ttl_ms": definition.lease_ms,
        "created_at": _instant(state.created_at_ms),
        "status": "failed" if state.failures else "active",
        "description": definition.description,
    }


def _instant(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
