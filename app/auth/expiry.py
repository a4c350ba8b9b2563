"""Expiry: ends a credential when its time is over, while somebody waits for that."""

import asyncio

from headgate.app.auth.principal import Principal
from headgate.engine.clock import Clock

_SLEEP_S_MAX = 60.0
"""No timer sleeps for longer: the clock that says when a credential ends may be set."""


class Expiry:
    """A timer of one credential."""

    def __init__(self, principal: Principal, clock: Clock) -> None:
        """Begin to wait for the time at which the credential ends."""
        self._principal = principal
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._sleep()

    def cancel(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self) -> None:
        expires_at_ms = self._principal.expires_at_ms
        if expires_at_ms is not None:
            left_s = max((expires_at_ms - self._clock.wall_ms()) / 1000, 0.0)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(left_s, _SLEEP_S_MAX), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._principal.is_expired(self._clock):
            self._principal.end("The credential has expired.")
        else:
            self._sleep()
