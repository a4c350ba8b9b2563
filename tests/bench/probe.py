"""Probe: the time of single appends beside other work, and the memory of the gateway meanwhile."""

import multiprocessing
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.bench.stores import GatewayStore

APPEND_EVERY_S = 0.01
SAMPLE_EVERY_S = 0.5
_START_S_MAX = 60
_BODY = b'{"fields":{"temp":"39","hum":"71","site":"s1"}}'
_PATH = "/v1/streams/probe/entries"


class Beside(NamedTuple):
    """The work beside which an entry was appended."""

    phase: str
    is_rewriting: bool


class Watch:
    """A gateway's memory and journal, twice a second, and the times of a probe's appends.

    The probe is a process of its own: work in this one does not delay it. Its time begins when the
    append is due, so an append that waits for the one before it shows that.
    """

    def __init__(self, store: GatewayStore) -> None:
        """Watch a gateway while the context lasts."""
        self.phase = ""
        self.probe_ms: defaultdict[Beside, list[float]] = defaultdict(list)
        self.resident_bytes_max = 0
        self.journal: Mapping[str, Any] = {}
        self._store, self._ended, self._highest_bytes = store, threading.Event(), 0
        self._times, other_end = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("spawn")
        self._probe = context.Process(target=append_on, args=(store.port, other_end), daemon=True)
        self._sampling = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._probe.start()
        assert self._times.poll(_START_S_MAX), "the probe does not append"
        self._sampling.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._sampling.join()
        self._probe.kill()
        self._probe.join()

    def take_resident_bytes(self) -> int:
        """Return the most memory since this was called before, children included."""
        highest, self._highest_bytes = self._highest_bytes, self._store.resident_bytes()
        return max(highest, self._highest_bytes)

    def _sample(self) -> None:
        with closing(self._store.connection()) as connection:
            while True:
                is_last = self._ended.wait(SAMPLE_EVERY_S)
                resident_bytes = self._store.resident_bytes()
                self._highest_bytes = max(self._highest_bytes, resident_bytes)
                self.resident_bytes_max = max(self.resident_bytes_max, resident_bytes)
                before, self.journal = self.journal, connection.journal()
                self._sort_times(before)
                if is_last:
                    return

    def _sort_times(self, before: Mapping[str, Any]) -> None:
        """Keep the times that came since the state of the journal before."""
        is_rewriting = (
            self.journal["is_rewriting"]
            or before.get("is_rewriting", False)
            or before.get("rewrite_count", 0) != self.journal["rewrite_count"]
        )
        times = self.probe_ms[Beside(self.phase, is_rewriting)]
        while self._times.poll():
            times.append(self._times.recv())


def append_on(port: int, times: Connection) -> None:
    """Append an entry whenever one is due, and send the milliseconds until its answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    due_s = time.perf_counter()
    while True:
        due_s += APPEND_EVERY_S
        time.sleep(max(0.0, due_s - time.perf_counter()))
        connection.request("POST", _PATH, _BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status < 300:
            times.send((time.perf_counter() - due_s) * 1e3)
