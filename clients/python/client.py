"""Client: a gateway, its streams and groups."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self, cast

import httpx

from headgate.client import commits
from headgate.client.address import Addresses, urls_of
from headgate.client.automation import Schedule
from headgate.client.bulk import Cursor, Filter, Plan, Writer, plans_of
from headgate.client.calls import Calls
from headgate.client.channel import Channel
from headgate.client.commits import Step
from headgate.client.credential import Credential, TokenSource
from headgate.client.group import Group
from headgate.client.groups import Groups, MissingGroups
from headgate.client.live import Live
from headgate.client.shapes.answers import (
    PushSummary,
    Readiness,
    ScheduleInfo,
    StreamInfo,
    Ticket,
    TicketVerb,
)
from headgate.client.stream import Following, OnState, Stream


class AsyncClient:
    """An asyncio client of a gateway. Use it as a context manager, or call `aclose` at the end.

    Example:
        async with headgate.AsyncClient("http://localhost:8080") as hg:
            await hg.stream("orders").append({"sku": "42"})
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: TokenSource | None = None,
        producer: str | None = None,
        retry_s: float = 30.0,
        rate_limit_s: float | None = None,
        answer_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
        insecure: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Talk to a gateway; nothing is sent yet.

        Args:
            url: where it is; several gateways on one bucket have a URL each, in a list or with
                commas between them: requests go to the one that leads, and to no other place than
                these. None: `HEADGATE_URL`, or port 8080 of this machine.
            token: a key or a token, or a function that returns one whenever the one before has
                ended, as a `TokenFile` does; None: the file that `HEADGATE_TOKEN_FILE` names, or
                `HEADGATE_TOKEN`, or none; an empty text: none.
            producer: the name of this program among those that append. With it each append carries
                an idempotency key, and is repeated if its answer is lost.
            retry_s: how long requests are tried again while the gateway cannot be reached; each URL
                is tried once in any case.
            rate_limit_s: how long they are tried again while they are too many (`RateLimited`);
                None: as long as `retry_s`.
            answer_s: how long an answer may take, beside what the request itself waits for.
            tls: which certificates are trusted; None: those of a public authority.
            insecure: send the token over plain http to another machine, too; None: if
                `HEADGATE_INSECURE` is set.
            transport: how requests over HTTP travel; None: as usual.

        Raises:
            ValueError: the URL is none.
            CredentialError: the token could be read by others, or is none.
        """
        self._addresses = Addresses(urls_of(url))
        credential = Credential(self._addresses.urls, token, insecure=insecure)
        self._calls = Calls(
            self._addresses,
            credential,
            retry_s=retry_s,
            rate_limit_s=rate_limit_s,
            answer_s=answer_s,
            tls=tls,
            transport=transport,
        )
        self._live = Live(self._addresses, credential, tls=tls)
        self._producer = producer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    @property
    def url(self) -> str:
        """Return the URL that requests go to now."""
        return self._addresses.current

    async def aclose(self) -> None:
        """Close all connections; whoever follows or consumes gets an error."""
        await self._live.close()
        await self._calls.close()

    async def readiness(self) -> Readiness:
        """Return the state of the gateway.

        Raises:
            Draining: it is about to stop.
            NotLeader: none of the gateways can change streams now.
        """
        return cast(Readiness, await self._calls.call("GET", "/readyz"))

    async def ready(self) -> str:
        """Return `ok` if the gateway is ready for requests; see `readiness`."""
        return (await self.readiness())["status"]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        wait_ms: int = 0,
        is_repeatable: bool | None = None,
    ) -> Any:
        """Return the JSON of an answer: for operations of the HTTP API that have no method here.

        Args:
            method: such as `GET`.
            path: such as `/v1/limits`, percent-encoded.
            query: parameters; those that are None are left out.
            body: is sent as JSON; None: there is none.
            headers: are sent as well.
            wait_ms: how long the operation itself may wait, on top of `answer_s`.
            is_repeatable: the request may be sent twice; None: unless it is a POST.

        Raises:
            Problem: the gateway refused the request.
        """
        how: Any = {"headers": headers, "wait_ms": wait_ms, "is_repeatable": is_repeatable}
        return await self._calls.call(method, path, query=query, body=body, **how)

    async def ticket(
        self,
        stream: str | None,
        do: Sequence[TicketVerb],
        *,
        group: str | None = None,
        consumer: str | None = None,
        channel: str | None = None,
        user: str | None = None,
        ttl_s: float = 300.0,
    ) -> Ticket:
        """Return a ticket: a token that a server gives to a page of somebody who is signed in.

        Args:
            stream: the one stream that it allows; None: none.
            do: what it allows there and on the channel; the caller must be allowed it as well.
            group: with `consume`: the group.
            consumer: with `consume`: only as this consumer; None: as any.
            channel: with `publish` and `subscribe`: the one channel that it allows.
            user: who is at the page, as presence shows it; None: the caller.
            ttl_s: how long it is good, in seconds: up to an hour, and no longer than the
                credential of the caller.
        """
        wanted = {"stream": stream, "do": list(do), "group": group, "consumer": consumer}
        body = {**wanted, "channel": channel, "user": user, "ttl_ms": round(ttl_s * 1000)}
        made = await self._calls.call("POST", "/v1/tickets", body=body, is_repeatable=True)
        return cast(Ticket, made)

    def stream(self, name: str) -> Stream:
        """Return a stream by its name; it need not exist."""
        return Stream(self._calls, self._live, name, self._producer)

    def group(self, stream: str, name: str) -> Group:
        """Return a group of a stream; it need not exist."""
        return Group(self._calls, self._live, stream, name)

    def groups(
        self,
        name: str,
        *,
        match: str,
        create: MissingGroups | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> Groups:
        """Return the group of this name in all streams that match; none of them need exist.

        Args:
            name: of the group.
            match: a pattern of Redis, such as `orders.*`.
            create: create the group where there is none, with this start and these rules; None:
                streams without it are left out.
            weights: how many entries a stream gives in each of its turns; 1 unless given.
        """
        return Groups(self._calls, self._live, name, match, create=create, weights=weights)

    def channel(self, name: str) -> Channel:
        """Return a channel by its name; it need not be created."""
        return Channel(self._calls, self._live, name)

    async def commit(
        self, *steps: Step, consumer: str | None = None, idempotency_key: str | None = None
    ) -> list[list[str]]:
        """Carry out steps together or not at all, and return the ids that each has appended.

        `Job.commit` is the same with the acknowledgement of a job.

        Args:
            steps: as `headgate.client.commits` makes them, such as `append("bills", fields)`.
            consumer: who settles entries, if a step does.
            idempotency_key: a repeat with the same key changes nothing. The client makes one for
                each commit unless it is given, so an answer that is lost is asked for again.

        Raises:
            NotYours: an entry is not pending with the consumer.
            Problem: another step failed; nothing has changed.
        """
        return await commits.commit(self._calls, steps, consumer, idempotency_key)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule by its name; it need not exist."""
        return Schedule(self._calls, name)

    async def schedules(self, *, limit: int = 100) -> AsyncGenerator[ScheduleInfo]:
        """Yield the schedules of the streams that the caller may see, by pages of `limit`."""
        async for schedule in self._calls.items("/v1/schedules", "schedules", limit=limit):
            yield cast(ScheduleInfo, schedule)

    async def pushes(self, *, limit: int = 100) -> AsyncGenerator[PushSummary]:
        """Yield the pushes of the groups that the caller may manage, by pages of `limit`."""
        async for push in self._calls.items("/v1/pushes", "pushes", limit=limit):
            yield cast(PushSummary, push)

    async def streams(
        self, *, prefix: str = "", limit: int = 100, internal: bool = False
    ) -> AsyncGenerator[StreamInfo]:
        """Yield streams whose names start with `prefix`, by pages of `limit` (SCAN TYPE stream).

        Args:
            prefix: the beginning of the names.
            limit: streams in one page.
            internal: also yield the internal streams of the gateway, whose names begin with `__`.
                This requires the right `admin`.
        """
        query = {"prefix": prefix, "internal": "true" if internal else None}
        async for stream in self._calls.items("/v1/streams", "streams", limit=limit, query=query):
            yield cast(StreamInfo, stream)

    def follow(
        self,
        match: str,
        *,
        after: str = "$",
        credit: int = 256,
        on_state: OnState | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> Following:
        """Follow all streams whose names match, those that are made later included.

        Each entry says its `stream`. The order of entries holds within each stream. It goes on
        through every loss of the connection; then an entry may come once more.

        Args:
            match: a pattern of Redis, such as `orders.*`.
            after: an id of every stream, `0` for all entries, or `$` for those from now on.
            credit: entries that may be on the way to this program.
            on_state: is called when entries come, when all were read (`caught_up`), and when the
                connection is `lost`, with the reason.
            filter: only entries for which it holds, such as `{"exact": {"sku": "42"}}`.
        """
        wanted: dict[str, Any] = {"match": match, "after": after}
        if filter is not None:
            wanted["filter"] = filter
        following = Following(self._live, wanted, credit=credit)
        following.on_state = on_state
        return following

    # In bulk

    async def plan(
        self, cursors: Sequence[Cursor], *, max_entries: int | None = None, wait_ms: int = 0
    ) -> list[Plan]:
        """Return a plan of the next read for each cursor, in their order.

        Args:
            cursors: at most one for a stream.
            max_entries: of all streams together, in shares that follow what each has; None: all.
            wait_ms: how long to wait if no stream has anything.
        """
        return await plans_of(self._calls, cursors, max_entries=max_entries, wait_ms=wait_ms)

    def writer(self, name: str) -> Writer:
        """Return a writer of batches by its name; with it each batch is appended exactly once."""
        return Writer(self._calls, name)
