"""The table *Where a change goes* of app/README.md is true of a name of each kind."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LEFT_OUT = [
    *("app/examples.json", "app/live/frames", "app/wire/schemas"),
    *("clients", "*.md"),
]
"""Places that the table leaves out: models of the wire, files made of them, and the clients."""

SAMPLES = {
    "a setting of a stream or a group": "consumer_ttl_ms",
    "a frame type": "unsubscribe",
    "an option of a command": "MAXCOUNT",
    "a choice of a subscriber": "auto_credit",
    "rights, audit, metering and span of a request": "is_act",
}
"""A name of a kind, by the change. Other changes have no name that is found everywhere."""


def rows() -> dict[str, list[str]]:
    """Return the paths that the table names, by the change."""
    text = (ROOT / "app" / "README.md").read_text()
    table = text.partition("## Where a change goes")[2].partition("\n## ")[0]
    pairs = re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE)
    return {
        change: [path for path in re.findall(r"`([\w./]+)`", places) if "/" in path.rstrip("/")]
        for change, places in pairs
    }


def places_of(name: str) -> list[str]:
    """Return the files that say a name, without those that the table leaves out."""
    folders = ["app", "engine", "pipeline", "clients", "console/src"]
    command = ["git", "grep", "--untracked", "-l", "--word-regexp", "--fixed-strings", name, "--"]
    command += [*folders, *(f":(exclude){path}" for path in LEFT_OUT)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return listed.stdout.split()


@pytest.mark.parametrize("change", rows())
def test_every_place_of_the_table_is_there(change: str) -> None:
    for path in rows()[change]:
        assert (ROOT / path).exists() or (ROOT / "app" / path).exists() or path == "/v1/limits"


@pytest.mark.parametrize("change", SAMPLES)
def test_a_name_stands_where_the_table_says(change: str) -> None:
    named = rows()[change]
    places = places_of(SAMPLES[change])

    assert places
    for place in places:
        assert any(place.startswith((path, f"app/{path}")) for path in named), place
