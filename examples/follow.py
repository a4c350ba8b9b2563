"""Follow a stream, as events or over a WebSocket, through every loss of the connection.

    make serve                                           # in one terminal
    .venv/bin/python examples/follow.py orders           # in another: events
    .venv/bin/python examples/follow.py orders --socket  # or the WebSocket

It prints each entry once and in order, also when the gateway is restarted meanwhile. The gateway is
at `--url`, at `HEADGATE_URL`, or at localhost:8080. If the gateway asks for a key or a token, it is
that of `HEADGATE_TOKEN`. It needs the packages httpx-sse and websockets.
"""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx_sse
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

Entry = dict[str, Any]
BACKOFF_S_MAX = 30.0
NOT_THERE = (OSError, httpx.ConnectError, httpx.ConnectTimeout)


class GaveUp(Exception):
    """There is no gateway, or it would refuse again."""


def url_of(text: str) -> str:
    """Return the URL of a gateway; `localhost:8080` has no scheme, and will do."""
    return (text if "://" in text else f"http://{text}").rstrip("/")


def headers_of(url: str) -> dict[str, str]:
    """Return the headers that say who asks.

    Raises:
        GaveUp: others on the network could read the token.
    """
    token = os.environ.get("HEADGATE_TOKEN")
    if not token:
        return {}
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise GaveUp(f"the token of HEADGATE_TOKEN was not sent: {url} is plain http")
    return {"Authorization": f"Bearer {token}"}


def refusal_of(problem: dict[str, Any]) -> GaveUp:
    """Return why the gateway would refuse again."""
    is_about_us = problem["code"] in ("unauthenticated", "forbidden")
    return GaveUp(problem["detail"] + " (HEADGATE_TOKEN)" * is_about_us)


async def events(url: str, stream: str, after: str) -> AsyncGenerator[Entry, None]:
    """Yield the entries after an id from one connection, until it ends."""
    timeout = httpx.Timeout(10, read=60)  # silence is broken by heartbeats
    target = f"{url}/v1/streams/{stream}/events"
    async with (
        httpx.AsyncClient(timeout=timeout, headers=headers_of(url)) as client,
        httpx_sse.aconnect_sse(client, "GET", target, params={"after": after}) as source,
    ):
        if 400 <= source.response.status_code < 500 and source.response.status_code != 429:
            await source.response.aread()
            raise refusal_of(source.response.json())
        async for event in source.aiter_sse():
            if event.event == "entry":
                yield json.loads(event.data)
            if event.event == "problem" and not json.loads(event.data)["retryable"]:
                raise refusal_of(json.loads(event.data))


async def frames(url: str, stream: str, after: str) -> AsyncGenerator[Entry, None]:
    """Yield the entries after an id from one WebSocket, until it ends."""
    target = f"{url.replace('http', 'ws', 1)}/v1/ws"
    async with connect(target, additional_headers=headers_of(url)) as socket:
        ask = {"type": "subscribe", "sub": "s", "stream": stream, "after": after, "credit": 64}
        await socket.send(json.dumps(ask))
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "problem" and not frame["problem"]["retryable"]:
                raise refusal_of(frame["problem"])
            if frame["type"] == "entries":
                for entry in frame["entries"]:
                    yield entry
                more = {"type": "credit", "sub": "s", "entries": len(frame["entries"])}
                await socket.send(json.dumps(more))


async def follow(
    url: str, stream: str, after: str = "0", *, by_socket: bool = False
) -> AsyncGenerator[Entry, None]:
    """Yield every entry of a stream after an id, over as many connections as it takes.

    Raises:
        GaveUp: there is no gateway when it begins, or the gateway would refuse again.
    """
    attempt, is_first = 0, True
    while True:
        try:
            async for entry in (frames if by_socket else events)(url, stream, after):
                yield entry
                after, attempt = entry["id"], 0
        except ConnectionClosed as error:
            if error.rcvd is not None and 4400 <= error.rcvd.code < 4500:
                hint = " (HEADGATE_TOKEN)" * (error.rcvd.code in (4401, 4403))
                raise GaveUp(f"the gateway closes with {error.rcvd.code}{hint}") from None
        except (OSError, httpx.TransportError, InvalidHandshake) as error:
            if is_first and isinstance(error, NOT_THERE):
                text = f"no gateway at {url}: {error}. Start one with `headgate serve`."
                raise GaveUp(text) from None
            # One that was there may be back soon.
        is_first = False
        # Not all at once, if many were cut off at the same time.
        wait_s = min(BACKOFF_S_MAX, 0.2 * 2**attempt) * (0.5 + random.random())
        attempt += 1
        await asyncio.sleep(wait_s)


def main() -> None:
    parser = argparse.ArgumentParser(description="Follow a stream.")
    parser.add_argument("stream")
    where = os.environ.get("HEADGATE_URL") or "localhost:8080"
    parser.add_argument("--url", type=url_of, default=where, help="where the gateway is")
    parser.add_argument("--socket", action="store_true")
    words = parser.parse_args()
    try:
        asyncio.run(show(words.url, words.stream, by_socket=words.socket))
    except GaveUp as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


async def show(url: str, stream: str, *, by_socket: bool) -> None:
    async for entry in follow(url, stream, by_socket=by_socket):
        print(entry["id"], entry["fields"], flush=True)


if __name__ == "__main__":
    main()
