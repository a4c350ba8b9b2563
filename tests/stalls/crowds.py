"""Crowds: many at once, and what happens without a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from headgate.engine.limits import FILTER_NODES_MAX
from tests.processes.raw_socket import HANDSHAKE
from tests.stalls.case import Act, Case, Target
from tests.stalls.client import Answer, head
from tests.stalls.keyspace import BIG, GROUP, Size, stream_name

_CREDIT = 100
"""Of a socket; a batch for many has as many entries: 70 MB with 10,000 sockets."""
_EVENTS = {"Accept": "text/event-stream"}
_SOCKET = "socket /v1/streams/{stream}/ws"
_CONNECTING = 200
"""Connections that are begun side by side."""
_PER_PIPELINE = 10_000
_OTHERS_MAX = 20
"""Streams that have no time; there are fewer."""
_EXPIRE_MS = 1_500

Words = Sequence[str | int]


async def connect(target: Target, heads: Sequence[bytes], ready: bytes) -> None:
    """Open a connection for each head of a request, and read until all are ready."""
    turns = asyncio.Semaphore(_CONNECTING)

    async def connect_one(sent: bytes) -> None:
        async with turns:
            reader, writer = await target.client.open()
            target.held.append((reader, writer))
            writer.write(sent)
            begin = await reader.readuntil(ready)
            assert begin.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 101 ")), begin

    await asyncio.gather(*map(connect_one, heads))


async def join(target: Target, paths: Sequence[str], consumer: str = "") -> None:
    """Open event streams, and return when each has been told that it is ready."""
    names = [
        {"Headgate-Consumer": f"{consumer}{at}"} if consumer else {} for at in range(len(paths))
    ]
    heads = [
        head("GET", path, headers={**_EVENTS, **name})
        for path, name in zip(paths, names, strict=True)
    ]
    await connect(target, heads, b"event: ready")


def _members(number: int) -> tuple[Act, Act]:
    """Return an act that makes a group without entries to read, and one that joins its members."""
    stream = stream_name(number)

    async def make(target: Target) -> None:
        await target.client.command("XGROUP", "CREATE", stream, GROUP, "$")

    async def enter(target: Target) -> None:
        path = f"/v1/streams/{stream}/groups/{GROUP}/events"
        await join(target, [path] * target.size.members, "member")

    return make, enter


async def _leave(target: Target) -> None:
    """Let all who are connected vanish at once, and return when the gateway has noticed."""
    for _, writer in target.held:
        writer.transport.abort()
    target.held.clear()
    while b'headgate_connections{transport="sse"} 0' not in await _metrics(target):
        await asyncio.sleep(0.2)


async def _metrics(target: Target) -> bytes:
    reader, writer = await target.client.open()
    writer.write(head("GET", "/metrics"))
    text = await reader.read(-1)
    writer.close()
    return text


async def _follow(target: Target) -> None:
    await _catch_up(target, [f"/v1/streams/{stream_name(2)}/events"] * target.size.followers)


async def _catch_up(target: Target, paths: Sequence[str]) -> None:
    await join(target, paths)
    for reader, _ in target.held:  # what was there is read before what comes
        await reader.readuntil(b"event: caught_up")


def _follow_filtered(path: str) -> Act:
    """Return an act that follows with filters of the largest size, another one for each."""

    def filter_of(number: int) -> str:
        misses = [{"suffix": {"f": f"{number}-{each}"}} for each in range(FILTER_NODES_MAX - 2)]
        return quote(json.dumps({"any": [*misses, {"suffix": {"f": "v"}}]}))

    async def follow(target: Target) -> None:
        count = target.size.followers // 10
        await _catch_up(target, [f"{path}filter={filter_of(number)}" for number in range(count)])

    return follow


async def _follow_all(target: Target) -> None:
    reader, writer = await target.client.open()
    writer.write(head("GET", f"/v1/streams/{BIG}/events?after=0", headers=_EVENTS))
    while b"event: caught_up" not in await reader.read(2**20):
        pass
    writer.close()


async def _follow_patterns(target: Target) -> None:
    await _catch_up(target, ["/v1/events?match=*"] * target.size.followers)


async def _follow_all_names(target: Target) -> None:
    """Read all of the streams with short names from the beginning, by a glob with many stars."""
    reader, writer = await target.client.open()
    match = f"{stream_name(2)[0]}*[0-9]*[0-9]*"
    writer.write(head("GET", f"/v1/events?match={match}&after=0", headers=_EVENTS))
    while b"event: caught_up" not in await reader.read(2**20):
        pass
    writer.close()


async def _listen(target: Target) -> None:
    """Open sockets at the end of one stream."""
    path = f"/v1/streams/{stream_name(2)}/ws?credit={_CREDIT}"
    sent = HANDSHAKE.format(path=path, more="").encode()
    await connect(target, [sent] * target.size.followers, b'"caught_up"')


async def _read_all(target: Target, last: bytes) -> None:
    await asyncio.gather(*(reader.readuntil(last) for reader, _ in target.held))


async def _batch_to_sockets(target: Target) -> None:
    entries = [{"fields": {"f": f"v{number}"}} for number in range(_CREDIT)]
    path = f"/v1/streams/{stream_name(2)}/entries/batch"
    await asyncio.gather(
        target.ask("POST", path, entries), _read_all(target, f'"v{_CREDIT - 1}"'.encode())
    )


async def _delete_under_sockets(target: Target) -> None:
    await asyncio.gather(
        target.ask("DELETE", f"/v1/streams/{stream_name(2)}"),
        _read_all(target, b"stream_not_found"),
    )


async def _append_to_followers(target: Target) -> Answer:
    answer = await target.client.command("XADD", stream_name(2), "*", "f", "v")
    for reader, _ in target.held:
        await reader.readuntil(b"event: entry")
    return answer


def _after(*acts: Act) -> Act:
    async def act(target: Target) -> None:
        for act in acts:
            await act(target)

    return act


async def _on_each_stream(target: Target, words_of: Callable[[str], Words]) -> None:
    for start in range(0, target.size.streams, _PER_PIPELINE):
        numbers = range(start, min(start + _PER_PIPELINE, target.size.streams))
        commands = [words_of(stream_name(number)) for number in numbers]
        answer = await target.client.commands(commands)
        assert answer.status == 200, answer


async def _key_each(target: Target) -> None:
    await _on_each_stream(target, lambda name: ["XADD", name, "IDMP", "p", "k", "*", "f", "v"])


async def _expire_each(target: Target) -> None:
    """Let all streams end at one moment, some seconds from now."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _EXPIRE_MS / 1000 + target.size.streams / 5_000

    def words(name: str) -> Words:
        return ["PEXPIRE", name, round((until_s - loop.time()) * 1000)]

    await _on_each_stream(target, words)
    await asyncio.sleep(max(until_s - loop.time() - 0.5, 0))


async def _see_them_go(target: Target) -> None:
    left = target.size.streams
    while left > _OTHERS_MAX:
        await asyncio.sleep(0.2)
        answer = await target.client.command("DBSIZE")
        assert answer.status == 200, answer
        left = json.loads(answer.begin)["result"]


async def _wait(target: Target) -> None:
    """Let housekeeping do what it does every second."""
    await asyncio.sleep(min(3.0, target.size.streams / 2000))


async def _rewrite(target: Target) -> Answer:
    def done(metrics: bytes) -> bool:
        return b"headgate_journal_rewrites_total 0.0" not in metrics

    answer = await target.client.ask("POST", "/v1/admin/rewrite")
    while not done(await _metrics(target)):
        await asyncio.sleep(0.2)
    return answer


async def _many_words(target: Target) -> Answer:
    return await target.client.command("EXISTS", *["key"] * 99_999)


async def _stop(target: Target) -> None:
    await target.gateway.stop()


def _together(
    name: str, words_of: Callable[[Size], Words], count_of: Callable[[Size], int]
) -> list[Case]:
    """Return the cases of a command sent many times in one pipeline, and in one transaction."""

    def act(at: str) -> Act:
        async def ask(target: Target) -> Any:
            commands = [words_of(target.size)] * count_of(target.size)
            return await target.client.commands(commands, at)

        return ask

    return [
        Case(f"{at} of {name}", (f"route {operation}",), act(at))
        for at, operation in (("pipeline", "runCommands"), ("multi-exec", "runTransaction"))
    ]


_make_joiners, _join_members = _members(0)
_make_leavers, _join_leavers = _members(1)

HARMLESS: list[Case] = [
    *_together("PING", lambda _: ["PING"], lambda size: size.many),
    *_together("XADD", lambda _: ["XADD", "many", "*", "f", "v"], lambda size: size.many),
    *_together(
        "XRANGE of 100", lambda _: ["XRANGE", BIG, "-", "+", "COUNT", 100], lambda size: size.many
    ),
    *_together(
        "XRANGE of 10,000",
        lambda _: ["XRANGE", BIG, "-", "+", "COUNT", 10_000],
        lambda size: size.many // 20,
    ),
    Case("runCommand: a body of 100,000 words", ("route runCommand",), _many_words),
    Case("followGroup: many join", ("route followGroup",), _join_members, _make_joiners),
    Case(
        "followGroup: many leave at once",
        ("route followGroup",),
        _leave,
        _after(_make_leavers, _join_leavers),
    ),
    Case(
        "followStream: one append to many", ("route followStream",), _append_to_followers, _follow
    ),
    Case("followStream: many leave at once", ("route followStream",), _leave, _follow),
    Case("a batch to many sockets", (_SOCKET,), _batch_to_sockets, _listen),
    Case("followStream: all of a stream", ("route followStream",), _follow_all),
    Case(
        "followPattern: one append to many",
        ("route followPattern",),
        _append_to_followers,
        _follow_patterns,
    ),
    Case(
        "followStream: one append to many with filters",
        ("route followStream",),
        _append_to_followers,
        _follow_filtered(f"/v1/streams/{stream_name(2)}/events?"),
    ),
    Case(
        "followPattern: one append to many with filters",
        ("route followPattern",),
        _append_to_followers,
        _follow_filtered("/v1/events?match=*&"),
    ),
    Case("followPattern: all of them", ("route followPattern",), _follow_all_names),
    Case("rewriteJournal: to its end", ("route rewriteJournal",), _rewrite),
    Case("housekeeping of what is there", (), _wait),
]

DESTRUCTIVE: list[Case] = [
    Case(
        "a stream deleted under many sockets",
        (_SOCKET,),
        _delete_under_sockets,
        _listen,
        is_destructive=True,
    ),
    Case("housekeeping of keyed streams", (), _wait, _key_each, is_destructive=True),
    Case("streams that expire at once", (), _see_them_go, _expire_each, is_destructive=True),
    Case("shutdown", (), _stop, is_destructive=True),
    Case("shutdown with followers", (), _stop, _follow, is_destructive=True),
]
