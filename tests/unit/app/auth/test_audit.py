"""Audit: each act leaves a line that says enough. Exposure: who needs no credentials."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.app.addresses import is_loopback
from headgate.app.auth.audit import BURST_MAX, LINES_PER_S_MAX, Audit, shown
from headgate.app.auth.principal import Forbidden, Principal
from headgate.app.runtime.logs import JsonLines
from headgate.app.server import Exposed, check_exposure, keys_flags
from headgate.engine.errors import GroupNotFound, StreamNotFound
from headgate.engine.requests.groups import DestroyGroup
from headgate.engine.requests.keyspace import DeleteStreams, RenameStream
from headgate.engine.requests.streams import DeleteStream

ANA = Principal("ana", (), key="k1")
DELETE = DeleteStream(b"jobs")


class Times:
    """A clock, and what is to be called later; both moved by hand."""

    def __init__(self) -> None:
        self.s, self.calls = 50.0, list[tuple[float, Callable[[], None]]]()

    def __call__(self) -> float:
        return self.s

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.calls.append((self.s + delay_s, call))

    def pass_s(self, seconds: float) -> None:
        self.s += seconds
        due = [call for at_s, call in self.calls if at_s <= self.s]
        self.calls = [(at_s, call) for at_s, call in self.calls if at_s > self.s]
        for call in due:
            call()


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def audit(times: Times, caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO, "headgate.audit")
    return Audit(times, times.later)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the lines, as JSON."""
    return [json.loads(JsonLines().format(record)) for record in caplog.records]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (StreamNotFound(b"jobs"), "stream_not_found"),
        (GroupNotFound(b"jobs", b"g", stream_exists=True), "group_not_found"),
        (GroupNotFound(b"jobs", b"g", stream_exists=False), "stream_not_found"),
        *((Forbidden("manage"), "forbidden"), (asyncio.CancelledError(), "unknown")),
        (OSError("disk"), "internal"),
    ],
)
def test_an_act_that_fails_says_why(
    audit: Audit, caplog: pytest.LogCaptureFixture, error: BaseException, outcome: str
) -> None:
    with pytest.raises(type(error)), audit.act(ANA, DestroyGroup(b"jobs", b"g")):
        raise error

    [line] = lines(caplog)
    assert line["outcome"] == outcome
    assert (line["stream"], line["group"]) == ("jobs", "g")


def test_a_line_shows_a_few_of_many_names(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    with audit.act(ANA, RenameStream(b"old", b"new")):
        pass
    with audit.act(ANA, DeleteStreams([b"%d" % number for number in range(1_000)])):
        pass

    first, second = lines(caplog)
    assert (first["stream"], first["to"]) == ("old", "new")
    assert second["streams"] == [str(number) for number in range(10)]
    assert second["stream_count"] == 1_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((b"plain/\xc3\xa9", "plain/é"), (b"\n\r\t\x1b[31m\x00\x7f", r"\n\r\t\x1b[31m\x00\x7f")),
        *(("\u202eevil\u2028", r"\u202eevil\u2028"), (b"a\\n", r"a\\n"), (b"\xff", "�")),
        *(("\ud800", "?"), (b"x" * 256, "x" * 256), (b"x" * 257, "x" * 256 + "…")),
    ],
)
def test_a_name_cannot_forge_a_line(name: bytes | str, text: str) -> None:
    assert shown(name) == text


def test_lines_left_out_are_counted(
    audit: Audit, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(BURST_MAX + 500):
        audit.denial(Forbidden("manage"), ANA, DELETE)
    assert len(caplog.records) == BURST_MAX

    times.pass_s(1)
    assert lines(caplog)[-1]["event"] == "lines left out"
    assert lines(caplog)[-1]["left_out"] == 500

    caplog.clear()
    for _ in range(500):
        audit.denial(Forbidden("manage"), ANA, DELETE)
    assert len(caplog.records) == LINES_PER_S_MAX
    times.pass_s(60)
    assert lines(caplog)[-1]["left_out"] == 400
    times.pass_s(60)
    assert len(caplog.records) == LINES_PER_S_MAX + 1

    caplog.clear()  # a log without these lines costs nothing
    caplog.set_level(logging.WARNING, "headgate.audit")
    for _ in range(BURST_MAX + 500):
        audit.denial(Forbidden("manage"), ANA, DELETE)
    assert (caplog.records, times.calls) == ([], [])


HOME = ["127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::1%lo"]
ABROAD = [
    *("0.0.0.0", "::", "10.0.0.1", "169.254.1.1", "fe80::1%eth0", "::ffff:10.0.0.1", "1.1.1.1"),
    *("", "localhost", "127.0.0.1.evil.example", "127.1", "2130706433"),
]


def check(*addresses: str, has_credentials: bool = False, allow_anonymous: bool = False) -> None:
    check_exposure(
        *("x", addresses),
        has_credentials=has_credentials,
        allow_anonymous=allow_anonymous,
        keys=keys_flags(Path("my data"), None),
    )


def test_loopback_is_home_and_everything_else_is_abroad() -> None:
    for address in HOME:
        assert is_loopback(address)
        check(address)
    for address in ABROAD:
        assert not is_loopback(address)
        check(address, has_credentials=True)
        check(address, allow_anonymous=True)
        with pytest.raises(Exposed) as refused:
            check("127.0.0.1", address)
        text = str(refused.value)  # it names the ways on
        assert 'headgate keys add me --grant \'{"streams":' in text
        assert "--data-dir 'my data'\n" in text
        assert "HEADGATE_JWT_JWKS" in text
        assert "--allow-anonymous" in text
