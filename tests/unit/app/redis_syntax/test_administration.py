"""Commands about the server: INFO, CONFIG, SLOWLOG, saving and WAITAOF."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis._parsers.helpers import parse_info

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.redis_syntax.errors import error_text
from headgate.app.redis_syntax.replies import Verbatim
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.runtime.server_facts import ConnectionFacts, ServerSettings
from headgate.engine.errors import StreamError
from headgate.engine.journal.writer import FsyncPolicy
from tests.running import running

FACTS = ConnectionFacts(6379, 3, 7, 1, 1000, 2000)
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


async def test_info_has_what_exporters_read(commands: CommandRunner) -> None:
    commands.attach(SETTINGS, lambda: FACTS)
    await say(commands, "XADD s * f v")

    facts = await info(commands)

    assert len(facts["run_id"]) == 40
    assert (facts["tcp_port"], facts["connected_clients"]) == (6379, 3)
    assert (facts["total_connections_received"], facts["rejected_connections"]) == (7, 1)
    assert (facts["total_net_input_bytes"], facts["total_net_output_bytes"]) == (1000, 2000)
    assert (facts["maxmemory"], facts["maxclients"]) == (2**30, 100)
    assert 0 < facts["used_memory"] < facts["used_memory_rss"] <= facts["total_system_memory"]
    assert (facts["aof_enabled"], facts["aof_last_write_status"]) == (1, "ok")
    assert facts["aof_current_size"] > 0
    assert (facts["rdb_bgsave_in_progress"], facts["rdb_last_bgsave_status"]) == (0, "ok")
    assert (facts["role"], facts["connected_slaves"]) == ("master", 0)
    assert facts["used_cpu_user"] > 0
    assert facts["db0"]["keys"] == 1
    assert facts["cmdstat_xadd"]["calls"] == 1


async def test_config_shows_the_settings(commands: CommandRunner) -> None:
    commands.attach(SETTINGS, None)
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


async def test_slow_commands_of_a_pipeline_are_kept(commands: CommandRunner) -> None:
    await say(commands, "CONFIG SET slowlog-log-slower-than 0")
    await say(commands, "SLOWLOG RESET")
    await commands.run_each([[b"XLEN", b"s"], [b"XREAD", b"STREAMS", b"s", b"0"]])
    assert [each[3] for each in await say(commands, "SLOWLOG GET")] == [
        [b"XLEN", b"s"],
        [b"SLOWLOG", b"RESET"],
    ]
    await commands.run_each([[b"XADD", b"s", b"*", b"f", b"%d" % n] for n in range(3)])
    [latest] = await say(commands, "SLOWLOG GET 1")
    assert latest[3] == [b"XADD", b"s", b"*", b"f", b"0"]


async def test_what_test_suites_begin_with_removes_nothing(commands: CommandRunner) -> None:
    await say(commands, "XADD s * f v")
    for line in ("FUNCTION FLUSH", "SCRIPT FLUSH async", "CONFIG RESETSTAT"):
        assert (line, await say(commands, line)) == (line, "OK")
    assert await say(commands, "XLEN s") == 1


async def test_waitaof_waits_until_the_journal_is_synced(
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


async def test_saving_rewrites_the_journal(
    backend: EmbeddedBackend, commands: CommandRunner
) -> None:
    assert backend.journal is not None
    began_s = await say(commands, "LASTSAVE")
    await say(commands, "XADD s * f v")
    assert await say(commands, "SAVE") == "OK"
    assert backend.journal.status.rewrite_count == 1
    assert (await info(commands))["rdb_changes_since_last_save"] == 0
    assert await say(commands, "LASTSAVE") >= began_s
    assert await say(commands, "BGREWRITEAOF") == "Background append only file rewriting started"
    assert await say(commands, "BGSAVE") == "ERR Background save already in progress"
