"""Channels: messages that nobody keeps, and who is there."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Need
from headgate.app.channels.channels import MESSAGE_BYTES_MAX
from headgate.app.channels.member import Place
from headgate.app.channels.message import ChannelMessage
from headgate.app.channels.presence import PAGE_MEMBERS
from headgate.app.http.dependencies import AccessDep, StreamDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.http.streaming import EVENT_STREAM, HEARTBEAT, EventStream
from headgate.app.live import followed
from headgate.app.live.channel_subscription import ChannelSubscription
from headgate.app.live.event_connection import EventConnection
from headgate.app.live.frames.server import PresentMember
from headgate.app.transport.exchange import exchange_of
from headgate.app.wire.encoding import unbroken
from headgate.app.wire.events import event
from headgate.app.wire.names import NameText, check_name, text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.entries import Request as RequestModel
from headgate.engine.errors import StreamError

router = APIRouter(prefix="/v1/channels/{channel}", tags=["Channels"], route_class=Operation)
streams = APIRouter(prefix="/v1/streams/{stream}", tags=["Channels"], route_class=Operation)


def channel_name(
    channel: Annotated[NameText, Path(description="Name of the channel.", examples=["room-1"])],
) -> bytes:
    return check_name(channel, pointer="/path/channel")


ChannelDep = Annotated[bytes, Depends(channel_name)]


Limit = Annotated[
    int, Query(ge=1, le=PAGE_MEMBERS, description="Maximum number of members to list.")
]


class Publication(RequestModel):
    """A message to publish."""

    data: Any = Field(description=f"Any JSON value of at most {MESSAGE_BYTES_MAX:,} bytes.")


class Published(BaseModel):
    """Result of a published message."""

    receivers: int = Field(
        description="Number of subscribers of the channel. Over Redis or Valkey, each gateway "
        "counts as one."
    )


class ChannelReady(BaseModel):
    """The first event: what is published from now on comes."""

    channel: str


class PresentMembers(TypedDict):
    """The members that are present."""

    members: Annotated[list[PresentMember], Field(description="The first members.")]
    member_count: Annotated[int, Field(description="Number of all members.")]
    connection_count: Annotated[int, Field(description="Number of all connections of the members.")]
    settled: Annotated[
        bool,
        Field(
            description="False if the gateway has just started and members may not have "
            "reconnected yet."
        ),
    ]


@router.post(
    "/messages",
    operation_id="publishMessage",
    responses=responses("malformed", "too_large", "unsupported_media_type", "invalid_request"),
)
@needs(Verb.PUBLISH)
async def publish_message(
    request: Request, access: AccessDep, channel: ChannelDep, message: Publication
) -> Published:
    """Publish a message (PUBLISH) to the current subscribers of a channel.

    A message is delivered at most once and is not stored. A subscriber that is disconnected or too
    slow misses it. If a message must arrive, append it to a stream. You need not create channels. A
    channel is independent of a stream with the same name.
    """
    access.require([Need((Verb.PUBLISH,), channel)])
    access.usage.spend(entries=1)
    count = await gateway_of(request).channels.publish(channel, to_json(message.data))
    return Published(receivers=count)


@router.get(
    "/events",
    operation_id="followChannel",
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM
    | responses("invalid_request", "too_many_connections", "overloaded", "cut_off"),
)
@needs(Verb.SUBSCRIBE, by_url=True)
async def channel_events(request: Request, access: AccessDep, channel: ChannelDep) -> Response:
    """Send the messages of a channel as events (SUBSCRIBE), from now on.

    Events:

    - `ready {channel}`
    - `message {channel, data, dropped}`: `dropped` is the number of messages before it that this
      client was too slow to receive.
    - `draining {reconnect_after_ms}`
    - `problem {…}`

    A comment every 15 s keeps the connection open. A browser misses the messages that are published
    while it reconnects.
    """
    gateway = gateway_of(request)
    access = gateway.connected(access)
    need = Need((Verb.SUBSCRIBE,), channel)
    subscription = ChannelSubscription(
        *(access, Place("channel", channel), need, gateway.channels, gateway.presence),
        beat_ms=gateway.limits.heartbeat_ms,
    )
    access.require([need])
    return EventStream(_Events(request, access, subscription).all(channel), gateway.limits)


def _message_event(message: ChannelMessage, dropped_count: int = 0) -> bytes:
    """Return the event of a message."""
    by = "event", dropped_count
    text = message.texts.get(by)
    if text is None:
        names = f'"channel":{json.dumps(text_of(message.channel))}'
        dropped = f',"dropped":{dropped_count}' if dropped_count else ""
        data = f'{{{names},"data":{message.json.decode()}{dropped}}}'
        text = unbroken(format_sse_event(data_str=data, event="message")).decode()
        if not dropped_count:  # most get the same
            message.texts[by] = text
    return text.encode()


class _Events:
    def __init__(self, request: Request, access: Access, subscription: ChannelSubscription) -> None:
        self._gateway = gateway = gateway_of(request)
        self._usage = access.usage
        self._subscription = subscription
        self._connection = EventConnection(gateway, request, access, subscription)
        self._exchange = exchange_of(request.receive)

    async def all(self, channel: bytes) -> AsyncGenerator[bytes, None]:
        ready = ChannelReady(channel=text_of(channel))
        first = event("ready", ready, retry_ms=self._gateway.reconnect_after_ms())
        try:
            await self._subscription.open()
            self._subscription.send_at_once(self._send_at_once)
            coming = self._connection.events(first, self._usage, self._encoded)
            async with aclosing(coming) as parts:
                async for part in parts:
                    yield part
        except (StreamError, GatewayError) as error:
            yield self._connection.last_event(error)
        finally:
            self._subscription.leave()

    def _send_at_once(self, message: ChannelMessage) -> bool:
        if self._exchange is None or not self._exchange.send_part(_message_event(message)):
            return False
        self._note_sent()
        return True

    async def _encoded(self, item: followed.Followed) -> bytes:
        if isinstance(item, followed.Ended):
            return self._connection.last_event(item.error)
        if not isinstance(item, followed.Heard) or item.message is None:
            return HEARTBEAT
        self._note_sent()
        return _message_event(item.message, item.dropped_count)

    def _note_sent(self) -> None:
        self._connection.sent_entries += 1
        self._gateway.metrics.delivered_counts["sse"] += 1


@router.get("/presence", operation_id="listChannelMembers", responses=responses("invalid_request"))
@needs(Verb.SUBSCRIBE)
async def channel_members(
    request: Request, access: AccessDep, channel: ChannelDep, limit: Limit = PAGE_MEMBERS
) -> PresentMembers:
    """List the members that are present at a channel.

    A connection is present if its frame `subscribe` has `presence`. A user with several connections
    is one member. A connection that breaks off, or whose page is reloaded, stays present for
    `presence_ttl_ms`. So a reload does not make a member leave.
    """
    access.require([Need((Verb.SUBSCRIBE,), channel)])
    return _members(request, Place("channel", channel), limit)


@streams.get("/presence", operation_id="listMembers", responses=responses("invalid_request"))
@needs(Verb.READ)
async def stream_members(
    request: Request, access: AccessDep, stream: StreamDep, limit: Limit = PAGE_MEMBERS
) -> PresentMembers:
    """List the members that are present at a stream.

    These are the connections that follow the stream with `presence` in `subscribe`. A stream that
    does not exist has no members.
    """
    access.require([Need((Verb.READ,), stream)])
    return _members(request, Place("stream", stream), limit)


def _members(request: Request, place: Place, limit: int) -> PresentMembers:
    presence = gateway_of(request).presence
    members = next(presence.members(place), [])
    member_count, connection_count = presence.counts(place)
    return {
        "members": from_json(msgspec.json.encode(members[:limit])),
        "member_count": member_count,
        "connection_count": connection_count,
        "settled": presence.is_settled,
    }
