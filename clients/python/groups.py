"""Groups: one group in all streams that match a pattern, read by each consumer as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from headgate.client.automation import Push
from headgate.client.calls import Calls, segment
from headgate.client.entries import Delivery, delivery_of
from headgate.client.group import Consuming, Worked
from headgate.client.job import error_text
from headgate.client.live import Live
from headgate.client.shapes.settings import OnDisconnect, Policy
from headgate.client.subscription import Mode, Outcome

IdsOfStreams = Mapping[str, Iterable[str]]
"""Ids of entries, by stream."""

OutcomesOfStreams = dict[str, dict[str, Outcome]]
"""What became of each entry, by stream and id."""


class MissingGroups(TypedDict, total=False):
    """The groups that are created where there is none: where they begin, and their rules."""

    start: str
    policy: Policy


class Groups(Worked):
    """The group of one name in all streams that match. Creating this object sends nothing.

    Streams take turns, and each entry says its `stream`. Streams that are made later are among
    them.

    Example:
        billing = hg.groups("billing", match="orders.*", create={"start": "0"})
        await billing.work(charge, concurrency=16)
    """

    def __init__(
        self,
        calls: Calls,
        live: Live,
        name: str,
        match: str,
        *,
        create: MissingGroups | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """See `AsyncClient.groups`."""
        options = {"create": create, "weights": None if weights is None else dict(weights)}
        self._options = {name: value for name, value in options.items() if value is not None}
        super().__init__(calls, live, {"match": match, "group": name, **self._options})
        self.name = name
        self.match = match
        self._calls = calls
        self._path = f"/v1/groups/{segment(name)}"

    @property
    def push(self) -> Push:
        """Return its push, which sends the entries of all the streams to a URL.

        The push need not exist. `set` sets it with `create` and `weights` as they are here.
        """
        return Push(self._calls, f"{self._path}/push", self.match, self._options)

    def consume(
        self,
        *,
        consumer: str | None = None,
        credit: int = 64,
        claim_idle_ms: int | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> Consuming:
        """Consume entries: an iterator of jobs that waits for the next one; see `Group.consume`.

        Args:
            consumer: who reads; None: the gateway makes a name, and removes it in the end.
            credit: entries that may be on the way to this program, or in work.
            claim_idle_ms: take entries of others that are idle for so long; None: as the group's
                policy in each stream has it.
            on_disconnect: what becomes of unsettled entries when the connection ends.
        """
        return self.consuming(
            consumer=consumer,
            credit=credit,
            claim_idle_ms=claim_idle_ms,
            on_disconnect=on_disconnect,
        )

    async def read(
        self,
        consumer: str,
        *,
        limit: int = 10,
        wait_ms: int = 0,
        claim_idle_ms: int | None = None,
        max_pending: int | None = None,
    ) -> list[Delivery]:
        """Return entries by one request; `consume` is faster and settles by itself.

        Args:
            consumer: who reads.
            limit: entries at most.
            wait_ms: how long to wait if there is nothing.
            claim_idle_ms: first take entries of anybody that are idle for so long.
            max_pending: how many entries the consumer may hold in all of the streams.
        """
        options = {"claim_idle_ms": claim_idle_ms, "max_pending": max_pending}
        body: dict[str, Any] = {"limit": limit, "wait_ms": wait_ms, **self._options}
        body |= {name: value for name, value in options.items() if value is not None}
        query = {"match": self.match, "consumer": consumer}
        path = f"{self._path}/read"
        answer = await self._calls.call("POST", path, body=body, query=query, wait_ms=wait_ms)
        return list(map(delivery_of, answer["entries"]))

    async def ack(self, ids: IdsOfStreams, *, consumer: str | None = None) -> OutcomesOfStreams:
        """Acknowledge entries, and return what became of each (XACK); see `Group.ack`."""
        return await self._settle("ack", ids, {}, consumer)

    async def nack(
        self,
        ids: IdsOfStreams,
        *,
        consumer: str | None = None,
        mode: Mode = "fail",
        delay_ms: int | None = None,
        error: BaseException | str | None = None,
    ) -> OutcomesOfStreams:
        """Give entries back, and return what became of each (XNACK); see `Job.nack`."""
        options = {"mode": mode, "delay_ms": delay_ms, "error": error_text(error)}
        sent = {name: value for name, value in options.items() if value is not None}
        return await self._settle("nack", ids, sent, consumer)

    async def extend(self, ids: IdsOfStreams, *, consumer: str) -> OutcomesOfStreams:
        """Restart the idle clock of entries, so that nobody claims them (XCLAIM JUSTID)."""
        return await self._settle("extend", ids, {}, consumer)

    async def _settle(
        self, how: str, ids: IdsOfStreams, options: dict[str, Any], consumer: str | None
    ) -> OutcomesOfStreams:
        entries = [{"stream": stream, "ids": list(each)} for stream, each in ids.items()]
        answer = await self._calls.call(
            "POST",
            f"{self._path}/{how}",
            body={"entries": entries, **options},
            query={"consumer": consumer},
            is_repeatable=how != "nack",
        )
        return {
            each["stream"]: {result["id"]: result["outcome"] for result in each["results"]}
            for each in answer["streams"]
        }
