"""A principal's use, and its limits.

Rates are token buckets. Tokens come evenly, and a bucket holds as many as come in one second. A
request passes while there is a token, and takes as many as it needs. So the bucket may owe tokens:
a large batch passes once, and the next request waits until everything is paid.

All credentials of a principal share one `Usage`, and so do all requests without a credential from
one address. A request costs 0.8 µs with one rate and 1.4 µs with three. The libraries for this
(limits, pyrate-limiter, throttled-py) take 2.7 to 5.3 µs for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import islice
from math import ceil, floor
from typing import Final

import msgspec

from headgate.app.addresses import address_of
from headgate.app.auth.grants import UsageLimits
from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import SHARE_INTERVAL_S, Siblings
from headgate.app.wire.problems import Code, GatewayError

USAGES_MAX: Final = 10_000
"""Principals whose use is remembered while they use nothing."""

SLOWED_S_MAX: Final = 10.0
"""Debt of a connection, in seconds, at most. Until then it is read more slowly."""

UNITS: Final = ("requests", "entries", "bytes")
"""Units of the rates."""

Amounts = tuple[int, int, int]
"""Of `UNITS`; or of connections, blocked reads and subscriptions."""

_TOKEN = 1 - 1e-6
"""A token. Time is a float, so who has waited as long as it was told may lack a trifle."""

_LOOKED_AT_MAX = 64
"""Usages that are looked at to make room for another one."""

_IPV6_HOST_BITS = 64
"""Last bits of an IPv6 address, which a client may choose."""


class TokenBucket:
    __slots__ = ("_filled_at_s", "_level", "burst", "rate_per_s")

    def __init__(self, rate_per_s: int, now_s: float, *, burst: int) -> None:
        """Start with a full bucket of `burst` tokens; `now_s` is monotonic time everywhere here."""
        self.rate_per_s = rate_per_s
        self.burst = burst
        self._level = float(burst)
        self._filled_at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until there is a token; 0: now."""
        level = self._fill(now_s)
        return 0.0 if level >= _TOKEN else (1 - level) / self.rate_per_s

    def take(self, count: int) -> None:
        """Take tokens; missing ones are owed."""
        self._level -= count

    def full_in_s(self, now_s: float) -> float:
        """Return in how many seconds the bucket is full; 0: now."""
        return (self.burst - self._fill(now_s)) / self.rate_per_s

    def left(self, now_s: float) -> int:
        return max(floor(self._fill(now_s) + 1 - _TOKEN), 0)

    def _fill(self, now_s: float) -> float:
        level = self._level + (now_s - self._filled_at_s) * self.rate_per_s
        self._level = level = min(level, self.burst)
        self._filled_at_s = now_s
        return level


class Rate(TokenBucket):
    """The rate of a principal's use per second; an unused second may be spent at once."""

    __slots__ = ("place", "spent", "unit")

    def __init__(self, place: int, rate_per_s: int, now_s: float) -> None:
        super().__init__(rate_per_s, now_s, burst=rate_per_s)
        self.place = place
        self.unit = UNITS[place]
        self.spent = 0  # in this process, since the other ones were last notified

    def take(self, count: int) -> None:
        self._level -= count
        self.spent += count

    def take_elsewhere(self, count: int) -> None:
        """Take tokens that another process of the gateway has granted."""
        self._level -= count

    def change(self, rate_per_s: int, now_s: float) -> None:
        self._fill(now_s)
        self.rate_per_s = self.burst = rate_per_s
        self._level = min(self._level, rate_per_s)


class RateLimited(GatewayError):
    """A principal asked for too much in too short a time; nothing was done."""

    def __init__(self, rate: Rate, wait_s: float) -> None:
        retry_after_ms = max(ceil(wait_s * 1000), 1)
        text = f"at most {rate.rate_per_s} {rate.unit} a second ({rate.unit}_per_s_max)"
        super().__init__("rate_limited", f"{text}; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


class UseNotice:
    """Records that an owner's use has changed, so that other processes are notified."""

    __slots__ = ("_changed", "_owner")

    def __init__(self, owner: str, changed: set[str] | None) -> None:
        self._owner = owner
        self._changed = changed

    def note(self) -> None:
        if self._changed is not None:
            self._changed.add(self._owner)


class Count:
    __slots__ = ("_code", "_kind", "_notice", "_setting", "elsewhere", "in_use", "limit")

    def __init__(self, code: Code, kind: str, setting: str, notice: UseNotice) -> None:
        self._notice = notice
        self._code: Code = code
        self._kind = kind
        self._setting = setting
        self.in_use = 0
        self.elsewhere = 0  # at other processes of the gateway
        self.limit: int | None = None

    def check(self) -> None:
        """Raise GatewayError if there is no room for one more."""
        if self.limit is not None and self.in_use + self.elsewhere >= self.limit:
            text = f"at most {self.limit} {self._kind} of one principal ({self._setting})"
            raise GatewayError(self._code, text)

    def take(self) -> None:
        self.check()
        self.in_use += 1
        self._notice.note()

    def give_back(self) -> None:
        self.in_use -= 1
        self._notice.note()

    @contextmanager
    def held(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.give_back()


class Usage:
    """The use of one principal.

    Amounts are those of a request: how many requests it counts as, entries that it appends or was
    sent, and bytes of its body. None means that a rate does not concern it, and 0 that the rate
    does, but the amount is not known yet.
    """

    __slots__ = (
        "_clock",
        "_notice",
        "_rates",
        "connections",
        "is_limited",
        "is_rated",
        "limits",
        "subscriptions",
        "waiters",
    )

    def __init__(
        self,
        limits: UsageLimits,
        clock: Callable[[], float],
        owner: str = "",
        changed: set[str] | None = None,
    ) -> None:
        """Start with nothing used; limits that are None are unlimited.

        `owner` is put into `changed` when other processes must be notified; None: there are none.
        """
        self._clock = clock
        self._notice = notice = UseNotice(owner, changed)
        self._rates: tuple[Rate, ...] = ()
        self.connections = Count(
            "too_many_connections",
            "event streams and WebSockets",
            "principal_connections_max",
            notice,
        )
        self.waiters = Count("too_many_waiters", "blocked reads", "principal_waiters_max", notice)
        self.subscriptions = Count(
            "too_many_connections", "subscriptions", "principal_subscriptions_max", notice
        )
        self.adopt(limits)

    def adopt(self, limits: UsageLimits) -> None:
        """Use these limits from now on; what was used stays used."""
        now_s, before = self._clock(), {rate.unit: rate for rate in self._rates}
        bounds = (limits.requests_per_s_max, limits.entries_per_s_max, limits.bytes_per_s_max)
        rates = []
        for place, rate_per_s in enumerate(bounds):
            if rate_per_s is not None:
                rate = before.get(UNITS[place]) or Rate(place, rate_per_s, now_s)
                rate.change(rate_per_s, now_s)
                rates.append(rate)
        self._rates = tuple(rates)
        self.is_rated = bool(self._rates)  # or amounts need not be said
        self.is_limited = limits.are_any  # or nothing need be said
        self.connections.limit = limits.connections_max
        self.waiters.limit = limits.waiters_max
        self.subscriptions.limit = limits.subscriptions_max
        self.limits = limits

    def charge(
        self,
        *,
        requests: int | None = None,
        entries: int | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """Charge a request before it is performed; RateLimited means that nothing was taken."""
        now_s, amounts = self._clock(), (requests, entries, size_bytes)
        for rate in self._rates:
            if amounts[rate.place] is not None:
                wait_s = rate.wait_s(now_s)
                if wait_s:
                    raise RateLimited(rate, wait_s)
        self._take(amounts)

    def spend(
        self,
        *,
        requests: int | None = None,
        entries: int | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """Count use that has happened; the next use waits for it."""
        if self.is_rated:
            self.delay_s(requests=requests, entries=entries, size_bytes=size_bytes)

    def delay_s(
        self,
        *,
        requests: int | None = None,
        entries: int | None = None,
        size_bytes: int | None = None,
    ) -> float:
        """Count use that is not refused; return the seconds that it has to wait, 0 for none."""
        now_s, amounts, longest_s = self._clock(), (requests, entries, size_bytes), 0.0
        for rate in self._rates:
            if amounts[rate.place] is not None:
                longest_s = max(longest_s, rate.wait_s(now_s))
        self._take(amounts)
        return longest_s

    def headers(self) -> dict[str, str]:
        """Return the headers about the rates (draft-ietf-httpapi-ratelimit-headers)."""
        if not self._rates:
            return {}
        now_s, policies, states = self._clock(), [], []
        for rate in self._rates:
            kind = ';qu="content-bytes"' if rate.unit == "bytes" else ""
            policies.append(f'"{rate.unit}";q={rate.rate_per_s};w=1{kind}')
            left, full_in_s = rate.left(now_s), ceil(rate.full_in_s(now_s))
            states.append(f'"{rate.unit}";r={left};t={full_in_s}')
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}

    def take_spent(self) -> Amounts:
        """Return the amounts, by `UNITS`, that were taken here since the last call."""
        amounts = [0, 0, 0]
        for rate in self._rates:
            amounts[rate.place], rate.spent = rate.spent, 0
        return amounts[0], amounts[1], amounts[2]

    def in_use(self) -> Amounts:
        return self.connections.in_use, self.waiters.in_use, self.subscriptions.in_use

    def use_elsewhere(self, spent: Amounts, more: Amounts) -> None:
        """Count what another process of the gateway has granted."""
        for rate in self._rates:
            rate.take_elsewhere(spent[rate.place])
        counts = self.connections, self.waiters, self.subscriptions
        for count, difference in zip(counts, more, strict=True):
            count.elsewhere += difference

    def check_room(self) -> None:
        self.connections.check()
        self.subscriptions.check()

    @property
    def is_held(self) -> bool:
        counts = (self.connections, self.waiters, self.subscriptions)
        return any(count.in_use or count.elsewhere for count in counts)

    @property
    def is_idle(self) -> bool:
        """Tell whether a new one would be the same: nothing is in use, and all rates are full."""
        if self.is_held:
            return False
        now_s = self._clock()
        return all(rate.full_in_s(now_s) <= 0 for rate in self._rates)

    def _take(self, amounts: tuple[int | None, ...]) -> None:
        for rate in self._rates:
            amount = amounts[rate.place]
            if amount:
                rate.take(amount)
        self._notice.note()


class Patience:
    """Tells when a connection has been slowed for too long without a pause."""

    __slots__ = ("_slowed_at_s",)

    def __init__(self) -> None:
        self._slowed_at_s: float | None = None

    def is_over(self, delay_s: float, now_s: float) -> bool:
        """Record the delay of a frame; return whether the connection has to end."""
        if not delay_s:
            self._slowed_at_s = None
            return False
        if self._slowed_at_s is None:
            self._slowed_at_s = now_s
        return now_s - self._slowed_at_s > SLOWED_S_MAX


UNLIMITED: Final = Usage(UsageLimits(), lambda: 0.0)
"""The usage of all principals without a limit. It does not count."""


class Usages:
    """The usage of each principal; a bounded number of idle ones is kept."""

    def __init__(
        self, defaults: UsageLimits, clock: Callable[[], float], *, count_max: int = USAGES_MAX
    ) -> None:
        """Set the default limits; `count_max` bounds usages, besides those with connections."""
        self._defaults = defaults
        self.are_for_all = defaults.are_any  # a principal need not have limits of its own
        self._clock = clock
        self._count_max = count_max
        self._by_owner: dict[str, Usage] = {}  # those that came last are at the end
        self._changed: set[str] | None = None

    def __len__(self) -> int:
        return len(self._by_owner)

    def watch(self, changed: set[str]) -> None:
        """Record the owner of each usage that changes from now on; call it before any use."""
        self._changed = changed

    def kept(self, owner: str) -> Usage | None:
        return self._by_owner.get(owner)

    def holders(self) -> list[str]:
        return [owner for owner, usage in self._by_owner.items() if any(usage.in_use())]

    def of_owner(self, owner: str, limits: UsageLimits) -> Usage:
        return self._usage(owner, limits)

    def of(self, principal_id: str, limits: UsageLimits) -> Usage:
        """Return a principal's usage under its last credential's limits; None: the settings'."""
        return self._usage(f"principal {principal_id}", limits.over(self._defaults))

    def of_address(self, address: str) -> Usage:
        if not self.are_for_all:
            return UNLIMITED
        return self._usage(f"network {network_of(address)}", self._defaults)

    def _usage(self, owner: str, limits: UsageLimits) -> Usage:
        usage = self._by_owner.pop(owner, None)
        if not limits.are_any:
            return UNLIMITED
        if usage is None:
            self._make_room()
            usage = Usage(limits, self._clock, owner, self._changed)
        elif usage.limits is not limits and usage.limits != limits:
            usage.adopt(limits)
        self._by_owner[owner] = usage
        return usage

    def _make_room(self) -> None:
        """Drop the oldest idle ones, or else one that owes something.

        Nobody who holds something is dropped: there is a bound for connections and for waiters.
        """
        if len(self._by_owner) < self._count_max:
            return
        oldest = list(islice(self._by_owner.items(), _LOOKED_AT_MAX))
        dropped = [owner for owner, usage in oldest if usage.is_idle]
        dropped = dropped or [owner for owner, usage in oldest if not usage.is_held][:1]
        for owner, usage in oldest:
            del self._by_owner[owner]
            if owner not in dropped:
                self._by_owner[owner] = usage  # others are looked at next time


@lru_cache(maxsize=USAGES_MAX)
def network_of(address: str) -> str:
    """Return a client's address, or the first 64 bits of an IPv6 address."""
    ip = address_of(address)
    if isinstance(ip, IPv6Address):
        return str(IPv6Address(int(ip) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))
    return address if ip is None else str(ip)  # None: a socket in the file system


# Sharing: what a principal uses at all processes of a gateway counts as one.
#
# Each process has a `Usage` of each principal that it serves, and decides by it alone, at once.
# Every `SHARE_INTERVAL_S` it announces what was taken since, and how many connections, blocked
# reads and subscriptions there are. The others take the same from their own buckets, and count it
# beside their own. So a rate holds on average: a principal that comes to N processes at one
# moment may get up to N times what one second allows, and then waits until all of that is paid.

TOPIC: Final = "usage"

AT_ONCE_MAX: Final = 1_000
"""Principals of one announcement; the others come with the next."""

_NAMES = tuple(UsageLimits.model_fields)


class _Report(msgspec.Struct, frozen=True, array_like=True):
    owner: str
    limits: tuple[int | None, ...]
    spent: Amounts
    in_use: Amounts


class SharedUsage:
    def __init__(self, usages: Usages, siblings: Siblings) -> None:
        self._usages = usages
        self._siblings = siblings
        self._by_sibling: dict[int, dict[str, Amounts]] = {}  # what is in use, if anything is
        self._changed: set[str] = set()
        usages.watch(self._changed)
        siblings.on_announcement(TOPIC, self._take)
        siblings.on_departure(self._forget)
        siblings.on_arrival(self._announce_held)

    async def run(self) -> None:
        await periodic.repeat("usage shared", self._share)

    async def _share(self) -> None:
        while self._changed:
            await self._siblings.announce(TOPIC, self._reports())
            await asyncio.sleep(0)  # there may be many more
        await asyncio.sleep(SHARE_INTERVAL_S)

    def _reports(self) -> bytes:
        reports: list[_Report] = []
        while self._changed and len(reports) < AT_ONCE_MAX:
            owner = self._changed.pop()
            usage = self._usages.kept(owner)
            if usage is None:
                continue
            limits = tuple(getattr(usage.limits, name) for name in _NAMES)
            reports.append(_Report(owner, limits, usage.take_spent(), usage.in_use()))
        return _encode(reports)

    def _take(self, sender: int, body: bytes) -> None:
        held = self._by_sibling.setdefault(sender, {})
        for report in _decode(body):
            limits = UsageLimits(**dict(zip(_NAMES, report.limits, strict=True)))
            before = held.pop(report.owner, _NOTHING)
            if any(report.in_use):
                held[report.owner] = report.in_use
            self._usages.of_owner(report.owner, limits).use_elsewhere(
                report.spent, _difference(report.in_use, before)
            )

    def _forget(self, sibling: int) -> None:
        for owner, in_use in self._by_sibling.pop(sibling, {}).items():
            usage = self._usages.kept(owner)
            if usage is not None:
                usage.use_elsewhere(_NOTHING, _difference(_NOTHING, in_use))

    def _announce_held(self) -> None:
        self._changed.update(self._usages.holders())


_NOTHING: Amounts = (0, 0, 0)


def _difference(after: Amounts, before: Amounts) -> Amounts:
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Report]).decode
