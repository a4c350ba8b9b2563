"""Timing: before when no group delivers an entry, and until when groups do."""

from __future__ import annotations

from typing import NamedTuple

from headgate.engine.errors import Invalid
from headgate.engine.limits import COUNT_MAX, DELAY_MS_MAX


class EntryTimes(NamedTuple):
    """The times of an entry: unix times in replies, steady times in the state (`clock.py`)."""

    deliver_at_ms: int | None  # groups deliver it no sooner; None: at once
    expires_at_ms: int | None  # groups deliver it no more from then on; None: it has no deadline

    def is_early(self, now_ms: int) -> bool:
        """Tell whether no group delivers the entry yet."""
        return self.deliver_at_ms is not None and now_ms < self.deliver_at_ms

    def is_over(self, now_ms: int) -> bool:
        """Tell whether no group delivers the entry any more."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    def later_by(self, by_ms: int) -> EntryTimes:
        """Return the same times by a clock that is ahead by so much."""
        deliver_at_ms, expires_at_ms = self
        return EntryTimes(
            None if deliver_at_ms is None else deliver_at_ms + by_ms,
            None if expires_at_ms is None else expires_at_ms + by_ms,
        )


class Timing(NamedTuple):
    """The times of an entry as a writer gives them: from now on, or as unix times."""

    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    expires_at_ms: int | None = None

    def or_none(self) -> Timing | None:
        """Return None if it gives no time."""
        return None if self == _NO_TIMING else self

    def at(self, now_ms: int, index: int) -> EntryTimes | None:
        """Return the unix times of an entry that is appended now; None: it has none.

        Args:
            now_ms: unix time.
            index: the entry's place among those it is appended with, from 0.

        Raises:
            Invalid: the times contradict each other, or are out of range.
        """
        where = ("drafts", index)
        for name, other in (("delay_ms", "deliver_at_ms"), ("ttl_ms", "expires_at_ms")):
            if getattr(self, name) is not None and getattr(self, other) is not None:
                raise Invalid(f"give either {name} or {other}", location=(*where, other))
        deliver_at_ms = self._later("delay_ms", "deliver_at_ms", now_ms)
        expires_at_ms = self._later("ttl_ms", "expires_at_ms", now_ms)
        if deliver_at_ms is not None and deliver_at_ms - now_ms > DELAY_MS_MAX:
            name = "delay_ms" if self.deliver_at_ms is None else "deliver_at_ms"
            text = f"an entry is delayed by {DELAY_MS_MAX} ms at most"
            raise Invalid(text, location=(*where, name))
        if deliver_at_ms is not None and deliver_at_ms <= now_ms:
            deliver_at_ms = None
        if expires_at_ms is not None and (deliver_at_ms or 0) >= expires_at_ms:
            name = "ttl_ms" if self.expires_at_ms is None else "expires_at_ms"
            raise Invalid("it would expire before it is delivered", location=(*where, name))
        times = EntryTimes(deliver_at_ms, expires_at_ms)
        return None if times == _NO_TIMES else times

    def _later(self, after: str, at: str, now_ms: int) -> int | None:
        after_ms: int | None = getattr(self, after)
        at_ms: int | None = getattr(self, at)
        return at_ms if after_ms is None else min(now_ms + after_ms, COUNT_MAX)


_NO_TIMES = EntryTimes(None, None)
_NO_TIMING = Timing()
