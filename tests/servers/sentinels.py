"""A primary, its replica, and sentinels that watch them."""

from __future__ import annotations

from pathlib import Path

import redis

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import DURABLE, HOST, Server, free_ports
from deploy.local_cluster.waiting import until

EVENT_S_MAX = 30.0
NAME = "streams"
ASK_MS = 100
# A sentinel promotes a replica that it has heard of within five of these. While the primary is
# down it asks replicas once a second, however short the other periods are.
PING_MS = 300


class SentinelSet:
    """A primary, a replica, and sentinels that make the replica the primary if it is gone.

    All methods block. The first server begins as the primary.
    """

    def __init__(
        self,
        binary: Path,
        folder: Path,
        keeper: Keeper,
        *,
        sentinel_count: int = 1,
        down_after_ms: int = 500,
    ) -> None:
        """Describe the servers; nothing is started.

        Args:
            binary: `redis-server` or `valkey-server`, which are sentinels too.
            folder: where each server gets a folder, named after its port.
            keeper: ends the servers when this process is gone.
            sentinel_count: how many there are; more than half of them decide.
            down_after_ms: how long a primary is silent before a sentinel says that it is down.
        """
        primary, replica, *ports = free_ports(2 + sentinel_count)
        self._folder = folder
        self._quorum = sentinel_count // 2 + 1
        self._down_after_ms = down_after_ms
        no_wait = {**DURABLE, "repl-diskless-sync-delay": 0}
        follows = {**no_wait, "replicaof": f"{HOST} {primary}"}
        self.servers = [
            Server(binary, folder / str(primary), keeper, port=primary, options=no_wait),
            Server(binary, folder / str(replica), keeper, port=replica, options=follows),
        ]
        self.sentinels = [
            Server(
                binary,
                folder / str(port),
                keeper,
                port=port,
                options={},
                words=["sentinel.conf", "--sentinel"],
            )
            for port in ports
        ]

    @property
    def url(self) -> str:
        """Return the URL for `--backend`."""
        addresses = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{addresses}/{NAME}"

    def start(self) -> None:
        """Start all, and return once the sentinels know the replica and each other."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.until_answers()
        for sentinel in self.sentinels:
            self._configure(sentinel)
            sentinel.launch()
        for sentinel in self.sentinels:
            sentinel.until_answers()
            # How often it asks the others how they are: what it has seen decides who is promoted.
            for period in ["INFO-PERIOD", "PUBLISH-PERIOD"]:
                sentinel.run("SENTINEL", "DEBUG", period, ASK_MS)
            sentinel.run("SENTINEL", "DEBUG", "PING-PERIOD", PING_MS)
            # A busy machine stops it for a moment. It would do nothing for 30 s after that.
            sentinel.run("SENTINEL", "DEBUG", "TILT-PERIOD", ASK_MS)
        until(self._is_whole, EVENT_S_MAX, "the sentinels know the replica and each other")

    def stop(self) -> None:
        """Ask all to end, and return once they have."""
        for server in [*self.sentinels, *self.servers]:
            server.ask_to_end()
        for server in [*self.sentinels, *self.servers]:
            server.stop()

    def primary(self) -> Server:
        """Return the primary as the first sentinel sees it."""
        words = self.sentinels[0].run("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        assert isinstance(words, list | tuple)
        port = int(words[1])
        return next(server for server in self.servers if server.port == port)

    def fail_over(self) -> Server:
        """Have the sentinels make the replica the primary, and return it."""
        before = self.primary()
        until(self._is_ordered, EVENT_S_MAX, "a sentinel agrees to a failover")
        return self.until_other_primary(before)

    def until_other_primary(self, before: Server) -> Server:
        """Return the primary once it is another server than before, and takes changes."""

        def has_changed() -> bool:
            primary = self.primary()
            return primary is not before and primary.info("replication")["role"] == "master"

        until(has_changed, EVENT_S_MAX, "there is another primary")
        return self.primary()

    def mend(self) -> None:
        """Start killed servers and resume paused ones; return once the replica follows."""
        for server in [*self.servers, *self.sentinels]:
            if server.is_running:
                server.resume()
            else:
                server.start()
        until(self._is_whole, EVENT_S_MAX, "the replica follows")

    def _is_ordered(self) -> bool:
        """Order a failover; False if the sentinel has not seen yet how well the replica is."""
        try:
            self.sentinels[0].run("SENTINEL", "FAILOVER", NAME)
        except redis.ResponseError as error:
            if "NOGOODSLAVE" in str(error):
                return False
            raise
        return True

    def _configure(self, sentinel: Server) -> None:
        sentinel.folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"sentinel monitor {NAME} {HOST} {self.servers[0].port} {self._quorum}",
            f"sentinel down-after-milliseconds {NAME} {self._down_after_ms}",
            f"sentinel failover-timeout {NAME} {4 * self._down_after_ms}",
        ]
        (sentinel.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")

    def _is_whole(self) -> bool:
        info = self.primary().info("replication")
        views = [sentinel.info("sentinel")["master0"] for sentinel in self.sentinels]
        return (
            info["role"] == "master"
            and "online" in str(info.get("slave0"))
            and all(
                isinstance(view, dict)
                and view["status"] == "ok"
                and view["slaves"] == 1
                and view["sentinels"] == len(self.sentinels)
                for view in views
            )
        )
