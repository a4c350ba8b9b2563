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
    Problem,
    Unauthenticated,
    UnexpectedAnswer,
    Unreachable,
    problem_of,
)

_ANSWER_S: Final = 30.0
"""How long an answer may take, beside what the request itself waits for."""

_CONNECT_S: Final = 5.0


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
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        all_headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
            all_headers["Content-Type"] = "application/json"
        timeout = httpx.Timeout(_ANSWER_S + wait_ms / 1000, connect=_CONNECT_S, pool=None)
        if is_repeatable is None:
            is_repeatable = method != "POST"
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._retry_s
        attempt, is_refused = 0, False
        while True:
            token = await self._credential.token(is_refused=is_refused)
            if token is not None:
                all_headers["Authorization"] = f"Bearer {token}"
            try:
                answer = await self._http.request(
                    method,
                    path,
                    params=parameters,
                    headers=all_headers,
                    content=content,
                    timeout=timeout,
                )
                if answer.is_success:
                    return answer
                failure: Exception = failure_of(answer)
                if not isinstance(failure, Problem):
                    may_come = is_repeatable and answer.status_code in (502, 504)
                elif isinstance(failure, Unauthenticated):
                    may_come = self._credential.is_renewable and not is_refused
                    is_refused = True
                else:
                    may_come = failure.status in (429, 503) and failure.retryable
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure, may_come = Unreachable(f"no gateway at {self._http.base_url}: {error}"), True
            except httpx.TransportError as error:
                failure = AnswerLost(f"{type(error).__name__}: {error}")
                may_come = is_repeatable
            wait_s = backoff_s(attempt)
            if isinstance(failure, Problem):
                wait_s = max(wait_s, failure.retry_after_s or 0.0)
            if not may_come or loop.time() + wait_s > give_up_s:
                raise failure
            await asyncio.sleep(wait_s)
            attempt += 1


def failure_of(answer: httpx.Response) -> Problem | UnexpectedAnswer:
    """Return what an answer that is no success says."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/problem+json"):
        return problem_of(json.loads(answer.content))
    return UnexpectedAnswer(f"{answer.status_code} from {answer.url}, which is no gateway's answer")
