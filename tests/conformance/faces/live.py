# mypy: disable-error-code="override"
# A face does not look at options that it hands on to the port.
"""Events and WebSockets: an entry is read by following, and settled on the same connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from typing import Any, ClassVar

from websockets.asyncio.client import connect

from tests.api.live.frames import Frames
from tests.conditions import WITHIN_S, until
from tests.conformance.faces.port import Answer, Port, Refused

_UNTOLD = frozenset({"last_id", "next_after", "lag", "pending", "state", "closed_at_ms"})
"""Parts of answers that a follower is told only when they change, or never."""

_GOES_ON = ("live", "credit_exhausted")
"""States behind which more may come at once."""

Followed = tuple[str, Any]
"""An event, or a frame: its type and the rest of it."""


async def answer_of(followed: AsyncIterator[Followed], limit: int, wait_ms: int) -> dict[str, Any]:
    """Read on until there is an answer to a request that waits for so long."""
    answer: dict[str, Any] = {"entries": []}
    entries: list[Any] = answer["entries"]
    try:
        async with asyncio.timeout(wait_ms / 1000 if wait_ms else WITHIN_S):
            async for kind, part in followed:
                if kind == "problem":
                    raise Refused(part["code"])
                if kind == "entries":
                    entries += part["entries"]
                    answer |= {name: part[name] for name in ("deleted_ids",) if name in part}
                elif kind == "closed":
                    return answer | {"state": "closed", "closed_at_ms": part["closed_at_ms"]}
                elif kind == "state" and part["state"] not in ("nothing", *_GOES_ON):
                    answer["state"] = part["state"]
                has_ended = kind == "state" and part["state"] not in _GOES_ON
                if len(entries) >= limit or (entries if wait_ms else has_ended):
                    return answer
    except TimeoutError:
        assert wait_ms, f"no end after {entries}"
    return answer


class Events(Port):
    """Server-Sent Events. An event has one entry, so only reads of one entry wait."""

    untold: ClassVar = _UNTOLD | {"deleted_ids", "gap"}

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._seen: set[tuple[str, str, str]] = set()

    async def read(
        self, stream: str, after: str = "0", limit: int = 100, wait_ms: int = 0, **options: Any
    ) -> Answer:
        if wait_ms and limit != 1:
            return await super().read(stream, after, limit, wait_ms, **options)
        query = {"after": after}
        if "filters" in options:
            query["filter"] = json.dumps(options["filters"])
        return await self._followed(f"{stream}/events", query, limit, wait_ms)

    async def take(
        self, stream: str, group: str, by: str, limit: int = 10, wait_ms: int = 0, **options: Any
    ) -> Answer:
        reader = stream, group, by
        is_new = reader not in self._seen
        self._seen.add(reader)
        if (wait_ms and limit != 1) or not is_new or options.keys() - {"claim_idle_ms"}:
            return await super().take(*reader, limit, wait_ms, **options)
        query = {"consumer": by, "credit": limit, "on_disconnect": "keep", **options}
        return await self._followed(f"{stream}/groups/{group}/events", query, limit, wait_ms)

    @contextmanager
    def _silent_for(self, silence_ms: int) -> Iterator[None]:
        """Let connections that are opened meanwhile have heartbeats that seldom.

        At each heartbeat a reader waits anew, behind those that have come since. Only a read that
        does not wait needs one, to know that nothing comes.
        """
        gateway, limits = self.live.gateway, self.live.gateway.limits
        seldom = limits.model_copy(update={"heartbeat_ms": silence_ms})
        object.__setattr__(gateway, "limits", seldom)  # nobody else may change it
        try:
            yield
        finally:
            object.__setattr__(gateway, "limits", limits)

    async def _followed(
        self, place: str, query: Mapping[str, Any], limit: int, wait_ms: int
    ) -> Answer:
        connections = self.live.gateway.connections
        before = set(connections._by_id)
        url = f"/v1/streams/{place}"
        accept = {"Accept": "text/event-stream"}
        async with AsyncExitStack() as stack:
            with self._silent_for(2 * wait_ms) if wait_ms else nullcontext():
                events = await stack.enter_async_context(
                    self.live.http.stream("GET", url, params=query, headers=accept)
                )
            if events.is_error:
                raise Refused(json.loads(await events.aread())["code"])
            mine = set(connections._by_id) - before
            answer = await answer_of(_events(events.aiter_lines()), limit, wait_ms)
        await until(lambda: not mine & set(connections._by_id))
        answer["entries"] = answer["entries"][:limit]
        return answer


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[Followed]:
    """Yield events in the words of frames; a heartbeat says that nothing comes for now."""
    kind = ""
    async for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            part = json.loads(line.removeprefix("data: "))
            if kind == "entry":
                yield "entries", {"entries": [part]}
            elif kind == "caught_up":
                yield "state", {"state": "caught_up"}
            else:
                yield kind, part
        elif line.startswith(": heartbeat"):
            yield "state", {"state": "nothing"}


class Sockets(Port):
    """WebSockets. A consumer has a subscription for as long as that has no credit left."""

    untold: ClassVar = _UNTOLD | {"deleted_ids", "gap"}

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._sockets = AsyncExitStack()
        self._seen: dict[tuple[str, str, str], Frames | None] = {}

    async def close(self) -> None:
        await self._sockets.aclose()

    async def _opened(self) -> Frames:
        frames = Frames(
            await self._sockets.enter_async_context(connect(self.live.ws_url + "/v1/ws"))
        )
        await frames.next("welcome")
        return frames

    async def append(self, stream: str, entries: Sequence[Answer], **options: Any) -> Answer:
        if options:
            return await super().append(stream, entries, **options)
        frames = await self._opened()
        return await _asked(frames, "append", stream=stream, entries=entries)

    async def read(
        self, stream: str, after: str = "0", limit: int = 100, wait_ms: int = 0, **options: Any
    ) -> Answer:
        frames = await self._opened()
        choices = {"filter": options["filters"]} if "filters" in options else {}
        subscribed = await _asked(
            frames, "subscribe", sub="s", stream=stream, after=after, credit=limit, **choices
        )
        answer = await answer_of(_frames(frames), limit, wait_ms)
        await frames.socket.close()
        return answer | ({"gap": subscribed["gap"]} if "gap" in subscribed else {})

    async def take(
        self, stream: str, group: str, by: str, limit: int = 10, wait_ms: int = 0, **options: Any
    ) -> Answer:
        reader = stream, group, by
        frames = self._seen.get(reader)
        is_other = bool(options.keys() - {"claim_idle_ms", "no_ack"})
        if is_other or (reader in self._seen and (frames is None or options or not wait_ms)):
            return await super().take(*reader, limit, wait_ms, **options)
        if frames is not None:
            await frames.send(type="credit", sub="s", entries=limit)
        else:
            self._seen[reader] = None
            frames = await self._opened()
            ack = "none" if options.pop("no_ack", False) else "explicit"
            options |= {"ack": ack, "on_disconnect": "keep"}
            named = {"stream": stream, "group": group, "consumer": by}
            await _asked(frames, "subscribe", sub="s", credit=limit, **named, **options)
        answer = await answer_of(_frames(frames), limit, wait_ms)
        if len(answer["entries"]) == limit:
            self._seen[reader] = frames
        else:
            self._seen[reader] = None
            if "closed_at_ms" not in answer:
                await _asked(frames, "unsubscribe", sub="s")
        return answer

    async def _settled(
        self, what: str, stream: str, group: str, by: str | None = None, **how: Any
    ) -> Answer:
        frames = self._seen.get((stream, group, by or ""))
        if frames is None:
            method = getattr(super(), what)
            settled: Answer = await method(stream, group, by=by, **how)
            return settled
        return await _asked(frames, what, sub="s", **how)

    async def ack(self, **settled: Any) -> Answer:
        return await self._settled("ack", **settled)

    async def nack(self, **settled: Any) -> Answer:
        return await self._settled("nack", **settled)

    async def extend(self, **settled: Any) -> Answer:
        return await self._settled("extend", **settled)


async def _asked(frames: Frames, kind: str, **parts: Any) -> Answer:
    """Send a frame, and return the one that answers it."""
    await frames.send(type=kind, rid="r", **parts)
    async with asyncio.timeout(WITHIN_S):
        while (frame := await frames.any()).get("rid") != "r":
            pass
    if frame["type"] == "problem":
        raise Refused(frame["problem"]["code"])
    return frame


async def _frames(frames: Frames) -> AsyncIterator[Followed]:
    """Yield frames with their types."""
    while True:
        frame = await frames.any()
        yield frame["type"], frame["problem"] if frame["type"] == "problem" else frame
