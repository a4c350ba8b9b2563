"""Sparks of several processes: the code comes to them, as they have only what it imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from deploy.local_cluster.server import free_ports
from deploy.local_cluster.waiting import until
from headgate.pipeline.lake import Lake
from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.guarded import Guarded, check_no_trace
from tests.pipeline.java import SHORT_LIVED
from tests.pipeline.jobs import PATIENCE_S

BIN = Path(pyspark.__file__).parent / "bin"
ENTRIES = 200
ONLY_LIBRARIES = f"""#!/bin/sh
export PYTHONPATH={sysconfig.get_path("purelib")}${{PYTHONPATH:+:$PYTHONPATH}}
exec {sys.executable} -S "$@"
"""
"""A Python with the libraries, and without this package, however it was installed."""


class Processes:
    """The processes of a cluster on this machine, stopped at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "python"
        self.python.write_text(ONLY_LIBRARIES)
        self.python.chmod(0o755)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, ready_text: str, *words: str | Path) -> None:
        """Start a process; returns once it has said that it is there."""
        log = self.folder / f"{len(self._running)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)

        def is_ready() -> bool:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text
            return ready_text in text

        until(is_ready, PATIENCE_S, ready_text)

    def stop(self) -> None:
        for process in reversed(self._running):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def environment(self, *, is_driver: bool = False) -> dict[str, str]:
        """Return the environment of a process; only a driver's has a path to this package."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")] if is_driver else []
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "JAVA_TOOL_OPTIONS": SHORT_LIVED,
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    cluster = Processes(tmp_path)
    yield cluster
    cluster.stop()


def connect_server(processes: Processes, *conf: str) -> str:
    """Start a Connect server; returns its address as a master."""
    pytest.importorskip("grpc_status")
    [port] = free_ports(1)
    here = "spark.connect.grpc.binding.address=127.0.0.1", "spark.ui.enabled=false"
    confs = (*here, f"spark.connect.grpc.binding.port={port}", *conf)
    processes.start(
        "Spark Connect server started",
        *(BIN / "spark-submit", "--master", "local[2]"),
        *(word for each in confs for word in ("--conf", each)),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    )
    return f"sc://127.0.0.1:{port}"


def run(processes: Processes, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module as a driver."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=processes.environment(is_driver=True) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def check_copy(processes: Processes, master: str, gateway: Gateway, stream: str) -> list[str]:
    """Copy a stream there and look at the copy; returns where tasks had the package from."""
    gateway.append(stream, [{"n": str(at), "é": "ü"} for at in range(ENTRIES)])
    done = run(processes, "tests.pipeline.elsewhere", master, gateway.url, stream)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["rows"] == ENTRIES
    assert gateway.entries(f"{stream}-copy") == gateway.entries(stream)
    files: list[str] = answer["files"]
    return files


@pytest.mark.long
def test_a_cluster_of_a_master_and_two_workers_reads_and_writes(
    processes: Processes, gateway: Gateway, name: str
) -> None:
    [port] = free_ports(1)
    package = "org.apache.spark.deploy"
    spark_class = BIN / "spark-class"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    processes.start(
        "I have been elected leader",
        *(spark_class, f"{package}.master.Master", *here, "--port", str(port)),
    )
    for _ in range(2):
        processes.start(
            "Successfully registered with master",
            *(spark_class, f"{package}.worker.Worker", *here, "--cores", "1", "--memory", "1g"),
            *("--work-dir", processes.folder / "work", f"spark://127.0.0.1:{port}"),
        )
    files = check_copy(processes, f"spark://127.0.0.1:{port}", gateway, name)
    assert ["headgate_pipeline.zip" in file for file in files] == [True]


def test_a_connect_server_that_knows_nothing_of_us_reads_and_writes(
    processes: Processes, gateway: Gateway, name: str
) -> None:
    files = check_copy(processes, connect_server(processes), gateway, name)
    assert files
    assert all("headgate_pipeline.zip" in file for file in files)


@pytest.mark.long
def test_a_connect_server_whose_python_lacks_a_library_is_said_in_one_line(
    processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "httpx.py").write_text("raise ModuleNotFoundError(\"No module named 'httpx'\")\n")
    hidden = ONLY_LIBRARIES.replace("PYTHONPATH=", f"PYTHONPATH={tmp_path}:", 1)
    processes.python.write_text(hidden)
    master, lake = connect_server(processes), tmp_path / "lake"
    Lake.open_or_create(lake)
    words = ("replay", "--streams", "a", "--to", "b", "--lake", str(lake), "--master", master)
    done = run(processes, "headgate.pipeline.cli", *words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"Error: the Python of the Spark server {master} lacks httpx: pip install"
        " 'headgate[spark]' there, in the Python that its PYSPARK_PYTHON names"
    )


@pytest.mark.long
def test_a_token_leaves_no_trace_on_a_connect_server(processes: Processes, tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "data", "orders")
    events = tmp_path / "events"
    events.mkdir()
    logged = f"spark.eventLog.dir={events.as_uri()}", "spark.eventLog.compress=false"
    master = connect_server(processes, "spark.eventLog.enabled=true", *logged)
    words = (master, guarded.gateway.url, guarded.stream, str(tmp_path))
    done = run(processes, "tests.pipeline.traces", *words, TOKEN_AS_OPTION=guarded.key)
    assert done.returncode == 0, done.stderr
    assert guarded.gateway.count(f"{guarded.stream}-copy") == ENTRIES
    check_no_trace(tmp_path, guarded.key, files_min=5)
    guarded.gateway.stop()
