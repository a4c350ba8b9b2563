"""Each line of the log is a JSON object, and the metrics of processes are added."""

import json
import logging
import re
from io import StringIO
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headgate.app.runtime.logs import JsonLines, Lines, RequestFacts
from headgate.app.runtime.metric_sums import Families, Sums, decode, encode, families_of, text_of
from tests.conditions import until


def line_of(event: Any, *args: Any, process: str | None = None, **facts: Any) -> dict[str, Any]:
    record = logging.LogRecord("headgate", logging.WARNING, "file", 1, event, args, None)
    vars(record).update(facts)
    text = JsonLines(process).format(record)
    assert "\n" not in text
    assert text.isascii()
    assert text.isprintable()
    line: dict[str, Any] = json.loads(text, parse_constant=lambda _: 1 / 0)
    return line


def test_a_line_is_an_object_of_plain_characters() -> None:
    text = "\x1b[31mred\x1b[0m \x9b2J\r\n\u2028\U0001f600\ud800"
    line = line_of("short: %s", text, free_bytes=7, path=text)

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    head = {"level": "WARNING", "logger": "headgate", "event": f"short: {text}"}
    assert line == head | {"free_bytes": 7, "path": text}
    line = line_of("odd", nan=float("nan"), data=b"\xff", keys={(1, 2): 3})  # JSON lacks them
    assert (line["nan"], line["data"]) == ("nan", "b'\\xff'")


async def test_lines_about_requests_are_those_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    monkeypatch.setattr("sys.stderr", written)
    lines = Lines("worker 1")
    facts = RequestFacts("POST", None, 201, 0.25, 'a"é\x1b', "mine-1")
    for _ in range(250):
        lines.write_soon(facts)
    assert written.getvalue().count("\n") == 200  # the others come soon
    await until(lambda: written.getvalue().count("\n") == 250)
    lines.write_soon(facts)
    lines.close()

    record = logging.makeLogRecord(
        {"name": "headgate.requests", "msg": "request"} | facts._asdict()
    )
    record.levelname = "INFO"
    expected = json.loads(JsonLines("worker 1").format(record))
    texts = written.getvalue().splitlines()
    assert len(texts) == 251
    assert all(text.isascii() and text.isprintable() for text in texts)
    for text in texts:
        line = json.loads(text)
        assert list(line) == list(expected)
        assert line | {"time": 0} == expected | {"time": 0}
        assert len(line["time"]) == len(expected["time"])


def counted(appends: int, seconds: float, connections: int, longest_s: float) -> Families:
    """Return the counts of a process, as they arrive at another one."""
    registry = CollectorRegistry()
    requests = Counter("requests", "Requests.", ["operation"], registry=registry)
    requests.labels("append").inc(appends)
    Histogram("seconds", "Time.", buckets=(1, 2), registry=registry).observe(seconds)
    Gauge("connections", "Open.", registry=registry).set(connections)
    gauge = Gauge("headgate_loop_delay_longest_seconds", "Longest.", registry=registry)
    gauge.set_function(lambda: longest_s)
    return decode(encode(families_of(registry)))


def lines(families: Families) -> set[str]:
    text = text_of(families).decode()
    return {line for line in text.splitlines() if line[0] != "#" and "_created" not in line}


def test_counts_of_processes_are_added_and_stay_while_gauges_go_with_them() -> None:
    sums = Sums()
    sums.note(1, counted(2, 0.5, 10, 0.25))
    sums.note(2, counted(3, 1.5, 20, 0.5))

    assert lines(sums.total([])) == {
        *('requests_total{operation="append"} 5.0', 'seconds_bucket{le="1.0"} 1.0'),
        *('seconds_bucket{le="2.0"} 2.0', 'seconds_bucket{le="+Inf"} 2.0', "seconds_count 2.0"),
        *("seconds_sum 2.0", "connections 30.0", "headgate_loop_delay_longest_seconds 0.5"),
    }
    sums.end(2)
    sums.note(3, counted(1, 0.5, 1, 0.0))
    assert lines(sums.total([])) >= {
        *('requests_total{operation="append"} 6.0', "seconds_count 3.0", "connections 11.0"),
        "headgate_loop_delay_longest_seconds 0.25",
    }
