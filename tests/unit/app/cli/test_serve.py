"""The greeting of a gateway that has started names the pages to open next."""

import json
import re
import sys

import pytest

from headgate.app.cli.commands.serve import greet
from headgate.app.settings import Settings

URL = "http://127.0.0.1:8080"


def test_the_log_has_the_pages_as_fields(capsys: pytest.CaptureFixture[str]) -> None:
    greet(Settings(), [], URL)

    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["event"].startswith(f"Headgate is at {URL}, ")
    pages = {name: line[name] for name in ("url", "guide", "console")}
    assert pages == {"url": URL, "guide": f"{URL}/guide", "console": f"{URL}/console"}


def test_a_terminal_shows_the_pages_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    greet(Settings(), [], URL)

    [line] = capsys.readouterr().err.splitlines()
    assert re.findall(rf"{URL}[/\w]*", line) == [URL, f"{URL}/guide", f"{URL}/console"]
