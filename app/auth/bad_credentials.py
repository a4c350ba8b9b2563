"""Count bad credentials per network, so that trying them out costs little.

Beyond the rate a bad credential is refused with 429, and leaves no line in the audit log. A good
one still works, as far as checking it is cheap: a known one is looked up in a dictionary; an API
key is always checked, which takes less time than refusing it; for other credentials, all networks
beyond their rates share a number of checks per second. The rest is refused unchecked.
"""

from collections.abc import Callable
from math import ceil
from typing import Final

from headgate.app.auth.usage import TokenBucket, network_of
from headgate.app.wire.problems import GatewayError

BAD_PER_S_MAX: Final = 100
"""By default. To refuse so many takes about 2 % of a core."""

BURST_S: Final = 5
"""Seconds' worth that may come at once: clients of an office, with a key that has ended."""

NETWORKS_MAX: Final = 10_000
"""Networks that are remembered; those that came first go first."""

LOOKS_PER_S: Final = 1_000
"""A tenth of a core, if all of them are tokens of the kind that takes longest to verify."""


class TooManyBadCredentials(GatewayError):
    """So many bad credentials came from a network that this one was not checked, or is bad."""

    def __init__(self, wait_s: float) -> None:
        retry_after_ms = max(ceil(wait_s * 1000), 1)
        text = "too many bad credentials came from this address (bad_credentials_per_s_max)"
        super().__init__("rate_limited", f"{text}; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


class BadCredentials:
    def __init__(self, clock: Callable[[], float], per_s_max: int = BAD_PER_S_MAX) -> None:
        self._clock = clock
        self._per_s_max = per_s_max
        self._by_network: dict[str, TokenBucket] = {}
        self._looks = TokenBucket(LOOKS_PER_S, clock(), burst=LOOKS_PER_S)

    def __len__(self) -> int:
        return len(self._by_network)

    def wait_s(self, address: str) -> float:
        """Return the seconds until a network may send another bad credential; 0: now."""
        bucket = self._by_network.get(network_of(address))
        return 0.0 if bucket is None else bucket.wait_s(self._clock())

    def takes_look(self) -> bool:
        """Tell whether a credential from a network beyond its rate is checked nevertheless."""
        if self._looks.wait_s(self._clock()):
            return False
        self._looks.take(1)
        return True

    def note(self, address: str) -> None:
        network, now_s = network_of(address), self._clock()
        bucket = self._by_network.get(network)
        if bucket is None:
            if len(self._by_network) >= NETWORKS_MAX:
                del self._by_network[next(iter(self._by_network))]
            bucket = TokenBucket(self._per_s_max, now_s, burst=self._per_s_max * BURST_S)
            self._by_network[network] = bucket
        bucket.take(1)
