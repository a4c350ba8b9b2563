"""Jobs of what fits into memory say the same as on Spark, and start no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vega_datasets import local_data

from headgate.pipeline.jobs import flags
from tests.pipeline.command import Command, command
from tests.pipeline.gateway import Gateway

__all__ = ["command"]

DAY_MS = 86_400_000


@pytest.fixture
def prices(gateway: Gateway, command: Command, name: str, tmp_path: Path) -> tuple[str, str, str]:
    """A stream of real records and some odd ones, half of it in the lake only; words of both."""
    stocks = local_data.stocks()
    entries: list[dict[str, Any]] = [
        {
            "id": f"{number // 3 * DAY_MS // 7 + 1}-{number}",
            "fields": {k: str(v) for k, v in row.items()},
        }
        for number, row in enumerate(stocks.to_dict("records"))
    ]
    entries.insert(
        9, {"id": f"{2 * DAY_MS // 7 + 1}-77", "pairs": [["a", ""], ["a", "é"], ["a", ""]]}
    )
    entries.append(
        {"id": f"{2**63 - 1}-{2**64 - 2}", "fields": {"blob": "/wA="}, "base64": ["blob"]}
    )
    gateway.append_entries(name, entries[:300])
    lake = str(tmp_path / "lake")
    command.run("archive", "--streams", name, "--lake", lake)
    gateway.trim(name, max_length=100)
    gateway.append_entries(name, entries[300:])
    return "--streams", name, lake


def test_stats_in_memory_are_those_of_spark(command: Command, prices: tuple[str, str, str]) -> None:
    streams, name, lake = prices
    for words in (
        ("--window", "7d"),
        ("--window", "36h", "--lake", lake),
        ("--fields", "--lake", lake),
    ):
        ask = ("stats", streams, name, *words)
        in_memory, on_spark = command.rows(*ask), command.rows(*ask, "--spark")
        counts, estimates = (
            [row.pop("values_about", 0) for row in rows] for rows in (in_memory, on_spark)
        )
        assert len(in_memory) >= 3
        assert in_memory == on_spark
        assert counts == pytest.approx(estimates, rel=0.1)  # Spark does not count them all


def test_a_way_is_told_and_spark_is_for_much(
    command: Command, prices: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("stats", *prices[:2], "--fields")
    _, progress = command.run(*ask)
    assert "stats: 362 entries in memory, without Spark\n" in progress
    monkeypatch.setattr(flags, "IN_MEMORY_ENTRIES_MAX", 361)
    _, progress = command.run(*ask)
    assert "stats: 362 entries on Spark, as there are many\n" in progress
