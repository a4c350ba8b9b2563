"""Comparisons of a stream with the lake: the common range, and harmless differences."""

from __future__ import annotations

from typing import NamedTuple

from headgate.client import Plan
from headgate.client.blocking import Client
from headgate.pipeline.erasure import forgotten
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.offsets import is_before, just_before, later, parse_id


def common_range(plan: Plan, held: Held | None) -> tuple[str, str] | None:
    """Return the range of ids that a stream and the lake should both have, if there is any."""
    if held is None or plan.epoch != held.epoch or plan.first_id is None:
        return None
    after = later(str(just_before(parse_id(plan.first_id))), held.after)
    return (after, held.to) if is_before(after, held.to) else None


class Comparison(NamedTuple):
    """The result of a comparison: `verdict` is `equal`, or the difference.

    Only the lake has the `deleted` entries; only the stream has the `forgotten` ones.
    """

    entries: int
    verdict: str
    deleted: int = 0
    forgotten: int = 0


class Deletions(NamedTuple):
    """The greatest id ever deleted from a stream, and the maximum number of deletions."""

    max_id: str
    entries_max: int

    def refusal(self, count: int, last_id: str) -> str | None:
        """Return why `count` entries up to an id cannot all have been deleted, or None."""
        if is_before(self.max_id, last_id):
            return f"{last_id} is in the lake only, and nothing behind {self.max_id} was deleted"
        if count > self.entries_max:
            return (
                f"{count} entries are in the lake only, and {self.entries_max} were deleted at most"
            )
        return None


def deletions(client: Client, lake: Lake, plan: Plan) -> Deletions:
    """Return the deletions of a stream, derived from its own counters.

    The stream counts what was added. What it lacks was trimmed or deleted, and what was trimmed
    comes before its first entry: where the lake has those entries, their number is known. A stream
    that is compacted (`retain: latest`) may lack any of them.
    """
    info = client.stream(plan.stream).info()
    lacking = info["entries_added"] - info["length"]
    held = lake.held(plan.stream)
    assert held is not None
    assert plan.first_id is not None
    before = str(just_before(parse_id(plan.first_id)))
    noted = [parse_id(entry_id) for entry_id in forgotten(lake, plan.stream).to_pylist()]
    trimmed = sum(parse_id(held.after) < entry_id <= parse_id(before) for entry_id in noted)
    trimmed += lake.count(plan.stream, after=held.after, to=before)
    # An earlier life of the stream may be in the lake, which was not trimmed from this one.
    entries_max = lacking - trimmed if trimmed <= lacking else lacking
    is_compacted = info["config"]["retain"] == "latest"
    return Deletions(info["last_id"] if is_compacted else info["max_deleted_id"], entries_max)
