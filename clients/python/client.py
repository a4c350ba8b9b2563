"""Client: access to a gateway, its streams and groups."""

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
    """A client for a gateway, for asyncio. Use it as a context manager, or call `aclose` when done.

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
        """Create a client. Sends nothing yet.

        Args:
            url: URL of the gateway. For several gateways that share a bucket, a list of URLs, or
                URLs separated by commas. Requests go to the one that leads, and to no other
                addresses than these. Default: `HEADGATE_URL`, or port 8080 on this machine.
            token: A key or a token, or a function that returns one and is called again when the
                previous one has ended, such as a `TokenFile`. An empty string means no token.
                Default: the file that `HEADGATE_TOKEN_FILE` names, or `HEADGATE_TOKEN`, or no
                token.
            producer: Name of this program as a producer. If set, each append has an idempotency
                key, and is repeated if its answer is lost.
            retry_s: How long requests are retried while the gateway cannot be reached. Each URL is
                tried at least once.
            rate_limit_s: How long requests are retried while the gateway refuses them with
                `RateLimited`. Default: `retry_s`.
            answer_s: Timeout for an answer, in addition to the time that the request itself waits.
            tls: TLS context with the certificates to trust. Default: those of public authorities.
            insecure: Send the token over plain HTTP to other machines, too. Default: whether
                `HEADGATE_INSECURE` is set.
            transport: Transport for HTTP requests. Default: that of httpx.

        Raises:
            ValueError: The URL is not valid.
            CredentialError: Others could read the token, or the token is not valid.
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
        """Return the URL that requests currently go to."""
        return self._addresses.current

    async def aclose(self) -> None:
        """Close all connections. Iterators of followers and consumers raise an error."""
        await self._live.close()
        await self._calls.close()

    async def readiness(self) -> Readiness:
        """Return the state of the gateway.

        Raises:
            Draining: The gateway is about to stop.
            NotLeader: No gateway can change streams now.
        """
        return cast(Readiness, await self._calls.call("GET", "/readyz"))

    async def ready(self) -> str:
        """Return `ok` if the gateway is ready for requests. See `readiness`."""
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
        """Send a request to an operation that has no method here, and return the JSON answer.

        Args:
            method: HTTP method, such as `GET`.
            path: Percent-encoded path, such as `/v1/limits`.
            query: Query parameters. Those that are None are left out.
            body: Value to send as JSON. None: no body.
            headers: Additional headers.
            wait_ms: How long the operation itself may wait, in addition to `answer_s`.
            is_repeatable: Whether the request may be sent twice. Default: true unless it is a POST.

        Raises:
            Problem: The gateway refused the request.
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
        """Create a ticket: a token that a server gives to the page of a signed-in user.

        Args:
            stream: The only stream that the ticket gives access to. None: no stream.
            do: What the ticket allows on the stream and the channel. The caller must have these
                rights, too.
            group: With `consume`, the group.
            consumer: With `consume`, the only consumer that the page may be. None: any consumer.
            channel: With `publish` and `subscribe`, the only channel that the ticket gives access
                to.
            user: Name of the user, as shown in presence. Default: the caller.
            ttl_s: Lifetime in seconds: at most one hour, and no longer than the credential of the
                caller.
        """
        wanted = {"stream": stream, "do": list(do), "group": group, "consumer": consumer}
        body = {**wanted, "channel": channel, "user": user, "ttl_ms": round(ttl_s * 1000)}
        made = await self._calls.call("POST", "/v1/tickets", body=body, is_repeatable=True)
        return cast(Ticket, made)

    def stream(self, name: str) -> Stream:
        """Return a stream by name. The stream need not exist."""
        return Stream(self._calls, self._live, name, self._producer)

    def group(self, stream: str, name: str) -> Group:
        """Return a group of a stream. The group need not exist."""
        return Group(self._calls, self._live, stream, name)

    def groups(
        self,
        name: str,
        *,
        match: str,
        create: MissingGroups | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> Groups:
        """Return the group of this name in all streams that match. None of them need exist.

        Args:
            name: Name of the group.
            match: A Redis pattern, such as `orders.*`.
            create: Create the group in streams that lack it, with this start and policy. None: skip
                those streams.
            weights: Number of entries that each stream delivers per turn. Default: 1.
        """
        return Groups(self._calls, self._live, name, match, create=create, weights=weights)

    def channel(self, name: str) -> Channel:
        """Return a channel by name. You do not need to create it."""
        return Channel(self._calls, self._live, name)

    async def commit(
        self, *steps: Step, consumer: str | None = None, idempotency_key: str | None = None
    ) -> list[list[str]]:
        """Execute all steps or none, and return the ids of the entries that each step appended.

        `Job.commit` also acknowledges a job.

        Args:
            steps: Steps created with `headgate.client.commits`, such as `append("bills", fields)`.
            consumer: The consumer that settles entries, if a step does that.
            idempotency_key: A repeat with the same key changes nothing. Default: a new key for each
                commit, so the client repeats the commit if the answer is lost.

        Raises:
            NotYours: An entry is not pending with the consumer.
            Problem: Another step failed. Nothing has changed.
        """
        return await commits.commit(self._calls, steps, consumer, idempotency_key)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule by name. The schedule need not exist."""
        return Schedule(self._calls, name)

    async def schedules(self, *, limit: int = 100) -> AsyncGenerator[ScheduleInfo]:
        """Yield the schedules of the streams that the caller can see, in pages of `limit`."""
        async for schedule in self._calls.items("/v1/schedules", "schedules", limit=limit):
            yield cast(ScheduleInfo, schedule)

    async def pushes(self, *, limit: int = 100) -> AsyncGenerator[PushSummary]:
        """Yield the pushes of the groups that the caller may manage, in pages of `limit`."""
        async for push in self._calls.items("/v1/pushes", "pushes", limit=limit):
            yield cast(PushSummary, push)

    async def streams(
        self, *, prefix: str = "", limit: int = 100, internal: bool = False
    ) -> AsyncGenerator[StreamInfo]:
        """Yield streams whose names start with `prefix`, in pages of `limit` (SCAN TYPE stream).

        Args:
            prefix: Prefix of the names.
            limit: Number of streams per page.
            internal: Also yield the internal streams of the gateway, whose names start with `__`.
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
        """Follow all streams whose names match, including streams that are created later.

        Each entry has its `stream`. Entries of one stream arrive in order. Following resumes after
        each loss of the connection. An entry can then arrive twice.

        Args:
            match: A Redis pattern, such as `orders.*`.
            after: An id that applies to every stream, `0` for all entries, or `$` for new entries
                only.
            credit: Maximum number of entries in flight to this program.
            on_state: Called when entries arrive, when all entries have been read (`caught_up`), and
                when the connection is `lost`, with the reason.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`.
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
        """Return a plan of the next read for each cursor, in the same order.

        Args:
            cursors: At most one cursor per stream.
            max_entries: Maximum number of entries of all streams together, shared in proportion to
                the backlog of each stream. None: all entries.
            wait_ms: How long to wait if no stream has new entries.
        """
        return await plans_of(self._calls, cursors, max_entries=max_entries, wait_ms=wait_ms)

    def writer(self, name: str) -> Writer:
        """Return a writer by name. It appends each of its batches exactly once."""
        return Writer(self._calls, name)
