"""Missing: a decision needs an extent that is not in memory, or is damaged."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.entry import EntryId
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


class Damaged(Missing):
    """Chunks of an extent are not what was written. Nothing was changed."""

    def __init__(
        self, stream: bytes, place: ExtentPlace, why: str, lost: Sequence[tuple[EntryId, EntryId]]
    ) -> None:
        """Describe the damage.

        Args:
            stream: the name of the stream.
            place: of the extent.
            why: what is wrong.
            lost: the first and last ids of the chunks.
        """
        super().__init__(())
        self.args = (f"{stream!r}, file {place.file}, byte {place.offset}: {why}",)
        self.stream, self.place, self.why, self.lost = stream, place, why, lost
