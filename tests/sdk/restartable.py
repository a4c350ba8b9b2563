"""A gateway that is stopped and started again, for clients that go on."""

from pathlib import Path

import httpx

from deploy.local_cluster.server import free_ports
from tests.processes.gateway import Gateway


class Restartable:
    """A gateway that keeps its address and its data from one life to the next."""

    def __init__(self, data_dir: Path) -> None:
        [port] = free_ports(1)
        self._settings = {"port": port}
        self._data_dir = data_dir
        self._gateway: Gateway | None = None

    @property
    def url(self) -> str:
        assert self._gateway is not None
        return self._gateway.url

    async def start(self) -> None:
        self._gateway = await Gateway.start(self._data_dir, self._settings)

    async def stop(self) -> None:
        assert self._gateway is not None
        await self._gateway.stop()
        self._gateway = None

    async def append(self, count: int) -> list[str]:
        batch = [{"fields": {"n": str(number)}} for number in range(count)]
        async with httpx.AsyncClient(base_url=self.url) as client:
            answer = await client.post("/v1/streams/talk/entries/batch", json=batch)
        assert answer.status_code == 201, answer.text
        ids: list[str] = answer.json()["ids"]
        return ids

    def kill(self) -> None:
        if self._gateway is not None:
            self._gateway.kill_now()
