"""The answer to malformed bytes is a redis-server's, to the byte.

And a connection ends where it ends there. `test_cuts` cuts what is sent.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from tests.key_files import EVERYTHING, Keys
from tests.model.wire.exchange import PATIENCE_S, QUIET_S, Answer, exchanged
from tests.model.wire.malformed import CASES, OTHERWISE, OTHERWISE_TO_STRANGERS, STRANGERS
from tests.model.wire.servers import gateway_port, server_port

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None and not os.environ.get("CI"),
    reason="there is no redis-server",
)

ROOT = Path(__file__).parents[3]

AT_ONCE = 60
SHORT_BYTES_MAX = 200


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Yield the ports of a redis-server and of the gateway."""
    with server_port() as theirs, gateway_port() as ours:
        yield theirs, ours


async def differences(
    ports: tuple[int, int], cases: Iterable[tuple[list[bytes], list[bytes]]]
) -> list[tuple[bytes, Answer, Answer]]:
    """Return the cases that are answered otherwise, with both answers."""
    room = asyncio.Semaphore(AT_ONCE)
    differing = []

    async def compare(to_them: list[bytes], to_us: list[bytes]) -> None:
        async with room:
            answers = await both(to_them, to_us, QUIET_S)
            if answers[0] != answers[1]:  # the machine may be busy
                answers = await both(to_them, to_us, PATIENCE_S)
            if answers[0] != answers[1]:
                differing.append((b"|".join(to_us)[:200], *answers))

    async def both(
        to_them: list[bytes], to_us: list[bytes], quiet_s: float
    ) -> tuple[Answer, Answer]:
        theirs = await exchanged(ports[0], to_them, quiet_s=quiet_s)
        length = len(theirs.output)
        return theirs, await exchanged(ports[1], to_us, length=length, quiet_s=quiet_s)

    await asyncio.gather(*(compare(*case) for case in cases))
    return differing


@pytest.mark.parametrize("hello", [b"", b"HELLO 3 SETNAME a\r\nCLIENT REPLY ON\r\n"])
async def test_what_is_malformed_is_answered_alike(ports: tuple[int, int], hello: bytes) -> None:
    if hello:
        cases = [[data] for data in CASES if len(data) <= SHORT_BYTES_MAX]
        parted = await said_after(ports, hello, cases)
    else:
        parted = await differences(ports, (([data], [data]) for data in CASES))
    assert not parted, parted


async def said_after(
    ports: tuple[int, int], hello: bytes, cases: list[list[bytes]]
) -> list[tuple[bytes, Answer, Answer]]:
    """Compare the answers after a handshake. Its own reply differs by version and number."""
    room = asyncio.Semaphore(AT_ONCE)
    differing = []

    async def compare(case: list[bytes]) -> None:
        async with room:
            theirs, ours = await both(case, QUIET_S)
            if theirs != ours:  # the machine may be busy
                theirs, ours = await both(case, PATIENCE_S)
            if theirs != ours:
                differing.append((b"".join(case), theirs, ours))

    async def both(case: list[bytes], quiet_s: float) -> list[Answer]:
        data = hello + b"".join(case)
        return [ended(await exchanged(port, [data], quiet_s=quiet_s)) for port in ports]

    def ended(answer: Answer) -> Answer:
        return answer._replace(output=answer.output.split(b"modules\r\n*0\r\n", 1)[-1])

    await asyncio.gather(*map(compare, cases))
    return differing


async def test_what_is_said_to_be_answered_otherwise_is(ports: tuple[int, int]) -> None:
    assert not await answered_alike(ports, OTHERWISE)


async def answered_alike(ports: tuple[int, int], cases: Collection[bytes]) -> list[bytes]:
    """Return the cases to which both answer the same."""
    theirs, ours = [
        await asyncio.gather(*(exchanged(port, [data]) for data in cases)) for port in ports
    ]
    return [data for data, *both in zip(cases, theirs, ours, strict=True) if both[0] == both[1]]


def test_users_are_told_what_is_answered_otherwise() -> None:
    page = (ROOT / "app/resp/README.md").read_text("utf-8")
    _, _, table = page.partition("## What is answered otherwise")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if "|" in line]
    named = [*OTHERWISE.values(), *OTHERWISE_TO_STRANGERS.values()]
    assert rows[2:] == list(dict.fromkeys(named))


async def test_a_client_that_ends_its_side_hears_all_replies(ports: tuple[int, int]) -> None:
    adds = b"".join(b"XADD half 0-%d a b\r\n" % seq for seq in range(1, 5_001))
    for data in (b"PING\r\n", b"ECHO a\r\nECH", adds + b"XLEN half\r\nDEL half\r\n"):
        theirs, ours = [
            await exchanged(port, [data], half_closes=True, quiet_s=PATIENCE_S) for port in ports
        ]
        assert ours == theirs
        assert ours.is_over


async def test_a_stranger_is_answered_as_redis_does(tmp_path: Path) -> None:
    secret = Keys(tmp_path / "keys.json").add(EVERYTHING).encode()
    cases = [
        ([data.replace(b"SECRET", b"word")], [data.replace(b"SECRET", secret)])
        for data in STRANGERS
    ]
    with (
        server_port("--requirepass", "word") as theirs,
        gateway_port("--keys-file", str(tmp_path / "keys.json")) as ours,
    ):
        parted = await differences((theirs, ours), cases)
        alike = await answered_alike((theirs, ours), OTHERWISE_TO_STRANGERS)
    assert not parted, parted
    assert not alike
