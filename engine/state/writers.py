"""Writers: the last batch that each writer has committed, so that no batch is written twice.

Writers are bounded in number and in time; the one that has been silent for longest goes first. Both
follow from the commits, so no record says which writer is forgotten.
"""

from __future__ import annotations

from headgate.engine.limits import WRITER_SILENT_MS_MAX, WRITERS_MAX
from headgate.engine.replies import Commit


class Writers:
    """Every writer's last commit, in order of commit."""

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        """Start with none."""
        self.by_name: dict[bytes, Commit] = {}

    def commit(self, name: bytes, batch: int, at_ms: int) -> None:
        """Note a writer's last batch, and forget whom there is no room or no reason to keep."""
        self.by_name.pop(name, None)
        self.by_name[name] = Commit(batch, at_ms)
        while True:
            oldest = next(iter(self.by_name))
            is_old = self.by_name[oldest].at_ms < at_ms - WRITER_SILENT_MS_MAX
            if not is_old and len(self.by_name) <= WRITERS_MAX:
                return
            del self.by_name[oldest]
