"""Each line of the log is a JSON object, whatever a record has in it."""

import json
import logging
import re
from io import StringIO
from typing import Any

import pytest

from headgate.app.runtime.logs.lines import JsonLines, Lines, RequestFacts
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
