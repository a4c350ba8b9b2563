"""The entries of a stream that the replica surely has, found out again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis import Redis, RedisError

from deploy.local_cluster.server import HOST
from tests.processes.ledger import Moment
from tests.servers.failures import FailingCluster

LOOK_S = 0.01
WAIT_MS_MAX = 100
ANSWER_S_MAX = 2.0
"""A primary that steps down while it holds writes back may never answer."""


class ReplicaProbe:
    """Writes at the primary of a stream, and waits until its replica has that.

    A replica gets changes in the order of its primary. So it has everything then that was answered
    before the probe was sent.
    """

    def __init__(self, cluster: FailingCluster, key: str, now: Callable[[], Moment]) -> None:
        """Get ready.

        Args:
            cluster: has the stream.
            key: of the stream.
            now: returns the moment that is now.
        """
        self.safe = now()
        self._cluster = cluster
        self._key = key
        self._now = now
        self._client: Redis | None = None  # for the primary, used by one thread at a time

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            now = self._now()
            if await asyncio.to_thread(self._reaches_replica):
                self.safe = now
            await asyncio.sleep(LOOK_S)

    async def until_safe(self) -> None:
        """Return once the replica has everything that is answered by now."""
        now = self._now()
        while self.safe < now:
            await asyncio.sleep(LOOK_S)

    def _reaches_replica(self) -> bool:
        try:
            if self._client is None:
                port = self._cluster.primary_of(self._key).port
                self._client = Redis(HOST, port, socket_timeout=ANSWER_S_MAX)
            with self._client.pipeline(transaction=False) as pipe:
                pipe.set(f"{{{self._key}}}probe", "")
                pipe.wait(1, WAIT_MS_MAX)
                _, replica_count = pipe.execute()
        except (RedisError, LookupError):
            if self._client is not None:
                self._client.close()
            self._client = None  # another one is the primary, or none is at the moment
            return False
        return bool(replica_count)
