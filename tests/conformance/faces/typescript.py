# mypy: disable-error-code="override"
# A face does not look at options that it hands on to the port.
"""The TypeScript client, in one process of Node for all cases."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.faces.port import Answer, Port, Refused
from tests.sdk.typescript import packages
from tests.sdk.workshop import tool

_METHODS = {
    "create_stream": "create",
    "update_stream": "update",
    "delete_stream": "delete",
    "create_group": "create",
    "update_group": "update",
    "describe_group": "info",
    "delete_group": "delete",
    "range": "read",
    "claim": "claim",
    "autoclaim": "autoclaim",
}
"""Operations that are methods with the same options."""

_KEPT = {"fields", "filter", "filters"}
"""Parts whose names are of users."""


class Kept(dict[str, Any]):
    """Fields of an entry as they stand."""


class Node:
    """A process that calls the client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = count()
        self._calls: dict[int, asyncio.Future[Any]] = {}

    async def call(self, **call: Any) -> Any:
        """Call a method, and return what it does."""
        number = next(self._numbers)
        self._calls[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"number": number, **call}).encode() + b"\n")
        return await self._calls[number]

    async def run(self) -> None:
        """Hear the answers."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            call = self._calls.pop(answer["number"])
            if call.done():
                continue
            if "problem" in answer:
                call.set_exception(Refused(answer["problem"]))
            else:
                call.set_result(answer["value"])


@asynccontextmanager
async def node_in(folder: Path) -> AsyncIterator[Node]:
    """Run the process while the context lasts."""
    (folder / "node_modules").symlink_to(await asyncio.to_thread(packages))
    program = shutil.copy(Path(__file__).with_suffix(".mjs"), folder)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(tool("node"), program, stdin=pipe, stdout=pipe)
    node = Node(process)
    running = asyncio.create_task(node.run())
    try:
        yield node
    finally:
        process.kill()
        await process.wait()
        await running


class TypeScript(Port):
    """`@headgate/client`."""

    node: ClassVar[Node]

    @classmethod
    def own(cls) -> frozenset[str]:
        return super().own() | frozenset(_METHODS)

    def does(self, operation: str) -> Callable[..., Awaitable[Any]]:
        if operation in _METHODS:
            return partial(self._with_options, _METHODS[operation])
        return super().does(operation)

    async def _call(self, method: str, stream: str, group: str | None, *args: Any) -> Any:
        call = {"stream": stream, "group": group, "method": method, "args": list(map(_camel, args))}
        return _snake(await self.node.call(url=self.live.url, **call))

    async def _with_options(
        self, method: str, stream: str, group: str | None = None, by: Any = None, **given: Any
    ) -> Any:
        needed = {"min_idle_ms": 0} if method.endswith("claim") else {}
        consumer = {} if by is None else {"consumer": by}
        return await self._call(method, stream, group, {**needed, **given, **consumer})

    async def append(self, stream: str, entries: Sequence[Answer], **options: Any) -> Answer:
        timing = {name: value for name, value in entries[0].items() if name != "fields"}
        if "id" in timing or options.keys() - {"key", "last_id"}:
            return await super().append(stream, entries, **options)
        given = timing | _append_options(options)
        fields = [Kept(entry["fields"]) for entry in entries]
        if len(fields) == 1:
            return {"ids": [await self._call("append", stream, None, *fields, given)]}
        return {"ids": await self._call("appendMany", stream, None, fields, given)}

    async def close_stream(
        self, stream: str, entries: Sequence[Answer] = (), **options: Any
    ) -> Answer:
        if "create_stream" in options:
            return await super().close_stream(stream, entries, **options)
        fields = [Kept(entry["fields"]) for entry in entries] or (None,)
        closed: Answer = await self._call("close", stream, None, *fields, _append_options(options))
        return closed

    async def read(self, stream: str, after: str = "0", **options: Any) -> Answer:
        if "filters" in options:
            options["filter"] = options.pop("filters")
        page: Answer = await self._call("read", stream, None, {"after": after, **options})
        return page

    async def delete(self, stream: str, ids: Sequence[str], references: str = "keep") -> Answer:
        deleted: Answer = await self._call("deleteEntries", stream, None, ids, references)
        return deleted

    async def trim(self, stream: str, **to: Any) -> Answer:
        return {"removed": await self._call("trim", stream, None, to)}

    async def consumers(self, stream: str, group: str) -> Answer:
        return {"consumers": await self._call("consumers", stream, group)}

    async def delete_consumer(
        self, stream: str, group: str, by: str, pending: str = "release"
    ) -> Answer:
        return {"pending": await self._call("deleteConsumer", stream, group, by, pending)}

    async def take(self, stream: str, group: str, by: str, **options: Any) -> Answer:
        if "after" in options:
            options["from"] = options.pop("after")
        taken: Answer = await self._with_options("read", stream, group, by, **options)
        return taken

    async def _settle(
        self,
        what: str,
        stream: str,
        group: str,
        ids: Sequence[str],
        by: str | None = None,
        **how: Any,
    ) -> Answer:
        options = {**how, **({} if by is None else {"consumer": by})}
        return {"results": await self._call(what, stream, group, ids, options)}

    async def ack(self, **settled: Any) -> Answer:
        return await self._settle("ack", **settled)

    async def nack(self, **settled: Any) -> Answer:
        return await self._settle("nack", **settled)

    async def extend(self, **settled: Any) -> Answer:
        return await self._settle("extend", **settled)

    async def pending(self, **span: Any) -> Answer:
        return {"pending": await self._with_options("pending", **span)}

    async def sum_pending(self, stream: str, group: str) -> Answer:
        summary: Answer = await self._call("pendingSummary", stream, group)
        return summary

    async def redrive(self, stream: str, group: str, **wanted: Any) -> Answer:
        return {"results": await self._call("redrive", stream, group, wanted)}


def _append_options(options: Mapping[str, Any]) -> dict[str, Any]:
    names = {"key": "idempotency_key"}
    return {names.get(name, name): value for name, value in options.items()}


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """Rename the parts at any depth, but not those with names of users."""
    if isinstance(value, list):
        return [_renamed(each, rename) for each in value]
    if not isinstance(value, dict) or isinstance(value, Kept):
        return value
    return {
        rename(name): each if name in _KEPT else _renamed(each, rename)
        for name, each in value.items()
    }


def _camel(value: Any) -> Any:
    return _renamed(value, lambda name: re.sub(r"_(\w)", lambda initial: initial[1].upper(), name))


def _snake(value: Any) -> Any:
    return _renamed(value, lambda name: re.sub(r"(?=[A-Z])", "_", name).lower())
