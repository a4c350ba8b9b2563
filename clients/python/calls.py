"""Calls: requests over HTTP, and when one is sent again.

A request is sent again if the gateway did not get it, if the gateway says that it may succeed later
(429, 503), or if it may be done twice: it only reads, or it carries an idempotency key. Otherwise a
lost answer is an error, as what was asked may have been done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from headgate.client.address import Credential
from headgate.client.backoff import backoff_s
from headgate.client.problems import (
    AnswerLost,
    HeadgateError,
    Problem,
    Unauthenticated,
    UnexpectedAnswer,
    Unreachable,
    problem_of,
)

_ANSWER_S: Final = 30.0
"""How long an answer may take, beside what the request itself waits for."""

_CONNECT_S: Final = 5.0

_NOTHING_DONE: Final = (429, 503)
_PROXY_FAILED: Final = (502, 504)


class Calls:
    """The requests of one client."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        *,
        retry_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Send requests to a gateway.

        Args:
            url: where it is.
            credential: is sent with each request.
            retry_s: how long a request is tried again before it fails, in seconds.
            transport: how requests travel; None: as usual.
        """
        self._credential = credential
        self._retry_s = retry_s
        timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S, pool=None)
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout, transport=transport)

    async def close(self) -> None:
        """End all connections."""
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
        """Return the answer to a request, as JSON says it; None: it has no body.

        Args:
            method: of HTTP.
            path: from `/v1` on, encoded.
            body: is sent as JSON.
            query: parameters; those that are None are left out.
            headers: beside the usual ones.
            content: the body, where it is not JSON.
            wait_ms: how long the gateway may wait before it answers.
            is_repeatable: it may be done twice; None: if it is no POST.

        Raises:
            Problem: the gateway refused it.
            Unreachable, AnswerLost: the gateway did not get it, or did not answer.
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
        return json.loads(answer.content) if answer.content else None

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
    ) -> httpx.Response:
        """Return the whole answer to a request; see `call`."""
        all_headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
            all_headers["Content-Type"] = "application/json"
        request = self._http.build_request(
            method,
            path,
            params={name: value for name, value in (query or {}).items() if value is not None},
            headers=all_headers,
            content=content,
            timeout=httpx.Timeout(_ANSWER_S + wait_ms / 1000, connect=_CONNECT_S, pool=None),
        )
        if is_repeatable is None:
            is_repeatable = method != "POST"
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._retry_s
        attempt, is_refused = 0, False
        while True:
            outcome = await self._attempt(request, is_refused=is_refused)
            if isinstance(outcome, httpx.Response):
                return outcome
            if isinstance(outcome, Unauthenticated):
                may_succeed = self._credential.is_renewable and not is_refused
                is_refused = True
            else:
                may_succeed = _may_succeed(outcome, is_repeatable=is_repeatable)
            wait_s = backoff_s(attempt)
            if isinstance(outcome, Problem):
                wait_s = max(wait_s, outcome.retry_after_s or 0.0)
            if not may_succeed or loop.time() + wait_s > give_up_s:
                raise outcome
            await asyncio.sleep(wait_s)
            attempt += 1

    async def _attempt(
        self, request: httpx.Request, *, is_refused: bool
    ) -> httpx.Response | HeadgateError:
        """Send a request once; returns a good answer, or what went wrong."""
        token = await self._credential.token(is_refused=is_refused)
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return Unreachable(f"no gateway at {self._http.base_url}: {error}")
        except httpx.TransportError as error:
            return AnswerLost(f"{type(error).__name__}: {error}")
        return answer if answer.is_success else failure_of(answer)


def _may_succeed(failure: HeadgateError, *, is_repeatable: bool) -> bool:
    """Tell whether to send a request again."""
    if isinstance(failure, Unreachable):
        return True
    if isinstance(failure, Problem):
        return failure.status in _NOTHING_DONE and failure.retryable
    if isinstance(failure, UnexpectedAnswer):
        return is_repeatable and failure.status in _PROXY_FAILED
    return is_repeatable


def failure_of(answer: httpx.Response) -> Problem | UnexpectedAnswer:
    """Return what an answer that is no success says."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/problem+json"):
        return problem_of(json.loads(answer.content))
    return UnexpectedAnswer(answer.status_code, str(answer.url))
