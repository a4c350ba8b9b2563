"""A cluster whose servers fail, change their roles and move their slots as a test says.

All methods block until what they ask for has happened: a test with an event loop calls them with
`asyncio.to_thread`. None of them needs pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis

from deploy.local_cluster.cluster import Cluster, nodes_as
from deploy.local_cluster.nodes import Node
from deploy.local_cluster.server import HOST, Server
from deploy.local_cluster.waiting import until

FAILOVER_S_MAX, FAILOVERS_MAX = 7.0, 6
EVENT_S_MAX = 30.0
KEYS_AT_ONCE = 100
MIGRATE_MS_MAX = 10_000


class FailingCluster(Cluster):
    """A cluster that is told what fails."""

    # Who is what

    def slot_of(self, key: str) -> int:
        """Return the slot of a key."""
        return int(str(self._running().run("CLUSTER", "KEYSLOT", key)))

    def primary_of(self, key: str) -> Server:
        """Return the server that serves a key."""
        return self.owner_of(self.slot_of(key))

    def owner_of(self, slot: int) -> Server:
        """Return the server that serves a slot."""
        return self.server_of(self._owner(slot))

    def replica_of(self, primary: Server) -> Server:
        """Return a replica of a server that is a primary."""
        nodes = self.nodes()
        owner = next(node for node in nodes if node.port == primary.port)
        return self.server_of(next(node for node in nodes if node.primary_id == owner.id))

    def primaries(self) -> list[Server]:
        """Return the servers that have slots."""
        return [self.server_of(node) for node in self.nodes() if node.is_primary and node.slots]

    def other_primary(self, server: Server) -> Server:
        """Return a primary that is not this one."""
        return next(primary for primary in self.primaries() if primary is not server)

    # What happens to it

    def set_node_timeout(self, node_timeout_ms: int) -> None:
        """Set the silence after which the nodes count one of them as failed."""
        for server in self.servers:
            server.run("CONFIG", "SET", "cluster-node-timeout", node_timeout_ms)

    def kill_primary(self, key: str) -> Server:
        """Kill the server of a key, and return it; its replica takes over in a while.

        `until_served` waits for that, and `start` of the server and `until_whole` mend it.
        """
        server = self.primary_of(key)
        server.kill()
        return server

    def fail_over(self, key: str) -> Server:
        """Make the replica of a key its primary, which loses nothing; return the new primary."""
        replica = self.replica_of(self.primary_of(key))
        for attempts_left in reversed(range(FAILOVERS_MAX)):
            replica.run("CLUSTER", "FAILOVER")
            try:
                until(lambda: _is_primary(replica), FAILOVER_S_MAX, f"{replica.address} takes over")
            except TimeoutError:  # servers give it up after 5 s: the replica was far behind
                if not attempts_left:
                    raise
            else:
                break
        self.until_whole()
        # A busy machine takes seconds for that, and the gateway waits no longer for a replica.
        until(lambda: _has_replica(replica), FAILOVER_S_MAX, f"{replica.address} has a replica")
        return replica

    def move_slot(self, slot: int, target: Server | None = None) -> Server:
        """Move a slot with its keys to another primary, and return that."""
        move = SlotMove(self, slot, target or self.other_primary(self.owner_of(slot)))
        move.begin()
        move.move_keys()
        move.end()
        return move.target

    @contextmanager
    def paused(self, server: Server) -> Iterator[None]:
        """Keep a server from running while the context lasts."""
        server.pause()
        try:
            yield
        finally:
            server.resume()

    def mend(self) -> None:
        """Start killed servers and resume paused ones; return once the cluster is whole."""
        for server in self.servers:
            if server.is_running:
                server.resume()
            else:
                server.start()
        self.until_whole()

    def flush(self) -> None:
        """Remove all keys and all functions."""
        for server in self.primaries():
            flush(server)

    def _owner(self, slot: int) -> Node:
        owners = [node for node in self.nodes() if node.owns(slot)]
        if not owners:  # no `StopIteration`: a thread could not hand that on
            raise LookupError(f"no server has slot {slot} at the moment")
        return owners[0]

    def _running(self) -> Server:
        return next(server for server in self.servers if server.is_running)


@dataclass
class SlotMove:
    """A slot on its way to another primary, in steps.

    Between `begin` and `end` the source answers ASK for a key that it has no more, and TRYAGAIN for
    several keys of which some have moved. After `end` it answers MOVED.
    """

    cluster: FailingCluster
    slot: int
    target: Server

    def __post_init__(self) -> None:
        """Note the owner of the slot."""
        self.source = self.cluster.owner_of(self.slot)
        assert self.source is not self.target

    def begin(self) -> None:
        """Let both servers know that the slot is on its way."""
        source_id, target_id = (server.run("CLUSTER", "MYID") for server in self._both())
        self.target.run("CLUSTER", "SETSLOT", self.slot, "IMPORTING", source_id)
        self.source.run("CLUSTER", "SETSLOT", self.slot, "MIGRATING", target_id)

    def move_keys(self, count: int | None = None) -> None:
        """Move so many keys of the slot, or all."""
        limit = KEYS_AT_ONCE if count is None else count
        while keys := self._keys(limit):
            self._migrate(keys)
            if count is not None:
                return

    def end(self) -> None:
        """Give the slot to its new owner, and return once all servers know it."""
        target_id = self.target.run("CLUSTER", "MYID")
        for server in [self.target, self.source]:
            server.run("CLUSTER", "SETSLOT", self.slot, "NODE", target_id)
        until(self._is_known, EVENT_S_MAX, f"all know the owner of slot {self.slot}")

    def _both(self) -> tuple[Server, Server]:
        return self.source, self.target

    def _keys(self, limit: int) -> list[bytes]:
        with redis.Redis(HOST, self.source.port) as client:  # a key need not be text
            keys = client.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, limit)
        return list(keys)

    def _migrate(self, keys: list[bytes]) -> None:
        words = [HOST, self.target.port, "", 0, MIGRATE_MS_MAX, "KEYS", *keys]
        self.source.run("MIGRATE", *words)

    def _is_known(self) -> bool:
        views = [nodes_as(server) for server in self.cluster.servers if server.is_running]
        owners = {node.port for view in views for node in view if node.owns(self.slot)}
        return owners == {self.target.port}


# What happens to any server


def cut_connections(server: Server, kind: str = "normal") -> int:
    """Cut the connections of a kind (normal, pubsub, replica), but not ours; return their count."""
    return int(str(server.run("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")))


def cut_tracking(server: Server) -> int:
    """Cut the connections that are told which keys change, and return their count."""
    tracking = [client["id"] for client in server.client.client_list() if "t" in client["flags"]]
    return sum(int(str(server.run("CLIENT", "KILL", "ID", each))) for each in tracking)


def until_replicas(server: Server, count: int = 1) -> None:
    """Return once so many replicas follow a primary."""

    def follow() -> bool:
        info = server.info("replication")
        states = [str(info.get(f"slave{number}")) for number in range(count)]
        return all("online" in state for state in states)

    until(follow, EVENT_S_MAX, f"{server.address} has {count} replicas")


def flush(server: Server) -> None:
    """Remove all keys and all functions of a server."""
    server.run("FLUSHALL")
    server.run("FUNCTION", "FLUSH")


def _has_replica(server: Server) -> bool:
    replica = server.info("replication").get("slave0")
    return isinstance(replica, dict) and replica["state"] == "online"


def _is_primary(server: Server) -> bool:
    return server.info("replication")["role"] == "master"
