"""Several gateways over a cluster, and a group in order by key."""

from __future__ import annotations

from typing import Any

from tests.crash.key_chaos import KeyedChaos
from tests.model.wire.servers import free_port
from tests.outages.chaos import GATEWAY_COUNT, ClusterChaos


class KeyClusterChaos(KeyedChaos, ClusterChaos):
    """A chaos of servers and gateways, with entries of so many keys."""

    def __init__(self, *args: Any, key_count: int, at_once: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ports = [free_port() for _ in range(GATEWAY_COUNT)]
        self.begin_keys(key_count, at_once, list(zip(self._places, self._ports, strict=True)))

    def own_settings(self, number: int) -> dict[str, object]:
        return {"redis_port": self._ports[number]}
