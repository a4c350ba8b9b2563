"""Object stores for tests: servers that speak S3, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import free_ports

_ROOT = Path(__file__).parents[2]

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret",
    "AWS_REGION": "us-east-1",
}


class Store:
    """A store at an address of this machine."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def variables(self) -> dict[str, str]:
        """The variables that lead programs to the store."""
        return variables_of(self.endpoint)

    def make_bucket(self, name: str) -> str:
        """Make a bucket; returns its URL."""
        httpx.put(f"{self.endpoint}/{name}").raise_for_status()
        return f"s3://{name}"


def variables_of(endpoint: str) -> dict[str, str]:
    """Return the variables that lead programs to an endpoint."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}


@contextmanager
def moto(keeper: Keeper) -> Iterator[Store]:
    """Run `moto`, which knows most of S3."""
    [port] = free_ports(1)
    words = ["tests.buckets.moto_server", "-H", "127.0.0.1", "-p", str(port)]
    with _serving(keeper, words, {}, port) as store:
        yield store


@contextmanager
def ministack(keeper: Keeper) -> Iterator[Store]:
    """Run `ministack`: other people's reading of the same manual."""
    [port] = free_ports(1)
    variables = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "SERVICES": "s3",
        "SFTP_ENABLED": "0",
    }
    with _serving(keeper, ["ministack"], variables, port) as store:
        yield store


@contextmanager
def _serving(
    keeper: Keeper, words: list[str], variables: Mapping[str, str], port: int
) -> Iterator[Store]:
    """Run a module of Python until the context ends."""
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=_ROOT,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        keeper.keep(server.pid)
        assert server.stdout is not None
        for line in server.stdout:
            if "Running on" in line:
                break
        else:
            raise OSError(f"{words[0]} has ended")
        drained = threading.Thread(target=server.stdout.read)
        drained.start()
        yield Store(f"http://127.0.0.1:{port}")
        server.terminate()
        drained.join()
    keeper.forget(server.pid)
