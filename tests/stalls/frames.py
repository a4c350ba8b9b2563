"""Frames of a WebSocket, each with the largest argument it takes."""

from __future__ import annotations

import json
from typing import Any

from headgate.engine.limits import COMMIT_ITEMS_MAX
from tests.processes.raw_socket import TEXT, RawSocket
from tests.processes.wire import connected
from tests.stalls.case import Act, Case, Target
from tests.stalls.keyspace import BIG, FIRST_MS, FRESH

_CREDIT = 65_536
_IDS = 10_000
_FRAME_BYTES = 10**6


async def opened(target: Target, path: str = "/v1/ws") -> RawSocket:
    socket = await RawSocket.open(await connected(target.client.url), path)
    target.sockets.append(socket)
    await next_frame(socket, "welcome")
    return socket


async def next_frame(socket: RawSocket, kind: str) -> dict[str, Any]:
    """Return the next frame of this type; a problem fails the case."""
    while True:
        got = await socket.frame()
        message = json.loads(got.data) if got.opcode == TEXT else {"type": "none"}
        if message["type"] == kind:
            decoded: dict[str, Any] = message
            return decoded
        assert message["type"] != "problem", message


async def _connect(target: Target) -> None:
    await opened(target)


async def _subscribe(target: Target) -> None:
    """Take as many entries of a group as one may hold."""
    socket = await opened(target)
    credit = min(_CREDIT, target.size.entries // 4)
    await socket.say(type="subscribe", sub="s", stream=BIG, group=FRESH, credit=credit)
    await _take(socket, credit)


async def _take(socket: RawSocket, credit: int) -> None:
    left = credit
    while left:
        left = (await next_frame(socket, "entries"))["credit_left"]


async def _give_credit(target: Target) -> None:
    credit = min(_CREDIT, target.size.entries // 4)
    await target.sockets[-1].say(type="credit", sub="s", entries=credit)
    await _take(target.sockets[-1], credit)


def _settle(kind: str, answer: str, **more: Any) -> Act:
    """Return an act that settles entries by id, held or not."""

    async def act(target: Target) -> None:
        socket = target.sockets[-1]
        ids = target.size.scattered_ids(min(_IDS * 4, target.size.entries))[:_IDS]
        await socket.say(type=kind, rid="r", sub="s", ids=ids, **more)
        await next_frame(socket, answer)

    return act


async def _ack_up_to(target: Target) -> None:
    socket = target.sockets[-1]
    await socket.say(type="ack", rid="r", sub="s", up_to=f"{FIRST_MS * 2}-0")
    await next_frame(socket, "acked")


async def _unsubscribe(target: Target) -> None:
    socket = target.sockets[-1]
    await socket.say(type="unsubscribe", sub="s")
    await next_frame(socket, "unsubscribed")


async def _vanish(target: Target) -> None:
    target.sockets.pop().reset()
    await target.client.ask("GET", "/healthz")


def _append(entries: list[Any]) -> Act:
    async def act(target: Target) -> None:
        socket = target.sockets[-1]
        await socket.say(type="append", stream="written", entries=entries)
        await next_frame(socket, "appended")

    return act


def _commit(*steps: dict[str, Any]) -> Act:
    async def act(target: Target) -> None:
        socket = target.sockets[-1]
        await socket.say(type="commit", steps=steps)
        await next_frame(socket, "committed")

    return act


async def _ping(target: Target) -> None:
    socket = target.sockets[-1]
    for _ in range(target.size.many):
        await socket.say(type="ping")
    for _ in range(target.size.many):
        await next_frame(socket, "pong")


async def _short_form(target: Target) -> None:
    credit = min(_CREDIT, target.size.entries // 4)
    await _take(await opened(target, f"/v1/streams/{BIG}/ws?after=0&credit={credit}"), credit)


async def _short_group(target: Target) -> None:
    credit = min(_CREDIT, target.size.entries // 4)
    path = f"/v1/streams/{BIG}/groups/{FRESH}/ws?credit={credit}&ack=none"
    await _take(await opened(target, path), credit)


_WIDE = [{"fields": {f"f{n}": "v" for n in range(100)}} for _ in range(_FRAME_BYTES // 1200)]
_LONG = [{"fields": {"v": "v" * (_FRAME_BYTES - 1000)}}]
_MANY = [{"fields": {"f": "v"}} for _ in range(10_000)]
_WIDE_STEPS = [{"append": {"stream": "written", "entries": [entry]}} for entry in _WIDE[:99]]
_WIDE_REST = {"append": {"stream": "written", "entries": _WIDE[99:COMMIT_ITEMS_MAX]}}

ALL: list[Case] = [
    Case("subscribe with all credit", ("frame subscribe", "socket /v1/ws"), _subscribe),
    Case("credit", ("frame credit",), _give_credit, _subscribe),
    Case("extend many ids", ("frame extend",), _settle("extend", "ok"), _subscribe),
    Case("nack many ids", ("frame nack",), _settle("nack", "ok", delay_ms=1), _subscribe),
    Case("ack many ids", ("frame ack",), _settle("ack", "acked"), _subscribe),
    Case("ack all that was sent", ("frame ack",), _ack_up_to, _subscribe),
    Case("unsubscribe holding many", ("frame unsubscribe",), _unsubscribe, _subscribe),
    Case("vanish holding many", ("socket /v1/ws",), _vanish, _subscribe),
    Case("append many fields", ("frame append",), _append(_WIDE), _connect),
    Case("append a long value", ("frame append",), _append(_LONG), _connect),
    Case("append many entries", ("frame append",), _append(_MANY), _connect),
    Case("commit many fields", ("frame commit",), _commit(*_WIDE_STEPS, _WIDE_REST), _connect),
    Case("ping many times", ("frame ping",), _ping, _connect),
    Case("a stream's own socket", ("socket /v1/streams/{stream}/ws",), _short_form),
    Case("a group's own socket", ("socket /v1/streams/{stream}/groups/{group}/ws",), _short_group),
]
