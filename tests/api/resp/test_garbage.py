"""A closed connection leaves nothing to the collector. Old objects may never be collected."""

import gc

import pytest

from headgate.app.resp.connection import RespConnection
from headgate.app.settings import Settings
from tests.api.conftest import Live
from tests.api.resp.talk import Talk, command
from tests.conditions import until


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0)


def connection_count() -> int:
    """Return how many connections are alive."""
    return sum(isinstance(each, RespConnection) for each in gc.get_objects())


TALKS = {
    "nothing": b"",
    "a command": b"PING\r\n",
    "a pipeline": command("XADD", "s", "*", "f", "v") * 50,
    "reads": b"XRANGE s - +\r\nXREAD STREAMS s 0\r\nINFO\r\n",
    "errors": b"FOO\r\nXADD s\r\nXADD s 0-0 f v\r\nCLIENT FOO\r\nAUTH a\r\nHELLO 9\r\n",
    "a transaction": b"WATCH s\r\nMULTI\r\nXADD s * f v\r\nXADD\r\nEXEC\r\nMULTI\r\n",
    "a read that blocks": b"XREAD BLOCK 0 STREAMS s $\r\nPING\r\n",
    "half a command": b"*2\r\n$4\r\nECHO\r\n$9\r\nabc",
    "no command": b"*1\r\n:1\r\n",
    "an inline command without its end": b'ECHO "a\r\n',
    "the end": b"QUIT\r\n",
}


@pytest.mark.parametrize("what", TALKS)
async def test_a_client_that_has_gone_is_freed_at_once(live: Live, what: str) -> None:
    sockets = live.gateway.sockets
    gc.collect()
    count_before = connection_count()
    gc.disable()
    try:
        before = sockets.count()
        talk = await Talk.open(live.redis_port)
        talk.send(TALKS[what])
        if what == "a read that blocks":
            await until(lambda: live.waiter_count == 1)
        elif TALKS[what].endswith(b"\r\n"):
            assert await talk.line()
        await talk.close()
        await until(lambda: sockets.count() == before and live.waiter_count == 0)
        await until(lambda: connection_count() == count_before, within_s=1)
    finally:
        gc.enable()
