"""RESP and `/v1/commands`: an operation is a command of Redis."""

# mypy: disable-error-code="override"
# A face does not look at options that it hands on to the port.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from tests.conformance.faces.port import Answer, Port, Refused, results

_TEXTS = {
    "stream_not_found": ("NOGROUP", "ERR no such key", "ERR The XGROUP subcommand requires"),
    "group_not_found": ("NOGROUP",),
    "group_exists": ("BUSYGROUP",),
    "id_not_greater": ("ERR The ID specified in XADD",),
    "invalid_id": ("ERR Invalid stream ID",),
    "stream_closed": ("ERR stream",),
}
"""The beginnings of texts for problems."""

HOUR_MS = 3_600_000
"""An idle time that no owned entry reaches."""


def entries_of(reply: Any) -> list[Answer]:
    """Return entries, also claimed ones, which have idle time and count."""
    return [
        {
            "id": each[0],
            "fields": dict(zip(each[1][::2], each[1][1::2], strict=True)),
            **({"deliveries": int(each[3]) + 1} if len(each) > 2 else {}),
        }
        for each in reply or ()
        if each[1] is not None
    ]


class Commands(Port):
    """Commands in JSON, over HTTP."""

    untold: ClassVar = frozenset({"lag", "state", "claimed_from", "last_error", "gap", "pending"})
    untold |= {"next_after", "last_id", "closed_at_ms", "deliveries", "delay_ms", "deleted_ids"}
    lacks: ClassVar = frozenset({"policies", "strict", "closing"})

    async def run(self, *words: object) -> Any:
        """Run a command, and return its reply."""
        answer = await self.live.http.post("/v1/commands", json=list(map(str, words)))
        reply = answer.json()
        if answer.is_error:
            raise Refused(reply["error"])
        return reply["result"]

    def is_problem(self, code: str, refused: Refused) -> bool:
        return str(refused) == code or str(refused).startswith(_TEXTS.get(code, ("ERR", code)))

    async def append(self, stream: str, entries: Sequence[Answer], **options: Any) -> Answer:
        [entry, *others] = entries
        if others or options.keys() - {"create_stream"} or entry.keys() - {"fields", "id"}:
            return await super().append(stream, entries, **options)
        mkstream = () if options.get("create_stream", True) else ("NOMKSTREAM",)
        fields = chain.from_iterable(entry["fields"].items())
        entry_id = await self.run("XADD", stream, *mkstream, entry.get("id", "*"), *fields)
        if entry_id is None:
            raise Refused("ERR no such key")
        return {"ids": [entry_id]}

    async def read(
        self, stream: str, after: str = "0", limit: int = 100, wait_ms: int = 0, **options: Any
    ) -> Answer:
        if options:
            return await super().read(stream, after, limit, wait_ms, **options)
        block = ("BLOCK", wait_ms) if wait_ms else ()
        reply = await self.run("XREAD", "COUNT", limit, *block, "STREAMS", stream, after)
        return {"entries": entries_of(reply[0][1] if reply else ())}

    async def range(
        self, stream: str, start: str = "-", end: str = "+", order: str = "asc", limit: int = 100
    ) -> Answer:
        name, span = ("XRANGE", (start, end)) if order == "asc" else ("XREVRANGE", (end, start))
        return {"entries": entries_of(await self.run(name, stream, *span, "COUNT", limit))}

    async def delete(self, stream: str, ids: Sequence[str], references: str = "keep") -> Answer:
        if references != "keep":
            return await super().delete(stream, ids, references)
        gone = [await self.run("XDEL", stream, each) for each in ids]
        return results(ids, ["deleted" if count else "not_found" for count in gone])

    async def trim(self, stream: str, **to: Any) -> Answer:
        [(how, bound), *others] = to.items()
        if others:
            return await super().trim(stream, **to)
        strategy = {"max_length": "MAXLEN", "min_id": "MINID"}[how]
        return {"removed": await self.run("XTRIM", stream, strategy, bound)}

    async def delete_stream(self, stream: str) -> None:
        if not await self.run("DEL", stream):
            raise Refused("ERR no such key")

    async def create_group(self, stream: str, group: str, **new: Any) -> Answer:
        start = new.pop("start", "$")
        mkstream = ("MKSTREAM",) if new.pop("create_stream", False) else ()
        if new:
            return await super().create_group(
                stream, group, start=start, create_stream=bool(mkstream), **new
            )
        await self.run("XGROUP", "CREATE", stream, group, start, *mkstream)
        return await self.describe_group(stream, group)

    async def delete_group(self, stream: str, group: str) -> None:
        if not await self.run("XGROUP", "DESTROY", stream, group):
            raise Refused("NOGROUP")

    async def create_consumer(self, stream: str, group: str, by: str) -> None:
        await self.run("XGROUP", "CREATECONSUMER", stream, group, by)

    async def consumers(self, stream: str, group: str) -> Answer:
        listed = await self.run("XINFO", "CONSUMERS", stream, group)
        pairs = (dict(zip(each[::2], each[1::2], strict=True)) for each in listed)
        return {"consumers": [{"name": p["name"], "pending": p["pending"]} for p in pairs]}

    async def take(
        self,
        stream: str,
        group: str,
        by: str,
        limit: int = 10,
        wait_ms: int = 0,
        after: str = ">",
        claim_idle_ms: int = HOUR_MS,
        no_ack: bool = False,
        ack: Sequence[str] = (),
    ) -> Answer:
        if ack:
            await self.run("XACK", stream, group, *ack)
        options = [
            *("COUNT", limit),
            *(("BLOCK", wait_ms) if wait_ms else ()),
            *(("CLAIM", claim_idle_ms) if after == ">" else ()),
            *(("NOACK",) if no_ack else ()),
        ]
        words = "XREADGROUP", "GROUP", group, by, *options, "STREAMS", stream, after
        reply = await self.run(*words)
        return {"entries": entries_of(reply[0][1] if reply else ())}

    async def ack(
        self, stream: str, group: str, ids: Sequence[str], by: str | None = None
    ) -> Answer:
        if by is not None:
            return await super().ack(stream, group, ids, by)
        counts = [await self.run("XACK", stream, group, each) for each in ids]
        return results(ids, ["acked" if count else "not_pending" for count in counts])

    async def nack(self, stream: str, group: str, ids: Sequence[str], **options: Any) -> Answer:
        mode = options.pop("mode", "fail")
        if options:
            return await super().nack(stream, group, ids, mode=mode, **options)
        counts = [
            await self.run("XNACK", stream, group, mode.upper(), "IDS", 1, each) for each in ids
        ]
        return results(ids, ["released" if count else "not_pending" for count in counts])

    async def claim(
        self, stream: str, group: str, by: str, ids: Sequence[str], min_idle_ms: int = 0, **how: Any
    ) -> Answer:
        options = [word for name in how for word in _CLAIM[name](how[name])]
        reply = await self.run("XCLAIM", stream, group, by, min_idle_ms, *ids, *options)
        if how.get("just_id"):
            return {"ids": reply, "entries": []}
        return {"ids": [each[0] for each in reply], "entries": entries_of(reply)}

    async def autoclaim(
        self,
        stream: str,
        group: str,
        by: str,
        min_idle_ms: int = 0,
        start: str = "0",
        limit: int = 100,
        just_id: bool = False,
    ) -> Answer:
        options = ("COUNT", limit, *(("JUSTID",) if just_id else ()))
        words = ("XAUTOCLAIM", stream, group, by, min_idle_ms, start, *options)
        after, claimed, gone = await self.run(*words)
        ids = claimed if just_id else [each[0] for each in claimed]
        entries = [] if just_id else entries_of(claimed)
        return {"ids": ids, "entries": entries, "deleted_ids": gone, "next": after}

    async def sum_pending(self, stream: str, group: str) -> Answer:
        count, low, high, holders = await self.run("XPENDING", stream, group)
        consumers = [{"name": name, "pending": int(held)} for name, held in holders or ()]
        return {"count": count, "min_id": low, "max_id": high, "consumers": consumers}


_CLAIM: Mapping[str, Any] = {
    "just_id": lambda is_wanted: ("JUSTID",) * is_wanted,
    "force": lambda is_wanted: ("FORCE",) * is_wanted,
    "retry_count": lambda count: ("RETRYCOUNT", count),
}


class Resp(Commands):
    """The port for Redis clients."""

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._connections: list[Connection] = []

    async def run(self, *words: object) -> Any:
        """Run a command, on another connection while one is in use."""
        connection = self._connections.pop() if self._connections else self._new()
        await connection.send_command(*words)
        try:
            return await connection.read_response()
        except ResponseError as error:
            text = str(error)  # the client leaves the most usual word out
            raise Refused(text if text.split(maxsplit=1)[0].isupper() else f"ERR {text}") from error
        finally:
            self._connections.append(connection)

    def _new(self) -> Connection:
        assert self.live.redis_port is not None
        return Connection(port=self.live.redis_port, protocol=2, decode_responses=True)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.disconnect()
