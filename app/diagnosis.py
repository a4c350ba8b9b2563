"""Findings about servers and buckets, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from statistics import median
from typing import NamedTuple

from headgate.engine.bucket.bucket import Bucket


class Severity(StrEnum):
    """Whether a gateway can work despite a finding."""

    OK = "ok"
    WARNING = "warning"  # it works, and something may go wrong
    FAULT = "fault"  # it does not work
    UNKNOWN = "unknown"  # the user may not ask


class Finding(NamedTuple):
    about: str
    severity: Severity
    text: str
    follows: str = ""
    servers: tuple[str, ...] = ()  # where it is so; none: everywhere


def merged(findings: Iterable[Finding], servers: Iterable[str]) -> Iterator[Finding]:
    """Merge findings that all servers share; prefix the others with their servers."""
    everywhere = set(servers)
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(finding._replace(servers=()), []).extend(finding.servers)
    order = list(dict.fromkeys(finding.about for finding in places))
    for finding, where in sorted(places.items(), key=lambda item: order.index(item[0].about)):
        is_everywhere = everywhere <= set(where)
        yield finding if is_everywhere else finding._replace(servers=tuple(where))


_TIMES = 10
_ROUNDS = 5
_WRITERS = 4
_FOLDER = "doctor/"
_DIGITS = b"0123456789"


class _Trial(NamedTuple):
    about: str
    severity: Severity
    act: Callable[[], str]  # a fault, or nothing
    follows: str


def examine_bucket(bucket: Bucket, token: str, seconds: Callable[[], float]) -> list[Finding]:
    """Test the guarantees of a bucket with objects below `doctor/`, and remove them.

    Other objects of the bucket stay. `token` makes the names unique; `seconds` is a clock.
    """
    return _Examination(bucket, f"{_FOLDER}{token}-").findings(seconds)


class _Examination:
    def __init__(self, bucket: Bucket, start: str) -> None:
        self._bucket = bucket
        self._start = start  # of their names
        self._names: list[str] = []

    def findings(self, seconds: Callable[[], float]) -> list[Finding]:
        fault = Severity.FAULT
        write = _Trial("write", fault, self._write, "the bucket cannot store anything")
        trials = (
            _Trial(
                "create-only put",
                fault,
                self._put_once,
                "two gateways could write at the same time: do not use this store",
            ),
            _Trial("read", fault, self._read, "no gateway can start from this bucket"),
            _Trial(
                "ranged read",
                fault,
                self._read_part,
                "cold entries cannot be read from this bucket",
            ),
            _Trial(
                "list after a write",
                fault,
                self._list_at_once,
                "a gateway could miss the last writes when it starts: do not use this store",
            ),
            _Trial(
                "list after a name", fault, self._list_behind, "a standby cannot follow the leader"
            ),
        )
        removal = _Trial(
            "removal", Severity.WARNING, self._remove, "old objects are not removed, and cost money"
        )
        begun = [Finding("bucket", Severity.OK, self._bucket.url), _outcome(write)]
        if begun[-1].severity is fault:
            return begun
        tried = [_outcome(trial) for trial in trials]
        return [*begun, *tried, *self._times(seconds), _outcome(removal)]

    def _put(self, name: str, content: bytes) -> bool:
        name = self._start + name
        self._names.append(name)
        return self._bucket.put_new(name, content)

    def _write(self) -> str:
        for name in ("1", "2", "3"):
            self._put(name, _DIGITS)
        return ""

    def _put_once(self) -> str:
        is_new = self._put("1", b"another")
        if is_new or self._bucket.read(f"{self._start}1") != _DIGITS:
            return "missing"
        writers = [b"%d" % number for number in range(_WRITERS)]
        with ThreadPoolExecutor(_WRITERS) as threads:
            for number in range(_ROUNDS):
                name = f"race-{number}"
                wins = list(threads.map(partial(self._put, name), writers))
                kept = self._bucket.read(self._start + name)
                if any(won and writers[who] != kept for who, won in enumerate(wins)):
                    return "missing for concurrent puts"
        return ""

    def _read(self) -> str:
        if self._bucket.read(f"{self._start}1") != _DIGITS:
            return "the content differs from what was written"
        try:
            self._bucket.read(f"{self._start}none")
        except FileNotFoundError:
            return ""
        return "reading a missing object returned content"

    def _read_part(self) -> str:
        part = self._bucket.read_range(f"{self._start}1", 4, 3)
        end = self._bucket.read_range(f"{self._start}1", 8, 10)
        return "" if (part, end) == (b"456", b"89") else "the range has the wrong content"

    def _list_at_once(self) -> str:
        for number in range(_ROUNDS):
            self._put(f"list-{number}", b"")
            if len(self._listed("list-")) != number + 1:
                return "an object that was just written is missing"
        return ""

    def _list_behind(self) -> str:
        behind = self._listed("list-", f"{self._start}list-1")
        wanted = [f"{self._start}list-{number}" for number in range(2, _ROUNDS)]
        return "" if behind == wanted else "the list is wrong"

    def _remove(self) -> str:
        self._bucket.remove(self._names)
        return f"{len(left)} objects are still listed" if (left := self._listed("")) else ""

    def _listed(self, start: str, after: str = "") -> list[str]:
        names = [each.name for each in self._bucket.objects(_FOLDER, after)]
        return [name for name in names if name.startswith(self._start + start)]

    def _times(self, seconds: Callable[[], float]) -> list[Finding]:
        findings = []
        for about, act in (("put", self._put_time), ("get", self._get_time)):
            taken_ms = []
            try:
                for number in range(_TIMES):
                    began = seconds()
                    act(f"times-{number}")
                    taken_ms.append((seconds() - began) * 1_000)
                text, severity = f"{median(taken_ms):.1f} ms", Severity.OK
            except OSError as error:
                text, severity = str(error), Severity.FAULT
            findings.append(Finding(f"time of a {about}", severity, text))
        return findings

    def _put_time(self, name: str) -> None:
        self._put(name, bytes(1_024))

    def _get_time(self, name: str) -> None:
        self._bucket.read(self._start + name)


def _outcome(trial: _Trial) -> Finding:
    try:
        text = trial.act()
    except OSError as error:
        text = str(error)
    if text:
        return Finding(trial.about, trial.severity, text, trial.follows)
    return Finding(trial.about, Severity.OK, "there")
