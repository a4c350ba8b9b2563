"""Live: the WebSocket that all subscriptions of a client share. It reconnects after a loss."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from headgate.client.address import Addresses, backoff_s, is_loopback
from headgate.client.conversation import SUBPROTOCOL, Conversation
from headgate.client.credential import Bearer, Credential
from headgate.client.problems import HeadgateError, Unauthenticated, problem_in
from headgate.client.subscription import EXTEND_S, FRAME_BYTES_MAX, Closed, Subscription

_OPEN_S: Final = 10.0
_UNAUTHENTICATED: Final = 4401
_TOO_BIG: Final = 1009

_RENEW_AHEAD_S: Final = 60.0
_FAILED: Final = (502, 503, 504)
"""HTTP statuses of a handshake after which another gateway may work."""


class Refused(HeadgateError):
    """The gateway ended the connection, and would refuse it again.

    `close_code` is the close code of the WebSocket, or the HTTP status that refused the handshake.
    """

    def __init__(self, close_code: int, reason: str) -> None:
        super().__init__(f"the gateway closed the connection with {close_code} {reason}".rstrip())
        self.close_code = close_code


class _Loss(NamedTuple):
    why: str
    failure: Exception | None = None  # if set, do not reconnect
    was_served: bool = False
    is_of_gateway: bool = False  # another gateway may work
    leader: str | None = None


class Live:
    def __init__(
        self, addresses: Addresses, credential: Credential, *, tls: ssl.SSLContext | None = None
    ) -> None:
        """Take the addresses. The first subscription connects. See `AsyncClient`."""
        self._addresses = addresses
        self._tls = tls
        self._bearer = Bearer(credential)
        self._has_frames = asyncio.Event()
        self._is_known = asyncio.Event()  # the end of the token is known
        self._conversation = Conversation(self._has_frames.set, self._is_known.set)
        self._task: asyncio.Task[None] | None = None
        self._has_joined = asyncio.Event()  # a subscription that may need earlier extends

    def subscribe(
        self, wanted: Mapping[str, Any], *, credit: int, claim_idle_ms: int | None = None
    ) -> Subscription:
        """Subscribe. `wanted` is the frame without `type`, `sub` and `credit`.

        `credit` limits the entries that may arrive before any is done. Other consumers claim
        entries that are held for `claim_idle_ms`.
        """
        subscription = self._conversation.add(wanted, credit=credit)
        if claim_idle_ms is not None:
            subscription.extend_s = min(EXTEND_S, max(claim_idle_ms / 3000, 0.05))
            self._has_joined.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="headgate live connection")
        return subscription

    def say(self) -> None:
        """Send the frames of subscriptions at the end of this turn of the event loop."""
        self._has_frames.set()

    async def settle(self, subscription: Subscription) -> None:
        """Wait until everything that a subscription has settled is answered or lost."""
        quiet = asyncio.Event()
        self._conversation.when_quiet(subscription, quiet.set)
        await quiet.wait()

    async def leave(self, subscription: Subscription) -> None:
        """End a subscription. The last one also closes the connection."""
        self._conversation.leave(subscription)
        if not self._conversation.subscriptions:
            await self.close()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for subscription in list(self._conversation.subscriptions.values()):
            self._conversation.leave(subscription)
            subscription.end(Closed("the client was closed"))

    async def _run(self) -> None:
        attempt = 0
        while self._conversation.subscriptions:
            url = self._addresses.current
            try:
                loss = await self._loss_of(url)
            finally:
                self._conversation.lost()
            if loss.failure is not None:
                for subscription in list(self._conversation.subscriptions.values()):
                    self._conversation.leave(subscription)
                    subscription.end(loss.failure)
                return
            for subscription in self._conversation.subscriptions.values():
                subscription.changed("lost", loss.why)
            if loss.was_served:  # otherwise pauses keep growing
                attempt = 0
            pause_s = backoff_s(attempt)
            if loss.is_of_gateway:
                self._addresses.leave(url, loss.leader)
                pause_s = self._addresses.pause_s(attempt)
            wait_s = self._conversation.reconnect_after_s
            await asyncio.sleep(pause_s if wait_s is None else wait_s)
            attempt += 1

    async def _loss_of(self, url: str) -> _Loss:
        """Connect to a gateway, and return the loss of the connection after it is lost."""
        conversation = self._conversation
        try:
            await self._converse(url)
        except ConnectionClosed as closed:
            failure = await self._refusal_of(closed)
            return _Loss(_reason_of(closed), failure, was_served=conversation.was_served)
        except InvalidStatus as refused:
            failure = await self._refusal_of_handshake(refused)
            is_of_gateway = refused.response.status_code in _FAILED
            return _Loss(str(refused), failure, is_of_gateway=is_of_gateway)
        except (OSError, InvalidHandshake, TimeoutError) as error:  # the gateway may be back soon
            return _Loss(str(error) or "no answer", is_of_gateway=True)
        except Exception as error:  # noqa: BLE001 it is raised where entries are awaited
            return _Loss("", error)
        not_leader = conversation.not_leader
        if not_leader is None:
            return _Loss("it was closed")
        return _Loss(not_leader.detail, is_of_gateway=True, leader=not_leader.leader)

    async def _converse(self, url: str) -> None:
        tls: dict[str, Any] = {"ssl": self._tls} if self._tls and url.startswith("https:") else {}
        proxy: Literal[True] | None = None if is_loopback(url) else True
        token = await self._bearer.token()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with connect(
            f"ws{url.removeprefix('http')}/v1/ws",
            additional_headers=headers,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            max_size=FRAME_BYTES_MAX,
            max_queue=4,
            open_timeout=_OPEN_S,
            compression=None,
            proxy=proxy,
            **tls,
        ) as socket:
            self._conversation.begin(token if self._bearer.is_renewable else None)
            parts = (self._receive(socket), self._send(socket), self._extend(), self._renew())
            tasks = [asyncio.create_task(part) for part in parts]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    await task
            except asyncio.CancelledError:
                await socket.close()  # with code 1000; websockets would send an error code
                raise
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _receive(self, socket: ClientConnection) -> None:
        loop = asyncio.get_running_loop()
        conversation = self._conversation
        retries: dict[str, asyncio.TimerHandle] = {}  # by the names of subscriptions
        try:
            while True:
                conversation.receive(await socket.recv())
                if conversation.problem is None:
                    self._bearer.was_accepted()
                if conversation.not_leader is not None and self._addresses.are_several:
                    return
                for subscription, wait_s in conversation.refused:
                    if subscription.name in retries:  # `problem` arrives before `unsubscribed`
                        retries[subscription.name].cancel()
                    retry = loop.call_later(wait_s, conversation.resubscribe, subscription)
                    retries[subscription.name] = retry
                conversation.refused.clear()
        finally:
            for retry in retries.values():
                retry.cancel()  # the next connection subscribes everything

    async def _send(self, socket: ClientConnection) -> None:
        while True:
            await self._has_frames.wait()
            await asyncio.sleep(0)  # settle the rest of this turn in the same frame
            self._has_frames.clear()
            for text in self._conversation.frames_to_send():
                await socket.send(text)

    async def _extend(self) -> None:
        loop = asyncio.get_running_loop()
        subscriptions = self._conversation.subscriptions
        extended_s = loop.time()
        while True:
            extend_s = min((each.extend_s for each in subscriptions.values()), default=EXTEND_S)
            try:
                async with asyncio.timeout_at(extended_s + extend_s):
                    await self._has_joined.wait()
                self._has_joined.clear()
            except TimeoutError:
                extended_s = loop.time()
                for subscription in subscriptions.values():
                    if subscription.held:
                        subscription.extend_all()
                        self.say()

    async def _renew(self) -> None:
        while True:
            await self._is_known.wait()
            self._is_known.clear()
            expires_at_ms = self._conversation.expires_at_ms
            if expires_at_ms is not None:
                left_s = expires_at_ms / 1000 - time.time()
                await asyncio.sleep(max(left_s - _RENEW_AHEAD_S, left_s / 2, 0.5))
                self._conversation.authenticate(await self._bearer.next_token())

    async def _refusal_of(self, closed: ConnectionClosed) -> Exception | None:
        """Return the error if the client must not reconnect, or None."""
        code = 1006 if closed.rcvd is None else closed.rcvd.code
        reason = "" if closed.rcvd is None else closed.rcvd.reason
        failure = self._conversation.problem or Refused(code, reason)
        if code == _UNAUTHENTICATED:
            return await self._unless_renewed(failure)
        return failure if code == _TOO_BIG or 4400 <= code < 4500 else None

    async def _refusal_of_handshake(self, refused: InvalidStatus) -> Exception | None:
        """Return the error if the client must not reconnect after a failed handshake, or None."""
        status = refused.response.status_code
        problem = problem_in(refused.response.body or b"")
        failure = problem or Refused(status, "in answer to the handshake")
        if isinstance(problem, Unauthenticated) or status == httpx.codes.UNAUTHORIZED:
            return await self._unless_renewed(failure)
        return None if status in (429, *_FAILED) else failure

    async def _unless_renewed(self, failure: Exception) -> Exception | None:
        """Return None if there is another token to connect with, otherwise the failure."""
        try:
            return None if await self._bearer.renew() else failure
        except Exception as error:  # noqa: BLE001 it is raised where entries are awaited
            return error


def _reason_of(closed: ConnectionClosed) -> str:
    return (closed.rcvd.reason if closed.rcvd is not None else "") or "it was closed"
