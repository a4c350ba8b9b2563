"""Channels with as many listeners and members as followers, and messages of the greatest size."""

from __future__ import annotations

from typing import Any

from tests.processes.raw_socket import HANDSHAKE, TEXT, frame
from tests.stalls.case import Case, Target, command, long_command, request
from tests.stalls.crowds import connect, join
from tests.stalls.frames import next_frame, opened

_ROOM = "/v1/channels/crowd"
_LARGE = "x" * (2**20 - 100)
_PRESENT: dict[str, Any] = {"type": "subscribe", "sub": "c", "channel": "crowd"}
_PRESENT["presence"] = {"data": {"name": "x" * 1_000}}


async def _listen(target: Target) -> None:
    await join(target, [f"{_ROOM}/events"] * target.size.followers)


async def _open(target: Target) -> None:
    heads = [HANDSHAKE.format(path="/v1/ws", more="").encode()] * target.size.members
    await connect(target, heads, b'"welcome"')


async def _enter(target: Target) -> None:
    """Be present at the channel with all open sockets."""
    for _, writer in target.held:
        writer.write(frame(TEXT, b'{"type":"subscribe","sub":"c","channel":"crowd","presence":{}}'))
    for reader, _ in target.held:
        await reader.readuntil(b'"members"')


async def _fill(target: Target) -> None:
    await _open(target)
    await _enter(target)


async def _look(target: Target) -> None:
    socket = await opened(target)
    await socket.say(**_PRESENT)
    while (await next_frame(socket, "members"))["more"]:
        pass


async def _come_last(target: Target) -> None:
    await _fill(target)
    await _look(target)


async def _change(target: Target) -> None:
    for number in range(100):
        await target.sockets[-1].say(type="presence", rid="p", sub="c", data={"n": number})
        await next_frame(target.sockets[-1], "noted")


async def _publish(target: Target) -> None:
    socket = await opened(target)
    await socket.say(type="publish", rid="p", channel="crowd", data="x" * 10**6)
    await next_frame(socket, "published")


async def _leave(target: Target) -> None:
    for _, writer in target.held:
        writer.transport.abort()
    target.held.clear()
    await target.ask("GET", f"{_ROOM}/presence")


HARMLESS: list[Case] = [
    Case("channel: many listen", ("route followChannel",), _listen),
    request(
        "publishMessage", f"POST {_ROOM}/messages", {"data": 1}, name="to many", prepare=_listen
    ),
    Case("publish 1 MB to many", ("frame publish",), _publish, _listen),
    request(
        "publishMessage", f"POST {_ROOM}/messages", {"data": _LARGE}, name="1 MB", prepare=_listen
    ),
    long_command("PUBLISH 1 MB", lambda _: ["PUBLISH", "crowd", "p" * 10**6], _listen),
    command("PUBSUB CHANNELS", _listen),
    Case("channel: many are present", ("frame subscribe",), _enter, _open),
    Case("channel: one looks who is there", ("frame subscribe",), _look, _fill),
    Case("channel: one changes what it says", ("frame presence",), _change, _come_last),
    request("listChannelMembers", f"GET {_ROOM}/presence", prepare=_fill),
    request("listMembers", "GET /v1/streams/crowd/presence"),
    Case("channel: many leave at once", ("route followChannel",), _leave, _fill),
]
