"""Keys of an issuer are fetched beside the requests, seldom enough, and are never lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from itertools import pairwise
from typing import Any

import pytest

from headgate.app.auth.tokens.jwks import JwksUrl
from headgate.app.auth.tokens.key_set import KeySetFault
from tests.unit.app.auth.tokens.issuing import jwk_of, key_set_of
from tests.virtual_time import in_virtual_time, now_ms

GOOD = key_set_of(jwk_of("ES256", "a"))
CHANGED = key_set_of(jwk_of("ES256", "b"))


class Issuer:
    """Publishes a key set, or fails; `JwksUrl` runs in virtual time."""

    def __init__(self, jitter: float = 1.0) -> None:
        self.answer: bytes | None = GOOD
        self.fetched_at_ms: list[int] = []
        self.withdrawn: list[frozenset[str]] = []
        self.jwks = JwksUrl(
            "https://issuer.example/keys",
            self.fetch,
            (),
            self.withdrawn.append,
            jitter=lambda: jitter,
        )

    async def fetch(self) -> bytes:
        self.fetched_at_ms.append(now_ms())
        if self.answer is None:
            raise KeySetFault("no answer")
        return self.answer

    def pauses_s(self) -> list[float]:
        """Return the times between fetches, and forget them."""
        times = self.fetched_at_ms
        pauses = [(after - before) / 1000 for before, after in pairwise(times)]
        del times[:-1]
        return pauses


def with_issuer(test: Callable[[Any, Issuer], Awaitable[None]]) -> Callable[[Any], None]:
    """Run a test in virtual time while the keys of an issuer are kept."""

    @wraps(test)
    @in_virtual_time
    async def run(self: Any) -> None:
        issuer = Issuer()
        task = asyncio.create_task(issuer.jwks.run())
        try:
            await test(self, issuer)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    del run.__wrapped__
    return run


class TestUrl:
    """A key set at a URL."""

    @with_issuer
    async def test_it_is_fetched_at_once_and_every_five_minutes(self, issuer: Issuer) -> None:
        assert not issuer.jwks.is_known
        assert issuer.jwks.warning is not None
        await asyncio.sleep(1000)

        assert issuer.jwks.is_known
        assert issuer.jwks.warning is None
        assert issuer.fetched_at_ms[0] == 0
        assert issuer.pauses_s() == [300, 300, 300]

    @with_issuer
    async def test_an_unknown_key_is_looked_for_at_most_once_in_ten_seconds(
        self, issuer: Issuer
    ) -> None:
        await asyncio.sleep(100)
        for _ in range(1000):
            issuer.jwks.ask_for_refresh()
            await asyncio.sleep(0.1)

        assert issuer.pauses_s() == [100] + [10] * 10
        await asyncio.sleep(320)
        assert issuer.pauses_s() == [300]

    @with_issuer
    async def test_a_question_during_a_fetch_is_not_lost(self, issuer: Issuer) -> None:
        await asyncio.sleep(1)
        issuer.jwks.ask_for_refresh()
        await asyncio.sleep(20)

        assert issuer.pauses_s() == [10]

    @with_issuer
    async def test_a_failure_keeps_the_keys_and_is_tried_again_later_and_later(
        self, issuer: Issuer
    ) -> None:
        await asyncio.sleep(1)
        keys, issuer.answer = issuer.jwks.keys, None
        await asyncio.sleep(3000)

        assert issuer.jwks.keys is keys
        assert issuer.jwks.warning == "https://issuer.example/keys: no answer"
        assert issuer.withdrawn == []
        assert issuer.pauses_s()[:10] == [300, 2, 4, 8, 16, 32, 64, 128, 256, 300]

        issuer.answer = GOOD
        await asyncio.sleep(300)
        assert issuer.jwks.warning is None

    @with_issuer
    async def test_what_is_withdrawn_is_named(self, issuer: Issuer) -> None:
        await asyncio.sleep(1)
        issuer.answer = CHANGED
        await asyncio.sleep(300)

        assert issuer.withdrawn == [{"a"}]
        assert issuer.jwks.keys.with_kid("a") is None
        assert issuer.jwks.keys.with_kid("b") is not None

    def test_a_failure_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)

        @with_issuer
        async def fail(_: object, issuer: Issuer) -> None:
            issuer.answer = None
            await asyncio.sleep(1000)
            issuer.answer = b"<html>"
            await asyncio.sleep(1000)
            issuer.answer = GOOD
            await asyncio.sleep(1000)

        fail(None)
        assert [record.getMessage() for record in caplog.records] == [
            "keys of the issuer not fetched",
            "keys of the issuer not fetched",
            "keys of the issuer fetched",
        ]
