"""Items as the commands show them: to scripts, and to people."""

import re
import sys

import pytest

from headgate.app.cli.listing import show_item, show_items

ITEM = {
    "paused": False,
    "filters": [{"exact": {"kind": "it's"}}],
    "next_due_ms": 1_795_914_000_000,
    "claim_idle_ms": 60_000,
    "idle_ms": 61_500,
    "backoff_ms": [500, 10_000],
    "names": ["a b", "c"],
    "limit": None,
    "of": {"rate": 1.5},
}


def use_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_scripts_get_json_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    show_item(ITEM, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        *("paused\tfalse", """filters\t[{"exact": {"kind": "it's"}}]"""),
        *("next_due_ms\t1795914000000", "claim_idle_ms\t60000", "idle_ms\t61500"),
        *("backoff_ms\t500,10000", 'names\t"a b",c', "limit\t-", "of.rate\t1.5"),
    ]


def test_people_get_times_and_durations(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_a_terminal(monkeypatch)
    show_item({name: ITEM[name] for name in list(ITEM)[:6]}, as_json=False)
    assert shown_words(capsys) == [
        ["paused", "false"],
        ["filters", """[{"exact":""", """{"kind":""", """"it's"}}]"""],
        *(["next_due", "2026-11-29T01:00:00Z"], ["claim_idle", "1m"], ["idle", "1", "m"]),
        ["backoff", "500ms,10s"],
    ]
    show_items([{"id": "1-0", "idle_ms": 61_500}], ("id", "idle_ms"), as_json=False)
    assert shown_words(capsys) == [["id", "idle"], ["1-0", "1", "m"]]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("paused_until_ms", 2**53, "paused_until 9007199254740992 ms"),  # no calendar has its year
        ("p50_ms", 1.25, "p50 1.25 ms"),
        ("delay_ms", None, "delay -"),
        ("backoff_ms", [], "backoff -"),
    ],
)
def test_people_get_a_unit_with_every_number_of_milliseconds(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: object,
    shown: str,
) -> None:
    use_a_terminal(monkeypatch)
    show_item({name: value}, as_json=False)
    assert shown_words(capsys) == [shown.split()]


def test_scripts_get_numbers_in_columns_too(capsys: pytest.CaptureFixture[str]) -> None:
    show_items([ITEM], ("backoff_ms", "idle_ms"), as_json=False)
    assert capsys.readouterr().out == "backoff_ms\tidle_ms\n500,10000\t61500\n"


def shown_words(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.split() for line in plain.splitlines()]
