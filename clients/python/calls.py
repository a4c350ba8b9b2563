"""Calls: HTTP requests, and when they are retried.

A request is sent again if the gateway did not receive it, if the gateway says that it may succeed
later (429, 503), or if it is safe to process it twice: it only reads, or it has an idempotency key.
Otherwise a lost answer is an error, because the request may have been processed.

With several addresses, the next attempt goes to another one if the gateway did not answer, or
cannot change streams.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import httpx

from headgate.client.address import Addresses, backoff_s
from headgate.client.credential import Bearer, Credential
from headgate.client.problems import (
    AnswerLost,
    Forbidden,
    HeadgateError,
    NotLeader,
    Problem,
    RateLimited,
    Unauthenticated,
    UnexpectedAnswer,
    Unreachable,
    problem_in,
)

_CONNECT_S: Final = 5.0

_NOTHING_DONE: Final = (429, 503)
_PROXY_FAILED: Final = (502, 503, 504)
_AT_ONCE: Final = {"status": 503, "retryable": True}


class Calls:
    def __init__(
        self,
        addresses: Addresses,
        credential: Credential,
        *,
        retry_s: float = 30.0,
        rate_limit_s: float | None = None,
        answer_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._addresses = addresses
        self._credential = credential
        self._retry_s = retry_s
        self._rate_limit_s = retry_s if rate_limit_s is None else rate_limit_s
        self._answer_s = answer_s
        self._http = httpx.AsyncClient(
            transport=transport,
            # Without TLS, certificates are not needed, and reading them is slow.
            verify=any(url.startswith("https:") for url in addresses.urls) if tls is None else tls,
            # Requests to this machine must not go through a proxy.
            trust_env=not addresses.are_local,
        )

    @property
    def is_local(self) -> bool:
        return self._addresses.are_local

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        wait_ms: int = 0,
        is_repeatable: bool | None = None,
    ) -> Any:
        """Return the JSON of an answer. None: the answer has no body.

        `path` starts with `/v1` and is percent-encoded. Query parameters that are None are left
        out. `is_repeatable` says whether the request may be processed twice. Default: true unless
        it is a POST. Raises Problem if the gateway refuses the request, Unreachable, or AnswerLost.
        """
        answer = await self.send(
            method,
            path,
            body=body,
            query=query,
            headers=headers,
            content=content,
            wait_ms=wait_ms,
            is_repeatable=is_repeatable,
        )
        if not answer.content:
            return None
        try:
            return _Answer(json.loads(answer.content), answer)
        except (TypeError, ValueError):
            raise _unexpected(answer) from None

    async def items(
        self, path: str, name: str, *, limit: int, query: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[Any]:
        """Yield the items of a list, in pages of `limit`. Member `name` of a page has the items."""
        cursor: str | None = None
        while True:
            of_page = {**(query or {}), "limit": limit, "cursor": cursor}
            page = await self.call("GET", path, query=of_page)
            for item in page[name]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        wait_ms: int = 0,
        is_repeatable: bool | None = None,
        is_streamed: bool = False,
    ) -> httpx.Response:
        """Return the answer to a request. See `call`. With `is_streamed`, the body is not read."""
        all_headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
            all_headers["Content-Type"] = "application/json"
        request_at = partial(
            self._http.build_request,
            method,
            params={name: value for name, value in (query or {}).items() if value is not None},
            headers=all_headers,
            content=content,
            timeout=httpx.Timeout(
                self._answer_s + wait_ms / 1000, connect=min(_CONNECT_S, self._answer_s), pool=None
            ),
        )
        if is_repeatable is None:
            is_repeatable = method != "POST"
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        attempt, bearer = 0, Bearer(self._credential)
        while True:
            token, url = await bearer.token(), self._addresses.current
            request = request_at(url=f"{url}{path}")
            outcome = await self._attempt(request, token, is_streamed=is_streamed)
            if isinstance(outcome, httpx.Response):
                return outcome
            if isinstance(outcome, Unauthenticated) and await bearer.renew():
                continue
            may_succeed = _may_succeed(outcome, is_repeatable=is_repeatable)
            wait_s = self._pause_s(outcome, url, attempt)
            is_limited = isinstance(outcome, RateLimited)
            retry_s = self._rate_limit_s if is_limited else self._retry_s
            left_s = begun_s + retry_s - loop.time()
            # The last attempt is at the deadline, unless the gateway asks for a longer pause.
            is_late = wait_s > 0 and left_s <= _said_s(outcome)
            if not may_succeed or is_late:
                raise outcome
            await asyncio.sleep(min(wait_s, left_s))
            attempt += 1

    def _pause_s(self, failure: HeadgateError, url: str, attempt: int) -> float:
        """Return the pause before a retry, in seconds. Switch to another address if that helps."""
        retry_after_s = _said_s(failure)
        if not _is_of_gateway(failure):
            return max(backoff_s(attempt), retry_after_s)
        self._addresses.leave(url, failure.leader if isinstance(failure, NotLeader) else None)
        pause_s = self._addresses.pause_s(attempt)
        return max(pause_s, retry_after_s) if pause_s else 0.0

    async def _attempt(
        self, request: httpx.Request, token: str | None, *, is_streamed: bool
    ) -> httpx.Response | HeadgateError:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._http.send(request, stream=is_streamed)
            if is_streamed and not answer.is_success:
                await answer.aread()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return Unreachable(f"no gateway at {_base(request)}: {error}")
        except httpx.TransportError as error:
            return AnswerLost(f"{type(error).__name__}: {error}")
        return answer if answer.is_success else self._failure_of(answer)

    def _failure_of(self, answer: httpx.Response) -> Problem | UnexpectedAnswer:
        if answer.status_code == httpx.codes.TEMPORARY_REDIRECT:
            return _redirected(answer)
        kind = answer.headers.get("content-type", "")
        is_problem = kind.startswith("application/problem+json")
        problem = problem_in(answer.content) if is_problem else None
        if isinstance(problem, Unauthenticated | Forbidden):
            problem.add_note(self._credential.hint)
        return problem or _unexpected(answer)


class _Answer(dict[str, Any]):
    """A JSON answer. If a member that every gateway sends is missing, it is not from a gateway."""

    def __init__(self, answer: Mapping[str, Any], response: httpx.Response) -> None:
        super().__init__(answer)
        self._response = response

    def __missing__(self, name: str) -> Any:
        raise _unexpected(self._response)


def segment(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")  # `..` would be a parent folder


def _said_s(failure: HeadgateError) -> float:
    """Return the pause that the gateway asks for, in seconds."""
    return (failure.retry_after_s or 0.0) if isinstance(failure, Problem) else 0.0


def _base(request: httpx.Request) -> httpx.URL:
    return request.url.copy_with(path="", query=None)


def _unexpected(answer: httpx.Response) -> UnexpectedAnswer:
    return UnexpectedAnswer(answer.status_code, str(_base(answer.request)))


def _redirected(answer: httpx.Response) -> NotLeader:
    """Return the refusal of a standby that redirects. No credential is sent to the target."""
    place = answer.headers.get("location", "")
    detail = f"{_base(answer.request)} is not the leader, and redirects to {place}"
    return NotLeader({"code": "not_leader", "detail": detail, "leader": place} | _AT_ONCE)


def _is_of_gateway(failure: HeadgateError) -> bool:
    if isinstance(failure, UnexpectedAnswer):
        return failure.status in _PROXY_FAILED
    if isinstance(failure, Problem):
        return failure.status == httpx.codes.SERVICE_UNAVAILABLE
    return True


def _may_succeed(failure: HeadgateError, *, is_repeatable: bool) -> bool:
    if isinstance(failure, Unreachable):
        return True
    if isinstance(failure, Problem):
        return failure.status in _NOTHING_DONE and failure.retryable
    if isinstance(failure, UnexpectedAnswer):
        return is_repeatable and failure.status in _PROXY_FAILED
    return is_repeatable
