"""A cluster of primaries and replicas on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import redis

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.nodes import SLOT_COUNT, Node, nodes_of
from deploy.local_cluster.server import DURABLE, HOST, Server, free_ports
from deploy.local_cluster.waiting import until

PRIMARY_COUNT = 3
SERVER_COUNT = 2 * PRIMARY_COUNT
BUS_OFFSET = 10_000
"""Distance between the port for clients and the one for other nodes, unless it is set."""

_FORMED = "formed"
"""A file in the folder of a cluster that was formed as a whole."""

FORM_S_MAX = 30.0
LOAD_S_MAX = 600.0


class OtherPorts(Exception):
    """The folder has a cluster with other ports, which its nodes remember."""


class Cluster:
    """Three primaries, each with a replica. All methods block.

    The first three servers begin as primaries, the others as their replicas, in this order. A
    failover changes that: `nodes` has the current roles.
    """

    def __init__(
        self,
        binary: Path,
        folder: Path,
        keeper: Keeper,
        *,
        ports: Sequence[int] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Describe it only; the cluster bus of given `ports` is at these + BUS_OFFSET."""
        if ports is None:
            free = free_ports(2 * SERVER_COUNT)
            ports, bus_ports = free[:SERVER_COUNT], free[SERVER_COUNT:]
        else:
            bus_ports = [port + BUS_OFFSET for port in ports]
        self._folder = folder
        self.servers = [
            Server(
                binary,
                folder / str(port),
                keeper,
                port=port,
                options={
                    **DURABLE,
                    "cluster-enabled": "yes",
                    "cluster-port": bus_port,
                    "cluster-node-timeout": 5000,
                    "repl-diskless-sync-delay": 0,
                    **(options or {}),
                },
            )
            for port, bus_port in zip(ports, bus_ports, strict=True)
        ]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(server.address for server in self.servers)

    def open(self) -> None:
        """Start the cluster in the folder, or form a new one; return once it serves."""
        formed = self._folder / _FORMED
        if not formed.exists():  # nothing is there, or half a cluster
            for server in self.servers:
                shutil.rmtree(server.folder, ignore_errors=True)
            self.start()
            self.form()
            formed.touch()
            return
        missing = [server.port for server in self.servers if not server.folder.exists()]
        if missing:
            raise OtherPorts(f"the cluster in {self._folder} has other ports than {missing}")
        self.start()
        self.until_whole(LOAD_S_MAX)

    def start(self) -> None:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.until_answers()

    def form(self) -> None:
        primaries = self.servers[:PRIMARY_COUNT]
        for number, server in enumerate(primaries):
            first = number * SLOT_COUNT // PRIMARY_COUNT
            last = (number + 1) * SLOT_COUNT // PRIMARY_COUNT - 1
            server.run("CLUSTER", "ADDSLOTSRANGE", first, last)
        for number, server in enumerate(self.servers, 1):
            server.run("CLUSTER", "SET-CONFIG-EPOCH", number)
        for server, other in combinations(self.servers, 2):  # gossip would take longer
            server.run("CLUSTER", "MEET", HOST, other.port, other.option("cluster-port"))
        _until(self._all_know_all, FORM_S_MAX, "all nodes of the cluster know each other")
        for server, primary in zip(self.servers[PRIMARY_COUNT:], primaries, strict=True):
            server.run("CLUSTER", "REPLICATE", primary.run("CLUSTER", "MYID"))
        self.until_whole()

    def until_whole(self, within_s: float = FORM_S_MAX) -> None:
        """Wait until all servers serve, agree on the slots, and replicas are connected."""
        _until(self._is_whole, within_s, "the cluster is whole")

    def until_served(self, within_s: float = FORM_S_MAX) -> None:
        """Wait until the running servers agree that all slots are served."""
        _until(self._is_served, within_s, "the cluster serves all slots")

    def stop(self) -> None:
        for server in self.servers:
            server.ask_to_end()
        for server in self.servers:
            server.stop()

    def nodes(self) -> list[Node]:
        """Return the nodes as the first server that answers sees them."""
        for server in self.servers:
            if server.is_running:
                try:
                    return nodes_as(server)
                except redis.ConnectionError:
                    continue  # it has just ended, or is paused
        raise redis.ConnectionError("no server of the cluster answers")

    def server_of(self, node: Node) -> Server:
        return next(server for server in self.servers if server.port == node.port)

    def _all_know_all(self) -> bool:
        return all(
            len(nodes) == len(self.servers) and all(node.is_well for node in nodes)
            for nodes in map(nodes_as, self.servers)
        )

    def _is_served(self) -> bool:
        views = [nodes_as(server) for server in self.servers if server.is_running]
        owners = [{node.port: node.slots for node in view if node.slots} for view in views]
        return (
            all(view == owners[0] for view in owners)
            and all(node.is_well for view in views for node in view if node.slots)
            and all(
                server.client.cluster("info")["cluster_state"] == "ok"
                for server in self.servers
                if server.is_running
            )
        )

    def _is_whole(self) -> bool:
        if not all(server.is_running for server in self.servers) or not self._all_know_all():
            return False
        roles = [server.info("replication") for server in self.servers]
        replicas = [role for role in roles if role["role"] == "slave"]
        return (
            self._is_served()
            and len(replicas) == len(self.servers) - PRIMARY_COUNT
            and all(role["master_link_status"] == "up" for role in replicas)
        )


def nodes_as(server: Server) -> list[Node]:
    return nodes_of(str(server.run("CLUSTER", "NODES")))


def _until(condition: Callable[[], bool], within_s: float, what: str) -> None:
    """Wait for a condition; a server that cannot be asked does not meet it."""

    def holds() -> bool:
        try:
            return condition()
        except redis.RedisError:  # it loads its data, or has just ended
            return False

    until(holds, within_s, what)
