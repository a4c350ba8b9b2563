"""Follow a stream, as events or over a WebSocket, through every loss of the connection.

    headgate serve                                # in one terminal
    python examples/follow.py orders              # in another: events
    python examples/follow.py orders --socket     # or the WebSocket

It prints each entry once and in order, also when the gateway is restarted meanwhile. The gateway is
at `--url`, at `HEADGATE_URL`, or at localhost:8080. It needs the packages httpx-sse and websockets.
"""

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from typing import Any

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


async def events(url: str, stream: str, after: str) -> AsyncGenerator[Entry, None]:
    """Yield the entries after an id from one connection, until it ends."""
    timeout = httpx.Timeout(10, read=60)  # silence is broken by heartbeats
    target = f"{url}/v1/streams/{stream}/events"
    async with (
        httpx.AsyncClient(timeout=timeout) as client,
        httpx_sse.aconnect_sse(client, "GET", target, params={"after": after}) as source,
    ):
        if 400 <= source.response.status_code < 500 and source.response.status_code != 429:
            await source.response.aread()
            raise GaveUp(source.response.json()["detail"])
        async for event in source.aiter_sse():
            if event.event == "entry":
                yield json.loads(event.data)


async def frames(url: str, stream: str, after: str) -> AsyncGenerator[Entry, None]:
    """Yield the entries after an id from one WebSocket, until it ends."""
    target = f"{url.replace('http', 'ws', 1)}/v1/ws"
    async with connect(target) as socket:
        ask = {"type": "subscribe", "sub": "s", "stream": stream, "after": after, "credit": 64}
        await socket.send(json.dumps(ask))
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "problem" and not frame["problem"]["retryable"]:
                raise GaveUp(frame["problem"]["detail"])
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
                raise GaveUp(error.rcvd.reason) from None
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
