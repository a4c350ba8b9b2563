"""Commands about the server: INFO, CONFIG, SLOWLOG, saving and WAITAOF."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis._parsers.helpers import parse_info

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.redis_syntax.administration.information import ServerSettings
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import Verbatim
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.errors import StreamError
from headgate.engine.journal.writer import FsyncPolicy
from tests.running import running

SETTINGS = ServerSettings(
    host="0.0.0.0",
    port=6379,
    has_journal=True,
    fsync="everysec",
    memory_bytes_max=2**30,
    connections_max=100,
)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[EmbeddedBackend]:
    options = EmbeddedOptions(tmp_path, FsyncPolicy.EVERYSEC)
    async with running(open_embedded(options)) as backend:
        yield backend


@pytest.fixture
def commands(backend: EmbeddedBackend) -> CommandRunner:
    return CommandRunner(backend)


async def say(commands: CommandRunner, line: str) -> Any:
    try:
        return await commands.run(line.encode().split())
    except StreamError as error:
        return error_text(error)


async def info(commands: CommandRunner) -> dict[str, Any]:
    """Return INFO as redis-py understands it."""
    text = await say(commands, "INFO everything")
    assert isinstance(text, Verbatim)
    facts: dict[str, Any] = parse_info(text)  # type: ignore[no-untyped-call]
    return facts


async def config(commands: CommandRunner, pattern: str) -> dict[bytes, bytes]:
    flat = await say(commands, f"CONFIG GET {pattern}")
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def test_config_shows_the_settings(commands: CommandRunner) -> None:
    commands.server.attach(SETTINGS, None)
    shown = await config(commands, "*")
    assert shown[b"maxmemory"] == b"1073741824"
    assert (shown[b"appendonly"], shown[b"appendfsync"]) == (b"yes", b"everysec")
    assert (shown[b"port"], shown[b"bind"]) == (b"6379", b"0.0.0.0")
    assert b"requirepass" not in shown
    assert await config(commands, "maxmemor?") == {b"maxmemory": b"1073741824"}


async def test_slow_commands_are_kept(commands: CommandRunner) -> None:
    assert await say(commands, "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2") == "OK"
    for number in range(3):
        await say(commands, f"XADD s {number + 1} f {'x' * 200}")
    kept = await say(commands, "SLOWLOG GET")
    assert [command[3][2] for command in kept] == [b"3", b"2"]
    assert [command[0] for command in kept] == sorted((each[0] for each in kept), reverse=True)
    assert kept[0][3][4] == b"x" * 128 + b"... (72 more bytes)"
    await say(commands, "CONFIG SET slowlog-log-slower-than -1")
    assert await say(commands, "SLOWLOG RESET") == "OK"
    assert await say(commands, "SLOWLOG LEN") == 0


async def test_waitaof_waits_for_the_journal(
    backend: EmbeddedBackend, commands: CommandRunner
) -> None:
    assert backend.journal is not None
    await say(commands, "XADD s * f v")
    assert await say(commands, "WAITAOF 1 0 0") == [1, 0]
    status = backend.journal.status
    assert status.synced_position == status.position > 0
    assert await say(commands, "WAITAOF 2 0 0") == (
        "ERR value is out of range, value must between 0 and 1"
    )


async def test_waitaof_needs_a_journal() -> None:
    async with running(open_embedded(EmbeddedOptions(None))) as backend:
        commands = CommandRunner(backend)
        text = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
        assert await say(commands, "WAITAOF 1 0 0") == text
        assert await say(commands, "WAITAOF 0 0 0") == [0, 0]
        assert await say(commands, "BGSAVE") == "ERR there is no journal here to rewrite"


async def test_saving_rewrites_journals(backend: EmbeddedBackend, commands: CommandRunner) -> None:
    assert backend.journal is not None
    began_s = await say(commands, "LASTSAVE")
    await say(commands, "XADD s * f v")
    assert await say(commands, "SAVE") == "OK"
    assert backend.journal.status.rewrite_count == 1
    assert (await info(commands))["rdb_changes_since_last_save"] == 0
    assert await say(commands, "LASTSAVE") >= began_s
    assert await say(commands, "BGREWRITEAOF") == "Background append only file rewriting started"
    assert await say(commands, "BGSAVE") == "ERR Background save already in progress"
