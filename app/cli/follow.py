"""Following a stream by its events, through broken connections."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import click
import httpx

from headgate.app.cli.remote import Refused, Remote, path_of
from headgate.app.cli.words import one_line

_WAITS_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""How long to wait before each next try; the last one for all that follow."""

_CLOSED = "it was closed"
_BEATS = 3
"""So many heartbeats may be missing before a connection counts as broken."""


class Event(NamedTuple):
    """One Server-Sent Event."""

    name: str
    data: str


class News(NamedTuple):
    """What is new, in the order it came."""

    entries: list[str]  # each is one JSON text, as the gateway sent it
    state: str  # reading, caught up, lost
    notes: list[str] = []  # noqa: RUF012  # what a person should know


class Following:
    """The entries of a stream after a cursor."""

    def __init__(self, gateway: Remote, stream: str, *, after: str) -> None:
        """Get ready to follow.

        Args:
            gateway: where the stream is.
            stream: its name.
            after: the first cursor, an id or `$`.
        """
        self._gateway = gateway
        self._path = path_of("v1", "streams", stream, "events")
        self._after = after
        self._state = "reading"
        self._come_back_s = 0.0  # if the gateway said how long; since the connection began
        self._end = _CLOSED  # why the connection ends, as far as is known
        self._silence_s = _BEATS * gateway.get("v1", "limits")["heartbeat_ms"] / 1000

    def news(self) -> Iterator[News]:
        """Yield what is new, as it comes.

        Raises:
            Unreachable: there is no gateway when it begins.
            Refused: the gateway refuses, and would refuse again.
            click.ClickException: the stream is gone.
        """
        failures = 0
        is_first = True
        while True:
            try:
                for news in self._connection():
                    failures, is_first = 0, False
                    yield news
                wait_s, why = self._come_back_s, self._end
            except httpx.TransportError as error:
                if is_first:
                    raise self._gateway.unreachable(error) from None
                wait_s, why = 0.0, one_line(str(error)) or "nothing comes"
            except Refused as error:
                if is_first or not error.is_retryable:
                    raise
                wait_s, why = 0.0, error.message
            if self._state != "lost":
                self._state = "lost"
                yield News([], self._state, [f"connection lost ({why}); going on when it is back"])
            time.sleep(max(wait_s, _WAITS_S[min(failures, len(_WAITS_S) - 1)]))
            failures += 1

    def _connection(self) -> Iterator[News]:
        self._come_back_s, self._end = 0.0, _CLOSED
        timeout = httpx.Timeout(self._silence_s, connect=5.0)
        headers = {"accept": "text/event-stream"}
        params = {"after": self._after}
        with self._gateway.http.stream(
            "GET", self._path, params=params, headers=headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                answer.read()
                self._gateway.check(answer)
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise self._gateway.stranger(answer)
            for events in events_in(answer.iter_bytes()):
                yield self._take(events)

    def _take(self, events: list[Event]) -> News:
        entries: list[str] = []
        notes: list[str] = []
        for event in events:
            match event.name:
                case "entry":
                    entries.append(event.data)
                    self._after = json.loads(event.data)["id"]
                    self._state = "reading" if self._state == "lost" else self._state
                case "ready":
                    ready = json.loads(event.data)
                    self._after = ready["position"]
                    self._state = "reading"
                    if ready.get("gap"):
                        gap = ready["gap"]
                        notes.append(f"trimmed and missed: after {gap['from']} to {gap['to']}")
                case "caught_up":
                    self._state = "caught up"
                case "draining":
                    self._come_back_s = json.loads(event.data)["reconnect_after_ms"] / 1000
                    self._end = "the gateway is about to stop"
                case "problem":
                    problem: dict[str, Any] = json.loads(event.data)
                    if problem["code"] == "unauthenticated":  # the next connection tells
                        self._end = one_line(problem["detail"])
                        continue
                    raise click.ClickException(one_line(f"{problem['detail']} ({problem['code']})"))
        return News(entries, self._state, notes)


def events_in(chunks: Iterable[bytes]) -> Iterator[list[Event]]:
    """Yield the events that each chunk completes; none if it is part of one, or a heartbeat."""
    remaining = b""
    for chunk in chunks:
        whole, _, remaining = (remaining + chunk).rpartition(b"\n\n")
        blocks = whole.split(b"\n\n") if whole else []
        yield [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> Event | None:
    name, data = "message", []
    for line in block.decode(errors="replace").split("\n"):
        key, _, value = line.partition(":")
        if key == "event":
            name = value.removeprefix(" ")
        elif key == "data":
            data.append(value.removeprefix(" "))
    return Event(name, "\n".join(data)) if data else None
