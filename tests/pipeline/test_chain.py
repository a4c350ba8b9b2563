"""The chain of jobs that the README gives to cron, killed at any moment, and its gateway with it.

`HEADGATE_TEST_CHAIN_S=1800 pytest -m long tests/pipeline/test_chain.py` is half an hour of it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable

from headgate.client.lake import read_lake
from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.java import SHORT_LIVED
from tests.pipeline.jobs import PATIENCE_S

KILLS_S = float(os.environ.get("HEADGATE_TEST_CHAIN_S", "60"))
STREAMS = ("orders-a", "orders-b", "orders-c")
LIFE_S_MAX = 20.0
"""A chain is killed after so long at most; without Spark it takes half of that."""

GATEWAY_SHARE = 0.2
SPARK_SHARE = 0.2
PRICES = ("{0}", "{0}.5", "{0}", "{0}.125", "about {0}")
"""Their type widens as time goes on."""


class Writer:
    """A writer that goes on, whatever becomes of the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.fields_of: dict[tuple[str, str], str] = {}
        """Prices of the acknowledged entries, by stream and number."""
        self.tried: set[tuple[str, str]] = set()
        self._gateway = gateway
        self._end = threading.Event()
        self._began_s = time.monotonic()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while the context lasts."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def _run(self) -> None:
        count = 0
        while not self._end.wait(0.02):
            count += 1
            stream = random.choice(STREAMS)
            elapsed = (time.monotonic() - self._began_s) / KILLS_S
            price = PRICES[min(int(elapsed * len(PRICES)), len(PRICES) - 1)].format(count)
            self.tried.add((stream, str(count)))
            try:
                fields = {"n": str(count), "price": price, "sku": str(count % 20)}
                if count % 7 == 0:
                    fields["deleted"] = ""
                self._gateway.append(stream, [fields])
            except (httpx.HTTPError, AssertionError):
                continue
            self.fields_of[stream, str(count)] = price


class Chain:
    """The lines of the README, in a shell of its own."""

    def __init__(self, gateway: Gateway, lake: Path) -> None:
        self._environment = {
            **os.environ,
            "HEADGATE_URL": gateway.url,
            "JAVA_TOOL_OPTIONS": SHORT_LIVED,
        }
        self._lake = lake

    def run(self, *flags: str, kill_after_s: float | None = None) -> str | None:
        """Run it; returns its output, or None if it was killed.

        Args:
            flags: of `archive`.
            kill_after_s: how long it may take.
        """
        job = f"{sys.executable} -m headgate.pipeline.cli"
        lake = f"--lake {self._lake}"
        lines = (
            f"{job} archive --pattern 'orders-.*' {lake} {' '.join(flags)}"
            f" && {job} trim --pattern 'orders-.*' {lake} --keep 1s;"
            f" {job} compact {lake} && {job} view {lake}"
            f" && {job} view {lake} --latest --key sku"
        )
        shell = subprocess.Popen(
            ["bash", "-c", lines],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = shell.communicate(timeout=kill_after_s or PATIENCE_S)
        except subprocess.TimeoutExpired:
            assert kill_after_s is not None, "the chain hangs"
            os.killpg(shell.pid, signal.SIGKILL)
            shell.communicate()
            return None
        assert "Traceback" not in output, output
        assert kill_after_s is not None or shell.returncode == 0, output
        return output


@pytest.mark.long
def test_kills_at_any_moment_lose_and_double_nothing(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data")
    writer = Writer(gateway)
    lake = tmp_path / "lake"
    chain = Chain(gateway, lake)
    endings: Counter[str] = Counter()
    deadline = time.monotonic() + KILLS_S
    with writer.writing():
        while time.monotonic() < deadline:
            on_spark = random.random() < SPARK_SHARE
            life_s = random.uniform(0.5, LIFE_S_MAX * (2 if on_spark else 1))
            output = chain.run(*["--spark"] * on_spark, kill_after_s=life_s)
            endings["killed" if output is None else "ended"] += 1
            if random.random() < GATEWAY_SHARE:
                gateway.kill()
                gateway.start()
                endings["gateway killed"] += 1
    chain.run()

    for stream in STREAMS:
        written = {n: price for (to, n), price in writer.fields_of.items() if to == stream}
        tried = {n for to, n in writer.tried if to == stream}
        columns = dict.fromkeys(["n", "price", "sku", "deleted"], "string")
        rows = read_lake(lake, stream, schema=columns).to_pylist()
        assert max(Counter(row["n"] for row in rows).values()) == 1
        held = {row["n"]: row["price"] for row in rows}
        assert held.keys() <= tried
        assert {n: held.get(n) for n in written} == written
        check_view(Path(f"{lake}-views") / stream, held)
        latest = {row["sku"]: row for row in rows}.values()
        wanted = {row["sku"]: row["_id"] for row in latest if row["deleted"] is None}
        table = DeltaTable(f"{lake}-views/{stream}~latest").to_pyarrow_table()
        assert len(table) == len(wanted)
        assert dict(zip(*table.select(["_key", "_id"]).to_pydict().values(), strict=True)) == wanted
    assert endings["killed"]
    gateway.stop()


def check_view(path: Path, held: dict[str, str]) -> None:
    """See that a view has each entry of the lake once, with the value that it had."""
    table = DeltaTable(str(path)).to_pyarrow_table(columns=["n", "price"])
    shown = {str(n): price for n, price in zip(*table.to_pydict().values(), strict=True)}
    assert len(table) == len(shown) == len(held)
    if str(table.schema.field("price").type) == "string":
        assert shown == held
    else:
        assert shown.keys() == held.keys()
        assert all(float(shown[n]) == float(price) for n, price in held.items())
