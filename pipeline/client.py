"""A small synchronous client of the gateway: what the data source asks, with retries.

GatewayError                  whatever goes wrong between here and the gateway
    GatewayUnavailable        it could not be reached, or kept refusing, until the deadline
    GatewayProblem            it answered with a problem; `code` says which
CredentialError               the token or the certificates are no good, and nothing was sent
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, cast
from urllib.parse import quote

import httpx
import pyarrow as pa

from headgate.pipeline.address import is_loopback
from headgate.pipeline.credential import TOKEN_VARIABLE, Credential, check_way, http

ARROW = "application/vnd.apache.arrow.stream"
RETRY_TIMEOUT_S = 60.0  # a restart of the gateway takes seconds
_READ_TIMEOUT_S = 60.0
_BACKOFF_S_MIN = 0.1
_BACKOFF_S_MAX = 5.0
_CURSORS_MAX = 1000  # of one plan, by the gateway's contract
_PAGE = 1000
_RETRYABLE = (429, 502, 503, 504)
_NOTHING_WAS_DONE = (429, 503)
_TOO_MUCH_TIMEOUT_S = 600.0  # of a client that asks for more than it may


class GatewayError(Exception):
    """Whatever goes wrong between here and the gateway."""


class GatewayUnavailable(GatewayError):
    """The gateway could not be reached, or kept refusing, until the deadline."""


class GatewayProblem(GatewayError):
    """The gateway answered with a problem.

    Attributes:
        status: of HTTP.
        code: what happened, for programs; empty if a proxy answered.
        detail: what happened, for people.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.detail} ({self.code or self.status})"


class Cursor(NamedTuple):
    """Where a reader of a stream stands: behind the entry `after`, in the life `epoch`."""

    stream: str
    after: str
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Ids that were trimmed before they were read: from `start` to `end`, inclusive."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How far a cursor may read.

    Attributes:
        stream: its name.
        epoch: the life the stream is in; None if there is no such stream.
        after: where the cursor stands.
        end: last id to read, inclusive; `after` if there is nothing.
        entries: how many entries that is.
        backlog: how many entries there are behind `after`.
        last_id: the last id of the stream; None if there is no such stream.
        first_id: the first entry that is there; None if the stream is empty.
        gap: what was trimmed behind `after`, if anything was.
    """

    stream: str
    epoch: str | None
    after: str
    end: str
    entries: int
    backlog: int
    last_id: str | None
    first_id: str | None
    gap: Gap | None


class Split(NamedTuple):
    """A part of a range: the entries behind `after`, up to and with `to`."""

    after: str
    to: str
    entries: int


class Attempt(NamedTuple):
    """Which staged chunks of a partition count."""

    partition: int
    attempt: str
    chunks: int


class Client:
    """A synchronous client of one gateway. Can be pickled: connections stay behind.

    Args:
        url: base URL, such as http://127.0.0.1:8080.
        credential: who asks; None: nobody in particular.
        ca: file of certificates to trust instead of the usual ones.
        is_insecure: the credential may go over plain http to another machine.
        retry_timeout_s: how long, in seconds, a request is tried again while the gateway cannot
            be reached or says 502, 503 or 504. Where it says 429, and when to come again, that is
            waited for, up to ten minutes.

    Raises:
        CredentialError: the credential must not go there.

    Raises (all methods):
        GatewayUnavailable: not served within the retry timeout.
        GatewayProblem: the gateway refused.
        CredentialError: a file of the token or of certificates cannot be used.
    """

    def __init__(
        self,
        url: str,
        credential: Credential | None = None,
        *,
        ca: str | None = None,
        is_insecure: bool = False,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
    ) -> None:
        self.url = url.rstrip("/")
        self.retry_timeout_s = retry_timeout_s
        if credential is not None and not is_insecure:
            check_way(self.url)
        self._credential = credential
        self._ca = ca
        self._http: httpx.Client | None = None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_http": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._http is not None:
            self._http.close()
            self._http = None

    # Any operation.

    def get(self, path: str, params: Mapping[str, object] | None = None) -> Any:
        """Return the JSON answer to a GET of the path (with its leading /v1)."""
        return self._json("GET", path, params=params)

    def post(self, path: str, body: object, *, is_repeatable: bool = False) -> Any:
        """Return the JSON answer to a POST.

        Args:
            path: with its leading /v1.
            body: what is sent, as JSON.
            is_repeatable: sent twice, it does what it does sent once; so it may be sent again
                after a connection broke.
        """
        return self._json("POST", path, json=body, is_repeatable=is_repeatable)

    # Streams.

    def streams(self, prefix: str = "") -> list[dict[str, Any]]:
        """Return what the gateway says of every stream whose name begins so, by name."""
        streams: list[dict[str, Any]] = []
        params: dict[str, object] = {"prefix": prefix, "limit": _PAGE}
        while True:
            page = self.get("/v1/streams", params)
            streams += page["streams"]
            if page.get("next_cursor") is None:
                return streams
            params["cursor"] = page["next_cursor"]

    def describe(self, stream: str) -> dict[str, Any] | None:
        """Return what the gateway says of a stream; None if there is no such stream."""
        try:
            return cast(dict[str, Any], self.get(stream_path(stream)))
        except GatewayProblem as problem:
            if problem.code == "stream_not_found":
                return None
            raise

    def last_id(self, stream: str) -> str | None:
        """Return the last id the stream ever gave; None if there is no such stream."""
        described = self.describe(stream)
        return None if described is None else cast(str, described["last_id"])

    # Reading in bulk.

    def plan(
        self, cursors: Sequence[Cursor], *, max_entries: int | None = None, wait_ms: int = 0
    ) -> list[Plan]:
        """Return how far each cursor may read, in their order.

        Args:
            cursors: at most one per stream. Beyond a thousand they are planned by the thousand.
            max_entries: of all streams together, shared in proportion to backlog; None: no bound.
            wait_ms: how long to wait for anything to be there.
        """
        plans: list[Plan] = []
        left = max_entries
        for begin in range(0, len(cursors), _CURSORS_MAX):
            portion = cursors[begin : begin + _CURSORS_MAX]
            if left == 0:  # full: these stay where they are
                plans += [Plan(s, e, a, a, 0, 0, None, None, None) for s, a, e in portion]
                continue
            is_last = begin + _CURSORS_MAX >= len(cursors)
            wait = wait_ms if is_last and not any(plan.entries for plan in plans) else 0
            body = {
                "cursors": [cursor._asdict() for cursor in portion],
                "max_entries": left,
                "wait_ms": wait,
            }
            rows = self.post("/v1/bulk/plan", body, is_repeatable=True)["streams"]
            plans += [_plan(row) for row in rows]
            if max_entries is not None:
                left = max_entries - sum(plan.entries for plan in plans)
        return plans

    def splits(self, stream: str, after: str, to: str, parts: int) -> list[Split]:
        """Return the range cut into at most so many parts of as equal count as may be."""
        params = {"after": after, "to": to, "parts": parts}
        rows = self.get(f"{stream_path(stream)}/splits", params)["splits"]
        return [Split(row["after"], row["to"], row["entries"]) for row in rows]

    def entries(
        self, stream: str, after: str, to: str, *, compression: str | None = None
    ) -> EntriesAnswer:
        """Return the entries behind `after`, up to and with `to`, as they come.

        Args:
            stream: its name.
            after: exclusive.
            to: inclusive.
            compression: none or zstd; by default none from this machine and zstd over a network.
        """
        if compression is None:
            compression = "none" if self.is_local else "zstd"
        params: dict[str, object] = {"start": f"({after}", "end": to, "compression": compression}
        request = self._request(
            "GET", f"{stream_path(stream)}/entries", params=params, headers={"Accept": ARROW}
        )
        return EntriesAnswer(self._send(request, is_stream=True))

    @property
    def is_local(self) -> bool:
        """Whether the gateway is on this machine."""
        return is_loopback(self.url)

    # Writing in bulk.

    def append(
        self, stream: str, batch: pa.RecordBatch, *, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Append the rows to a stream, all or none.

        Args:
            stream: its name; it is created if need be.
            batch: columns `fields` and optionally `id`.
            idempotency_key: makes it safe to send again (not with ids).
        """
        request = self._request(
            "POST",
            f"{stream_path(stream)}/entries/batch",
            content=_encoded(batch),
            headers={
                "Content-Type": ARROW,
                **({"Idempotency-Key": idempotency_key} if idempotency_key else {}),
            },
        )
        answer = self._send(request, is_repeatable=idempotency_key is not None)
        return cast(dict[str, Any], answer.json())

    def stage(
        self,
        writer: str,
        batch: int,
        partition: int,
        attempt: str,
        chunk: int,
        rows: pa.RecordBatch,
        *,
        stream: str | None = None,
    ) -> None:
        """Leave rows with the gateway, to be appended by `commit`; the same chunk replaces itself.

        Args:
            writer: who writes, over all batches.
            batch: number of the batch; grows.
            partition: which part of the batch.
            attempt: which try at the partition.
            chunk: number of the chunk, from 0.
            rows: columns `fields`, and optionally `id` and `stream`.
            stream: where to, if there is no such column.
        """
        request = self._request(
            "PUT",
            f"{_batch_path(writer, batch)}/partitions/{partition}/attempts/{attempt}"
            f"/chunks/{chunk}",
            params={} if stream is None else {"stream": stream},
            content=_encoded(rows),
            headers={"Content-Type": ARROW},
        )
        self._send(request)

    def commit(self, writer: str, batch: int, attempts: Sequence[Attempt]) -> dict[str, Any]:
        """Append what the attempts staged, all at once; a batch seen before changes nothing.

        Returns:
            `{"repeated", "entries", "streams"}`.
        """
        body = {"attempts": [attempt._asdict() for attempt in attempts], "create_streams": True}
        path = f"{_batch_path(writer, batch)}/commit"
        return cast(dict[str, Any], self.post(path, body, is_repeatable=True))

    def abort(self, writer: str, batch: int) -> None:
        """Let the gateway forget what is staged for the batch."""
        self._send(self._request("DELETE", _batch_path(writer, batch)))

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch the writer committed, if any."""
        return cast(int | None, self.get(f"/v1/bulk/writers/{_quoted(writer)}")["last_batch"])

    # How it is sent.

    def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        json: object = None,
        is_repeatable: bool = True,
    ) -> Any:
        request = self._request(method, path, params=params, json=json)
        answer = self._send(request, is_repeatable=is_repeatable)
        return answer.json() if answer.content else None

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Request:
        if self._http is None:
            self._http = http(self.url, self._credential, ca=self._ca, timeout_s=_READ_TIMEOUT_S)
        return self._http.build_request(
            method,
            path,
            params={name: str(value) for name, value in (params or {}).items()},
            json=json,
            content=content,
            headers=headers,
        )

    def _send(
        self, request: httpx.Request, *, is_repeatable: bool = True, is_stream: bool = False
    ) -> httpx.Response:
        """Send until it is answered for good, or the deadline is over."""
        assert self._http is not None
        begun = time.monotonic()
        tries = 0
        while True:
            tries += 1
            timeout_s, pause_s = self.retry_timeout_s, _backoff_s(tries)
            try:
                answer = self._http.send(request, stream=is_stream)
            except httpx.TransportError as error:
                may_retry = is_repeatable or isinstance(error, httpx.ConnectError)
                why = f"{type(error).__name__}: {error}"
            else:
                if answer.is_success:
                    return answer
                problem = self._problem(answer)
                if answer.status_code not in (_RETRYABLE if is_repeatable else _NOTHING_WAS_DONE):
                    raise problem
                may_retry = True
                why = f"{answer.status_code}: {problem}"
                pause_s = max(_retry_after_s(answer), pause_s)
                if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    timeout_s = max(timeout_s, _TOO_MUCH_TIMEOUT_S)
            if not may_retry or time.monotonic() - begun + pause_s > timeout_s:
                asked = f"{request.method} {request.url.path}"
                tried = "once" if tries == 1 else f"{tries} times in {timeout_s:g} s"
                raise GatewayUnavailable(
                    f"the gateway at {self.url} did not serve {asked}, tried {tried}; "
                    f"the last answer was {why}. Is it running, and is this its address?"
                ) from None
            time.sleep(pause_s)

    def _problem(self, answer: httpx.Response) -> GatewayProblem:
        """Return the problem of an answer, with what to do about it."""
        problem = _problem(answer)
        if answer.status_code == httpx.codes.UNAUTHORIZED or problem.code == "forbidden":
            hint = (
                f"No token was sent: {TOKEN_VARIABLE} gives one."
                if self._credential is None
                else f"The token was that of {self._credential.origin}."
            )
            return GatewayProblem(problem.status, problem.code, f"{problem.detail} {hint}")
        return problem


class EntriesAnswer:
    """Entries of a range on their way here: what the headers say, and batches to iterate over.

    Attributes:
        epoch: the life the stream is in.
        last_id: the last id of the stream.
        gap_to: up to and with this id, entries of the range were trimmed; None if none were.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self.epoch = answer.headers.get("Headgate-Epoch")
        self.last_id = answer.headers.get("Headgate-Last-Id")
        self.gap_to: str | None = answer.headers.get("Headgate-Gap-To")
        self._answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches as they come.

        Raises:
            httpx.TransportError: the connection broke; what came before it is whole.
        """
        body = cast(IO[bytes], _Body(self._answer.iter_raw()))
        with pa.ipc.open_stream(body) as batches:
            yield from batches


class _Body:
    """The body of an answer as the file that Arrow reads from."""

    closed = False

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as asked for, or all there are at the end of the body."""
        while size < 0 or len(self._buffer) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._buffer += piece
        end = len(self._buffer) if size < 0 else size
        data = bytes(self._buffer[:end])
        del self._buffer[:end]
        return data

    def close(self) -> None:
        self.closed = True


def stream_path(stream: str) -> str:
    """Return the path of a stream."""
    return f"/v1/streams/{_quoted(stream)}"


def _batch_path(writer: str, batch: int) -> str:
    return f"/v1/bulk/writers/{_quoted(writer)}/batches/{batch}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _encoded(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


def _plan(row: Mapping[str, Any]) -> Plan:
    gap = row["gap"]
    return Plan(
        row["stream"],
        row["epoch"],
        row["after"],
        row["end"],
        row["entries"],
        row["backlog"],
        row["last_id"],
        row["first_id"],
        None if gap is None else Gap(gap["from"], gap["to"]),
    )


def _problem(answer: httpx.Response) -> GatewayProblem:
    """Return the problem of an answer; whatever else answered is quoted, shortened."""
    answer.read()
    try:
        body = json.loads(answer.content)
        return GatewayProblem(answer.status_code, body["code"], body["detail"])
    except (ValueError, KeyError, TypeError):
        text = " ".join(answer.text.split())[:200]
        return GatewayProblem(answer.status_code, "", text or answer.reason_phrase)


def _retry_after_s(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("Retry-After", "0")))
    except ValueError:  # a date: the backoff will do
        return 0.0


def _backoff_s(tries: int) -> float:
    """Return how long to wait after so many tries: doubled each time, and jittered."""
    longest = min(_BACKOFF_S_MAX, _BACKOFF_S_MIN * 2.0 ** min(tries - 1, 10))
    return random.uniform(longest / 2, longest)
