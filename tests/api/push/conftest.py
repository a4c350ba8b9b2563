"""A group, and a receiver to which it is pushed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from headgate.app.settings import Settings
from tests.api.conftest import Live
from tests.conditions import eventually
from tests.receiver import Receiver

GROUP = "/v1/streams/orders/groups/billing"
PUSH = f"{GROUP}/push"
OK = "200 OK", b""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    key = tmp_path / "push.key"
    key.write_bytes(Fernet.generate_key())
    return Settings(
        heartbeat_ms=200, push_allow=["127.0.0.0/8"], push_identity="test", push_key_file=key
    )


@pytest.fixture
async def receiver(live: Live) -> AsyncIterator[Receiver]:
    receiver = Receiver(OK)
    await receiver.open()
    await live.create_group("orders", "billing")
    yield receiver
    await live.http.delete("/v1/streams/orders")
    await receiver.close()


async def put(live: Live, receiver: Receiver, **more: Any) -> Any:
    return await live.ask(f"PUT {PUSH}", {"url": receiver.url, **more})


async def policy(live: Live, **settings: Any) -> None:
    await live.ask(f"PATCH {GROUP}", {"policy": settings})


async def described(live: Live) -> Any:
    return await live.ask(f"GET {PUSH}")


async def until_settled(live: Live, count: int) -> None:
    """Wait until the group has nothing pending and has read so many entries."""
    await eventually(
        lambda: live.group("orders", "billing"),
        lambda group: (group["pending"], group["entries_read"]) == (0, count),
    )


async def until_state(live: Live, state: str) -> dict[str, Any]:
    return await eventually(lambda: described(live), lambda push: push["state"] == state)
