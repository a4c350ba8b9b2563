"""A fake slow model that writes its answers into streams, and the page for them.

    make serve ARGS='--allow-origin http://localhost:8001'  # in one terminal
    .venv/bin/python examples/ai/model.py                   # in another; open http://localhost:8001

The model has no connection to a reader. It appends each word to a stream of the gateway, in the
protocol Durable Streams, and closes the stream at the end. The gateway is at `--url`, at
`HEADGATE_URL`, or at localhost:8080. If it asks for a key or a token, that of `HEADGATE_TOKEN` may
append to `chat:*`, create, manage and read; the page gets tickets. It needs fastapi and uvicorn.
"""

import argparse
import asyncio
import os
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import uvicorn
from fastapi import Body, FastAPI
from fastapi.responses import FileResponse, JSONResponse

GIVE_UP_S = 30  # the gateway may be away for so long
KEPT_S = 86_400  # an answer that nobody reads goes after a day


def words_of(question: str) -> Iterator[str]:
    """Yield the words of the answer, as a model does: it does not know the next before this."""
    text = (
        f"You ask: “{question}” I am no model, only a paragraph that takes its time. "
        "Each of my words is an entry of a stream. The stream is on the disk of the gateway before "
        "you see the word, so nothing of this depends on your page. Reload it now: what I have "
        "said so far is there at once, and I go on in the middle of the sentence. Open a second "
        "tab: it shows the same, and both go on together. Close them both, come back after lunch, "
        "and read the end. Stop the gateway and start it again: I wait, append the word that it "
        "did not take, and no word comes twice. The button “Stop” asks me, not the stream, to "
        "stop: I write down that I was stopped, and close the stream behind it."
    )
    yield from text.split(" ")


class Model:
    """Writes answers, each into a stream of its own."""

    def __init__(self, gateway: httpx.AsyncClient, words_per_s: float) -> None:
        self.gateway = gateway
        self.words_per_s = words_per_s
        self.running: dict[str, asyncio.Event] = {}  # set: the answer is to stop

    async def ask(self, question: str, tasks: asyncio.TaskGroup) -> str:
        """Begin to answer; returns the id of the answer."""
        answer = uuid.uuid4().hex
        made = await self.gateway.put(
            path_of(answer), headers={"Stream-TTL": str(KEPT_S)}, json=[{"question": question}]
        )
        made.raise_for_status()
        self.running[answer] = asyncio.Event()
        tasks.create_task(self.write(answer, question))
        return answer

    async def write(self, answer: str, question: str) -> None:
        """Append word by word, and close the stream behind the last one."""
        stopped, number = self.running[answer], 0
        try:
            for number, word in enumerate(words_of(question)):
                await self.append(answer, number, {"text": f"{word} "})
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), 1 / self.words_per_s)
                    break
            end = "stopped" if stopped.is_set() else "done"
            await self.append(answer, number + 1, {"end": end}, is_last=True)
        except (TimeoutError, httpx.HTTPError) as error:
            print(f"answer {answer} has no end: {error!r}", file=sys.stderr)
        finally:
            del self.running[answer]

    async def append(
        self, answer: str, number: int, message: dict[str, str], *, is_last: bool = False
    ) -> None:
        """Append a message once, however often it is sent: the gateway knows its number."""
        headers = {"Producer-Id": "model", "Producer-Epoch": "0", "Producer-Seq": str(number)}
        if is_last:
            headers["Stream-Closed"] = "true"
        async with asyncio.timeout(GIVE_UP_S):
            while True:
                with suppress(httpx.TransportError):  # the gateway is away, and may be back soon
                    taken = await self.gateway.post(path_of(answer), headers=headers, json=message)
                    if taken.status_code < 500:
                        taken.raise_for_status()
                        return
                await asyncio.sleep(0.5)

    async def stop(self, answer: str) -> None:
        """Stop writing an answer. If an earlier life of this program wrote it, only close it."""
        if answer in self.running:
            self.running[answer].set()
            return
        closed = await self.gateway.post(path_of(answer), headers={"Stream-Closed": "true"})
        closed.raise_for_status()

    async def url_for_a_page(self, answer: str) -> str:
        """Return the URL of an answer for a page, with a ticket if the gateway asks for keys."""
        made = await self.gateway.head(path_of(answer))
        made.raise_for_status()
        url = f"{self.gateway.base_url.join(path_of(answer))}?live=sse"
        if "Authorization" not in self.gateway.headers:
            return url
        scope = {"stream": f"chat:{answer}", "do": ["read"]}
        made = await self.gateway.post("/v1/tickets", json=scope)
        made.raise_for_status()
        return f"{url}&ticket={made.json()['ticket']}"


def path_of(answer: str) -> str:
    return f"/v1/stream/chat/{answer}"


def program(gateway: httpx.AsyncClient, words_per_s: float) -> FastAPI:
    """Return the program that serves the page, and that the page asks."""
    model, tasks = Model(gateway, words_per_s), asyncio.TaskGroup()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with gateway, tasks:
            yield
            for stopped in model.running.values():
                stopped.set()

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(Path(__file__).parent / "chat.html")

    @app.post("/answers")
    async def ask(question: Annotated[str, Body(embed=True, max_length=500)]) -> dict[str, str]:
        return {"answer": await model.ask(question, tasks)}

    @app.get("/answers/{answer}")
    async def show(answer: uuid.UUID) -> dict[str, str]:
        return {"url": await model.url_for_a_page(answer.hex)}

    @app.post("/answers/{answer}/stop", status_code=204)
    async def stop(answer: uuid.UUID) -> None:
        await model.stop(answer.hex)

    @app.exception_handler(httpx.HTTPStatusError)
    async def pass_on(_: object, error: httpx.HTTPStatusError) -> JSONResponse:
        refused = error.response
        text = f"The gateway answers {refused.status_code} {refused.reason_phrase}."
        return JSONResponse({"detail": text}, refused.status_code)

    @app.exception_handler(httpx.TransportError)
    async def report(_: object, error: httpx.TransportError) -> JSONResponse:
        return JSONResponse({"detail": f"There is no gateway: {error}"}, 502)

    return app


def headers_for(url: str) -> dict[str, str]:
    """Return the headers that say who asks. Others on the network must not read the token."""
    token, parts = os.environ.get("HEADGATE_TOKEN"), urlsplit(url)
    if not token:
        return {}
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        sys.exit(f"Error: the token of HEADGATE_TOKEN was not sent: {url} is plain http")
    return {"Authorization": f"Bearer {token}"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer slowly.")
    where = os.environ.get("HEADGATE_URL") or "localhost:8080"
    parser.add_argument("--url", default=where, help="where the gateway is")
    parser.add_argument("--port", type=int, default=8001, help="where the page is")
    parser.add_argument("--words-per-second", type=float, default=6)
    words = parser.parse_args()
    url = words.url if "://" in words.url else f"http://{words.url}"
    headers = headers_for(url)
    try:
        httpx.get(f"{url}/healthz")
    except httpx.TransportError as error:
        sys.exit(f"Error: no gateway at {url}: {error}. Start one with `headgate serve`.")
    gateway = httpx.AsyncClient(base_url=url, headers=headers)
    app = program(gateway, words.words_per_second)
    with socket.create_server(("127.0.0.1", words.port)) as listening:
        print(f"Open http://localhost:{words.port}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])


if __name__ == "__main__":
    main()
