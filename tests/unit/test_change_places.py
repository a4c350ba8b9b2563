"""The table *Where a change goes* of app/README.md names places that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows() -> dict[str, list[str]]:
    """Return the paths that the table names, by the change."""
    text = (ROOT / "app" / "README.md").read_text()
    table = text.partition("## Where a change goes")[2].partition("\n## ")[0]
    pairs = re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE)
    return {
        change: [path for path in re.findall(r"`([\w./]+)`", places) if "/" in path.rstrip("/")]
        for change, places in pairs
    }


@pytest.mark.parametrize("change", rows())
def test_every_place_of_the_table_is_there(change: str) -> None:
    for path in rows()[change]:
        assert (ROOT / path).exists() or (ROOT / "app" / path).exists() or path == "/v1/limits"
