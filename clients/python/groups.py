"""Groups: one group in all streams that match a pattern, read as one by each consumer."""

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
"""Outcome of each entry, by stream and id."""


class MissingGroups(TypedDict, total=False):
    """Groups to create in streams that lack them: their start and their policy."""

    start: str
    policy: Policy


class Groups(Worked):
    """The group of one name in all streams that match. Creating this object sends nothing.

    Streams take turns, and each entry has its `stream`. Streams that are created later are
    included.

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

        The push need not exist. `set` uses `create` and `weights` of this object.
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
        """Consume entries: iterate over jobs and wait for new ones. See `Group.consume`.

        Args:
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in flight to this program or in work.
            claim_idle_ms: Claim entries of other consumers that have been idle for this long.
                Default: the policy of the group in each stream.
            on_disconnect: What to do with unsettled entries when the connection ends.
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
        """Read entries with one request. `consume` is faster and settles entries for you.

        Args:
            consumer: Name of the consumer.
            limit: Maximum number of entries.
            wait_ms: How long to wait if there are no entries.
            claim_idle_ms: First claim entries of any consumer that have been idle for this long.
            max_pending: Maximum number of entries that the consumer may hold in all of the streams.
        """
        options = {"claim_idle_ms": claim_idle_ms, "max_pending": max_pending}
        body: dict[str, Any] = {"limit": limit, "wait_ms": wait_ms, **self._options}
        body |= {name: value for name, value in options.items() if value is not None}
        query = {"match": self.match, "consumer": consumer}
        path = f"{self._path}/read"
        answer = await self._calls.call("POST", path, body=body, query=query, wait_ms=wait_ms)
        return list(map(delivery_of, answer["entries"]))

    async def ack(self, ids: IdsOfStreams, *, consumer: str | None = None) -> OutcomesOfStreams:
        """Acknowledge entries, and return the outcome of each (XACK). See `Group.ack`."""
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
        """Give entries back, and return the outcome of each (XNACK). See `Job.nack`."""
        options = {"mode": mode, "delay_ms": delay_ms, "error": error_text(error)}
        sent = {name: value for name, value in options.items() if value is not None}
        return await self._settle("nack", ids, sent, consumer)

    async def extend(self, ids: IdsOfStreams, *, consumer: str) -> OutcomesOfStreams:
        """Restart the idle time of entries so that no consumer claims them (XCLAIM JUSTID)."""
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
