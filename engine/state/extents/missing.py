"""Missing: a decision needs an extent that is not in memory, or is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headgate.engine.entry import EntryId
from headgate.engine.limits import MISSING_BYTES_MAX
from headgate.engine.state.memory import ExtentPlace


class Missing(Exception):
    """Extents are needed and not in memory. Nothing was changed."""

    def __init__(self, needed: Sequence[ExtentPlace], ahead: Sequence[ExtentPlace] = ()) -> None:
        """Name the extents.

        Args:
            needed: without them there is no answer.
            ahead: will be asked for next, perhaps.
        """
        super().__init__(f"{len(needed)} extents are not in memory")
        self.needed = needed
        self.ahead = ahead


def require_each(checks: Iterable[Callable[[], object]]) -> None:
    """Make checks, and name what they all miss: one by one, a decision would be made for each.

    Raises:
        Missing: one or more of them have raised it.
    """
    missing: dict[ExtentPlace, None] = {}  # several checks may need the same
    size_bytes = 0
    for check in checks:
        try:
            check()
        except Damaged:
            raise
        except Missing as error:
            missing |= dict.fromkeys(error.needed)
            size_bytes += sum(place.size_bytes for place in error.needed)
            if size_bytes > MISSING_BYTES_MAX:
                break
    if missing:
        raise Missing(list(missing))


class LostChunk(NamedTuple):
    """A chunk that is damaged; or all of an extent, if nothing of it can be read."""

    first_id: EntryId
    last_id: EntryId
    offset: int  # in the file
    live_count: int


class Damaged(Missing):
    """Chunks of an extent are not what was written. Nothing was changed."""

    def __init__(
        self, stream: bytes, place: ExtentPlace, why: str, lost: Sequence[LostChunk]
    ) -> None:
        """Describe the damage.

        Args:
            stream: the name of the stream.
            place: of the extent.
            why: what is wrong.
            lost: the chunks.
        """
        super().__init__(())
        self.args = (f"{stream!r}, file {place.file}, byte {place.offset}: {why}",)
        self.stream, self.place, self.why, self.lost = stream, place, why, lost
