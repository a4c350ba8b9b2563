"""A gateway follows its keys file, whatever happens to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.app.auth.key_file import ApiKey, KeyText, change_keys, make_key, read_use
from headgate.app.auth.key_ring import KeyWatch
from headgate.app.auth.principal import Principal, Unauthenticated
from tests.conditions import until

NOW_MS = 1_700_000_000_000


class Gateway:
    """A key watch that runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        self.now_ms = NOW_MS
        self.appeared = 0
        self.watch = self.new_watch()
        self.task: asyncio.Task[None] | None = None

    def new_watch(self) -> KeyWatch:
        return KeyWatch(
            self.path, data_dir=self.data_dir, now_ms=lambda: self.now_ms, on_appear=self.appear
        )

    def appear(self) -> None:
        self.appeared += 1

    def start(self) -> None:
        self.watch.load()
        self.task = asyncio.create_task(self.watch.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task

    def add(self, **more: object) -> KeyText:
        text = make_key()
        values = {"id": text.id, "name": "a", "sha256": text.sha256, "grants": []}
        key = ApiKey.model_validate({**values, "created_at_ms": NOW_MS, **more})
        change_keys(self.path, lambda keys: keys.update({text.id: key}))
        return text

    def principal(self, text: KeyText) -> Principal:
        return self.watch.ring.verify(str(text), self.now_ms)

    def takes(self, text: KeyText) -> bool:
        with suppress(Unauthenticated):
            return self.principal(text) is not None
        return False


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    await gateway.stop()


async def test_a_file_that_appears_is_followed(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.start()
    assert not gateway.watch.ring.is_configured
    assert gateway.watch.warning is None

    text = gateway.add()
    await until(lambda: gateway.takes(text))

    assert gateway.appeared == 1
    assert gateway.watch.ring.is_configured
    assert "requires credentials" in caplog.text
    principal, other = gateway.principal(text), gateway.add(expires_at_ms=NOW_MS + 1)
    await until(lambda: gateway.takes(other))
    assert gateway.principal(text) is principal
    change_keys(gateway.path, lambda keys: keys.__delitem__(text.id))
    await until(lambda: principal.ending)
    assert not gateway.takes(text)
    expiring = gateway.principal(other)
    gateway.now_ms += 1
    await until(lambda: expiring.ending)


async def test_a_link_that_is_exchanged_is_followed(gateway: Gateway, tmp_path: Path) -> None:
    """Kubernetes keeps the files of a secret behind a link to a folder."""
    text = gateway.add()
    first = tmp_path / "..2026_01"
    second = tmp_path / "..2026_02"
    for folder in first, second:
        folder.mkdir()
    gateway.path.rename(first / "keys.json")
    (tmp_path / "..data").symlink_to(first)
    gateway.path.symlink_to("..data/keys.json")
    gateway.start()
    assert gateway.takes(text)

    (second / "keys.json").write_text('{"version": 1, "keys": []}')
    (tmp_path / "..new").symlink_to(second)
    (tmp_path / "..new").rename(tmp_path / "..data")

    await until(lambda: not gateway.takes(text))


async def test_the_time_of_use_is_there_after_a_restart(gateway: Gateway) -> None:
    text, _ = gateway.add(), gateway.add()
    gateway.start()
    gateway.now_ms += 5
    gateway.principal(text)
    await gateway.stop()
    await gateway.watch.close()
    assert read_use(gateway.data_dir) == {text.id: NOW_MS + 5}

    again = gateway.new_watch()
    again.load()

    assert again.ring.used_at_ms == {text.id: NOW_MS + 5}


async def test_an_unsaved_time_stops_nothing(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    text = gateway.add()
    (gateway.data_dir / "keys-used.json").mkdir()
    gateway.start()
    gateway.principal(text)
    await gateway.stop()

    await gateway.watch.close()

    assert "last use of keys could not be saved" in caplog.text
    assert gateway.takes(text)
