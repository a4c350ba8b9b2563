"""Errors: those of the engine in the words of Redis."""

from __future__ import annotations

import pytest

from headgate.app.backends.remote import messages
from headgate.app.redis_syntax.errors import error_text
from headgate.engine import errors
from tests.unit.app.backends.remote_backend.test_messages import made
from tests.unit.app.redis_syntax.console import Console

CODES = {
    *("ERR", "BUSYGROUP", "NOGROUP", "OOM", "MISCONF", "CLUSTERDOWN", "CROSSSLOT", "WRONGTYPE"),
    "READONLY",
}
GROUPS = {errors.StreamError, errors.NotFound, errors.Conflict}


@pytest.mark.parametrize("kind", messages.ERRORS.values(), ids=list(messages.ERRORS))
def test_only_what_redis_says_begins_with_a_code(kind: type[errors.StreamError]) -> None:
    if kind in GROUPS or issubclass(kind, errors.Corrupt):
        return
    error = made(kind)
    code, _, text = error_text(error).partition(" ")
    assert code in CODES
    assert text
    assert str(error).split()[0] not in CODES


async def test_errors_are_counted_by_the_code_that_is_sent() -> None:
    console = Console()
    console.engine.drain()
    refused = await console.say("XREAD BLOCK 0 STREAMS s 0")
    assert refused == "ERR the gateway is about to stop"
    assert "errorstat_ERR:count=1" in await console.say("INFO errorstats")
