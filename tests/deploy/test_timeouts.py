"""Timeouts of neighbours: the table of `deploy/README.md` has those in force, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from headgate.app.server import GRACE_S
from headgate.app.settings import Settings
from headgate.app.workers.supervisor import ENGINE_END_S_MAX, WORKERS_END_S_MAX

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = {"s": 1, "h": 3600}
SETTINGS = Settings()
USUAL_S = 60
"""The silence of usual proxies and balancers."""


def seconds_in(pattern: str, *files: str) -> set[float]:
    """Return the seconds that the files have where a pattern says; each of them has some."""
    times = set[float]()
    for path in (path for file in files for path in sorted(DEPLOY.glob(file))):
        matches = re.findall(pattern, path.read_text())
        assert matches, f"{path}: nothing like {pattern}"
        times |= {int(number) * UNITS[unit or "s"] for number, unit in matches}
    return times


GRACE = r"(?:terminationGracePeriodSeconds|stop_grace_period): (\d+)(s?)"
PROXIES = ("**/nginx.conf", "**/Caddyfile")
ROWS: list[tuple[list[float], list[float]]] = [
    ([*seconds_in(r"keepalive(?:_timeout)? (\d+)(s)", *PROXIES)], [SETTINGS.keepalive_s]),
    (
        [SETTINGS.wait_ms_max / 1000],
        [*seconds_in(r"proxy_read_timeout +(\d+)(h)", "**/nginx.conf")],
    ),
    ([SETTINGS.heartbeat_ms / 1000], [USUAL_S]),
    ([SETTINGS.ping_interval_ms / 1000, SETTINGS.pong_wait_ms / 1000], [USUAL_S]),
    (
        [GRACE_S, *seconds_in(r'sleep, "(\d+)"()', "kubernetes/deployment.yaml")],
        [*seconds_in(GRACE, "compose.yaml", "kubernetes/deployment.yaml")],
    ),
    (
        [WORKERS_END_S_MAX, ENGINE_END_S_MAX],
        [
            *seconds_in(GRACE, "*/compose.yaml", "kubernetes/*/statefulset.yaml")
            | seconds_in(r"TimeoutStopSec=(\d+)()", "headgate.service")
        ],
    ),
    ([httpx.Limits().keepalive_expiry or 0], [SETTINGS.keepalive_s]),
]


def times_in(cell: str) -> set[float]:
    """Return the seconds that a cell of the table names."""
    return {int(number) * UNITS[unit] for number, unit in re.findall(r"\b(\d+) (s|h)\b", cell)}


def test_each_row_has_the_times_in_force_and_the_shorter_one_first() -> None:
    section = (DEPLOY / "README.md").read_text().partition("## Timeouts")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]

    assert len(lines) == len(ROWS) + 1
    for (shorter, longer, _), (shorter_s, longer_s) in zip(lines[1:], ROWS, strict=True):
        assert times_in(shorter) >= set(shorter_s), shorter
        assert times_in(longer) == set(longer_s), longer
        assert sum(shorter_s) < min(longer_s), (shorter, longer)
