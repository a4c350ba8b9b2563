"""Login of Redis clients: keys as passwords, and the few rights of strangers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.resp.talk import Talk, command
from tests.key_files import EVERYTHING, Keys

NO_AUTH = b"-NOAUTH Authentication required.\r\n"
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
OK = b"+OK\r\n"
NEWS = Grant(streams=["news*"], do=[Verb.READ, Verb.APPEND], create=True)


class Guarded(NamedTuple):
    live: Live
    keys: Keys
    root: str
    key: str  # of NEWS

    async def talk(self) -> Talk:
        return await Talk.open(self.live.redis_port)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    keys = Keys(tmp_path / "keys.json")
    root = await asyncio.to_thread(keys.add, EVERYTHING)
    key = await asyncio.to_thread(keys.add, NEWS)
    settings = Settings(redis_port=0, keys_file=keys.path)
    async with running(settings) as live:
        yield Guarded(live, keys, root, key)


async def test_a_stranger_may_only_say_who_it_is(guarded: Guarded) -> None:
    talk = await guarded.talk()
    for line in (
        b"PING",
        b"XADD news 1-1 a b",
        b"MULTI",
        b"CLIENT ID",
        b"XREAD BLOCK 0 STREAMS s 0",
    ):
        await talk.say(line + b"\r\n", NO_AUTH)
    talk.send(b"HELLO 3\r\n")
    assert (await talk.line()).startswith(b"-NOAUTH HELLO must be called with the client already")
    await talk.say(
        command("ECHO", "x" * 16_385)[:30], b"-ERR Protocol error: unauthenticated bulk length\r\n"
    )
    await talk.hear_end()


@pytest.mark.parametrize("form", ["token", "default token", "id token", "id secret"])
async def test_a_key_is_a_password(guarded: Guarded, form: str) -> None:
    key, key_id = guarded.key, guarded.keys.ids[guarded.key]
    words = {
        "token": [key],
        "default token": ["default", key],
        "id token": [key_id, key],
        "id secret": [key_id, key.removeprefix(f"hg_{key_id}_")],
    }[form]
    talk = await guarded.talk()
    await talk.say(command("AUTH", *words), OK)
    await talk.say(b"XADD news 1-1 a b\r\n", b"$3\r\n1-1\r\n")
    refusal = b"-NOPERM This needs append on 'other', and the credential does not allow it.\r\n"
    await talk.say(b"XADD other 1-1 a b\r\n", refusal)
    await talk.close()


async def test_a_wrong_password_changes_nothing(guarded: Guarded) -> None:
    talk = await guarded.talk()
    await talk.say(command("AUTH", guarded.key), OK)
    for words in (["x"], ["other", guarded.key], ["default", guarded.key + "a"]):
        await talk.say(command("AUTH", *words), WRONG)
    await talk.say(b"XLEN news\r\n", b":0\r\n")
    await talk.close()


async def test_a_connection_ends_with_its_key(guarded: Guarded) -> None:
    talk = await guarded.talk()
    await talk.say(command("AUTH", guarded.key), OK)
    talk.send(b"XREAD BLOCK 0 STREAMS news $\r\n")
    await asyncio.to_thread(guarded.keys.revoke, guarded.key)
    await talk.hear(b"*-1\r\n")
    await talk.hear_end()


async def test_only_an_admin_sees_and_ends_other_clients(guarded: Guarded) -> None:
    talk, admin = await guarded.talk(), await guarded.talk()
    await talk.say(command("AUTH", guarded.key), OK)
    await admin.say(command("AUTH", guarded.root), OK)
    for line in (b"CLIENT LIST\r\n", b"CLIENT KILL ID 1\r\n", b"CLIENT PAUSE 1\r\n"):
        talk.send(line)
        assert (await talk.line()).startswith(b"-NOPERM This needs admin")
    await admin.say(b"CLIENT KILL ID 1\r\n", b":1\r\n")
    await talk.hear_end()
    await admin.close()


async def test_commands_count_as_requests(guarded: Guarded) -> None:
    limits = UsageLimits(requests_per_s_max=5)
    key = await asyncio.to_thread(guarded.keys.add, EVERYTHING, name="slow", limits=limits)
    talk = await guarded.talk()
    while True:  # the gateway notices the new key within a second
        talk.send(command("AUTH", key))
        if await talk.line() == b"+OK":
            break
    began_s = asyncio.get_running_loop().time()
    for _ in range(10):
        await talk.say(b"XLEN s\r\n", b":0\r\n")
    assert asyncio.get_running_loop().time() - began_s > 0.7  # five at once, then five in a second
    await talk.close()
