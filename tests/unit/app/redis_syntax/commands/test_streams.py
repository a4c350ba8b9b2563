"""XCFGSET: what it sets, and that it leaves everything else as it is."""

from __future__ import annotations

from headgate.engine.config import StreamConfig
from headgate.engine.requests.streams import CreateStream, DescribeStream
from tests.unit.app.redis_syntax.console import Console


class TomorrowsConfig(StreamConfig, frozen=True, array_like=True, omit_defaults=True):
    """A configuration with a field that XCFGSET has never heard of."""

    shade: int | None = None


async def test_what_is_not_named_stays() -> None:
    console = Console()
    config = TomorrowsConfig(7, 80_000, 9_000, 10, shade=11)
    await console.engine.perform(CreateStream(b"s", config))
    assert await console.say("XCFGSET s IDMP-MAXSIZE 3") == "OK"
    info = await console.engine.perform(DescribeStream(b"s"))
    assert info.config == TomorrowsConfig(7, 80_000, 9_000, 3, shade=11)
    assert await console.say("XCFGSET s IDMP-DURATION 2") == "OK"
    info = await console.engine.perform(DescribeStream(b"s"))
    assert info.config == TomorrowsConfig(7, 80_000, 2_000, 3, shade=11)
