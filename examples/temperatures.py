"""A year of hourly temperatures, shared by three consumers over three transports.

    make serve                                 # in one terminal
    .venv/bin/python examples/temperatures.py  # in another

8,759 readings go in as NDJSON batches. One group reads them with three consumers at the same time:
a long poll, an event stream and a WebSocket. In the middle one of them is cut off, holding entries
it never acknowledged. The others take these over as soon as they have been idle for
`claim_idle_ms`. In the end every reading was acknowledged exactly once.

The gateway is at `--url`, at `HEADGATE_URL`, or at localhost:8080. If the gateway asks for a key or
a token, it is that of `HEADGATE_TOKEN`. It needs the packages httpx-sse, websockets and
vega_datasets, which ships the readings.
"""

import argparse
import asyncio
import csv
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx_sse
from websockets.asyncio.client import connect

STREAM = "example-temperatures"
GROUP = "averages"
BATCH = 500
CUT_OFF_AFTER = 150


@dataclass
class Job:
    """The common work of the three consumers, with its results."""

    url: str
    victim: str  # which of them is cut off
    claim_idle_ms: int
    readings: list[dict[str, str]]
    ids: list[str] = field(default_factory=list)  # of all entries, as the gateway gave them
    acked: Counter[str] = field(default_factory=Counter)  # by entry id
    acked_by: Counter[str] = field(default_factory=Counter)  # by consumer
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # by consumer
    stranded: set[str] = field(default_factory=set)  # what the victim held when it was cut off
    rescued: set[str] = field(default_factory=set)  # what was claimed from it
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def group_url(self, operation: str) -> str:
        return f"/v1/streams/{STREAM}/groups/{GROUP}/{operation}"

    def is_cut_off(self, consumer: str, ids: list[str]) -> bool:
        """Tell whether the consumer dies now, with these entries in hand."""
        if consumer == self.victim and self.acked_by[consumer] >= CUT_OFF_AFTER:
            self.stranded.update(ids)
        return bool(self.stranded) and consumer == self.victim

    def work(self, consumer: str, entries: list[dict[str, Any]]) -> list[str]:
        """Do the consumer's work on some entries; returns what to acknowledge."""
        for entry in entries:
            self.sums[consumer] += float(entry["fields"]["temp"])
            if entry.get("claimed_from") == self.victim:
                self.rescued.add(entry["id"])
        return [entry["id"] for entry in entries]

    def note_acked(self, consumer: str, results: list[dict[str, str]]) -> None:
        acked = [result["id"] for result in results if result["outcome"] == "acked"]
        self.acked.update(acked)
        self.acked_by[consumer] += len(acked)
        if len(self.acked) == len(self.readings):
            self.done.set()


def url_of(text: str) -> str:
    """Return the URL of a gateway; `localhost:8080` has no scheme, and will do."""
    return (text if "://" in text else f"http://{text}").rstrip("/")


def headers_of(url: str) -> dict[str, str]:
    """Return the headers that say who asks; a token does not cross a network in plain text."""
    token = os.environ.get("HEADGATE_TOKEN")
    if not token:
        return {}
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        sys.exit(f"Error: the token of HEADGATE_TOKEN was not sent: {url} is plain http.")
    return {"Authorization": f"Bearer {token}"}


def load_readings() -> list[dict[str, str]]:
    """Return the readings: the hour and the degrees Fahrenheit, as text."""
    text = files("vega_datasets").joinpath("_data/seattle-temps.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


async def produce(job: Job, http: httpx.AsyncClient) -> None:
    """Append all readings in batches, each all or none."""
    for start in range(0, len(job.readings), BATCH):
        lines = [json.dumps({"fields": reading}) for reading in job.readings[start : start + BATCH]]
        answer = await http.post(
            f"/v1/streams/{STREAM}/entries/batch",
            content="\n".join(lines),
            headers={"content-type": "application/x-ndjson"},
        )
        job.ids += answer.raise_for_status().json()["ids"]


async def poll(job: Job, http: httpx.AsyncClient) -> None:
    """Consume by long poll. Each read acknowledges what the read before it brought."""
    me = {"consumer": "poller"}
    while True:
        body = {"limit": 50, "wait_ms": 20_000, "claim_idle_ms": job.claim_idle_ms}
        answer = await http.post(job.group_url("read"), params=me, json=body)
        entries = answer.raise_for_status().json()["entries"]
        ids = job.work("poller", entries)
        if job.is_cut_off("poller", ids):
            return
        if ids:
            acked = await http.post(job.group_url("ack"), params=me, json={"ids": ids})
            job.note_acked("poller", acked.raise_for_status().json()["results"])


async def listen(job: Job, http: httpx.AsyncClient) -> None:
    """Consume by event stream, acknowledging by POST whatever has come meanwhile."""
    params = {"consumer": "listener", "credit": "64", "on_disconnect": "keep"}
    params["claim_idle_ms"] = str(job.claim_idle_ms)
    entries: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=64)
    async with httpx_sse.aconnect_sse(
        http, "GET", job.group_url("events"), params=params
    ) as events:

        async def receive() -> None:
            async for event in events.aiter_sse():
                if event.event == "entry":
                    await entries.put(event.json())

        receiving = asyncio.create_task(receive())
        try:
            while True:
                batch = [await entries.get()]
                while not entries.empty():
                    batch.append(entries.get_nowait())
                ids = job.work("listener", batch)
                if job.is_cut_off("listener", ids):
                    return
                answer = await http.post(
                    job.group_url("ack"), params={"consumer": "listener"}, json={"ids": ids}
                )
                job.note_acked("listener", answer.raise_for_status().json()["results"])
        finally:
            receiving.cancel()


async def converse(job: Job, http: httpx.AsyncClient) -> None:
    """Consume by WebSocket, acknowledging in frames."""
    url = job.url.replace("http", "ws", 1) + job.group_url("ws")
    query = f"?consumer=talker&credit=64&on_disconnect=keep&claim_idle_ms={job.claim_idle_ms}"
    del http
    async with connect(url + query, additional_headers=headers_of(job.url)) as socket:
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "acked":
                job.note_acked("talker", frame["results"])
            elif frame["type"] == "entries":
                ids = job.work("talker", frame["entries"])
                if job.is_cut_off("talker", ids):
                    socket.transport.abort()  # no goodbye: as if the cable were pulled
                    return
                await socket.send(json.dumps({"type": "ack", "rid": ids[0], "ids": ids}))


Consumer = Callable[[Job, httpx.AsyncClient], Coroutine[Any, Any, None]]
CONSUMERS: dict[str, Consumer] = {"poller": poll, "listener": listen, "talker": converse}


async def run(url: str, *, victim: str = "talker", claim_idle_ms: int = 500) -> Job:
    """Do the whole job at a running gateway; returns when every reading is acknowledged."""
    job = Job(url, victim, claim_idle_ms, load_readings())
    async with httpx.AsyncClient(base_url=url, timeout=60, headers=headers_of(url)) as http:
        await http.delete(f"/v1/streams/{STREAM}")  # of an earlier run, if there was one
        group = f"/v1/streams/{STREAM}/groups/{GROUP}"
        (await http.put(group, json={"start": "0", "create_stream": True})).raise_for_status()
        consumers = [asyncio.create_task(consume(job, http)) for consume in CONSUMERS.values()]
        await produce(job, http)
        finished = asyncio.create_task(job.done.wait())
        await _first_failure_or(finished, consumers)
        for task in consumers:
            task.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
    return job


async def _first_failure_or(
    finished: asyncio.Task[bool], consumers: list[asyncio.Task[None]]
) -> None:
    """Wait until the job is done; a consumer that failed ends it with its error."""
    running: set[asyncio.Task[Any]] = {finished, *consumers}
    while not finished.done():
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def report(job: Job, seconds: float) -> None:
    """Report the results, with the gateway's own counts."""
    async with httpx.AsyncClient(base_url=job.url, headers=headers_of(job.url)) as http:
        group = (await http.get(f"/v1/streams/{STREAM}/groups/{GROUP}")).json()
    print(f"{len(job.ids)} readings in and acknowledged in {seconds:.1f} s")
    for consumer in CONSUMERS:
        average = job.sums[consumer] / max(job.acked_by[consumer], 1)
        fate = "  <- cut off" if consumer == job.victim else ""
        print(f"  {consumer:<9} {job.acked_by[consumer]:>5}  average {average:.1f} °F{fate}")
    print(f"  {len(job.stranded)} stranded with {job.victim}, {len(job.rescued)} taken over")
    twice = sum(count > 1 for count in job.acked.values())
    print(f"  {twice} acknowledged twice, {group['pending']} pending, lag {group['lag']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = os.environ.get("HEADGATE_URL") or "localhost:8080"
    parser.add_argument("--url", type=url_of, default=where, help="where the gateway is")
    parser.add_argument("--victim", choices=CONSUMERS, default="talker", help="who is cut off")
    parser.add_argument("--claim-idle-ms", type=int, default=500)
    words = parser.parse_args()
    started = time.perf_counter()
    try:
        job = asyncio.run(run(words.url, victim=words.victim, claim_idle_ms=words.claim_idle_ms))
        asyncio.run(report(job, time.perf_counter() - started))
    except httpx.ConnectError as error:
        sys.exit(f"Error: no gateway at {words.url}: {error}. Start one with `headgate serve`.")
    except httpx.HTTPStatusError as error:
        problem = error.response.json()
        sys.exit(f"Error: {problem['detail']} ({problem['code']}). HEADGATE_TOKEN has the token.")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
