"""Subscription: what a program reads over the WebSocket, across connections.

It does no I/O. The conversation passes frames of the gateway to it, and sends the frames that it
returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from headgate.client.entries import Gap
from headgate.client.problems import HeadgateError

Outcome = Literal["acked", "released", "extended", "not_pending", "claimed", "lost"]
"""Outcome of an entry. `lost`: the connection ended, and the entry went back."""

State = Literal[
    "live",
    "caught_up",
    "credit_exhausted",
    "max_pending",
    "key_blocked",
    "paused",
    "rate_limited",
    "closed",
    "lost",
]
"""States: entries arrive, there are none now, or why none arrive. `closed`: all entries of a closed
stream have arrived. `lost`: there is no connection.
"""

Mode = Literal["fail", "fatal", "silent"]
"""Modes of a nack: the entry failed, it can never succeed, or it was not tried."""


class Nack(NamedTuple):
    mode: Mode = "fail"
    delay_ms: int | None = None  # before the next delivery; None: as the policy says
    error: str | None = None  # what went wrong


_DONE_MAX: Final = 10_000
"""Maximum number of entries whose acknowledgement is repeated if they are delivered again."""

_MESSAGES_MAX: Final = 1_000
"""Maximum number of messages of a channel that wait for the program."""

EXTEND_S: Final = 10.0
"""Interval at which held entries are extended, unless the group claims earlier."""

FRAME_IDS_MAX: Final = 1_000
"""Maximum number of entries settled by one frame."""

FRAME_BYTES_MAX: Final = 128 * 2**20
"""Maximum size of a frame: an entry of 16 MiB can be six times as large in JSON."""


ALL_ROWS_COME: Final[Mapping[str, Any]] = {"rows": "come"}
ALL_ROWS_CAME: Final[Mapping[str, Any]] = {"rows": "came"}
"""Items of a table view before and after all of its rows."""


class Subscription:
    def __init__(self, name: str, wanted: Mapping[str, Any], *, credit: int) -> None:
        """Start with the subscribe frame `wanted`, without `type`, `sub` and `credit`."""
        self.name = name
        self.is_group = "group" in wanted
        self.is_view = wanted.get("view") == "table"
        self.is_channel = "channel" in wanted
        self.is_standing = False  # the channel subscription is confirmed
        self.dropped = 0  # messages of a channel that were not taken in time
        self.items: deque[Mapping[str, Any]] = deque()  # entries that are not taken yet
        self.gap: Gap | None = None  # before the next entry
        self.failure: Exception | None = None  # why it has ended
        self.has_ended = False
        self.extend_s = EXTEND_S
        self.lag: int | None = None
        self.consumer: str | None = wanted.get("consumer")
        # Delivery counts of unsettled entries, by key (`key_of`), as in the attributes below.
        self.held: dict[str, int] = {}
        self.on_claimed: Callable[[str, str], None] | None = None
        self.on_state: Callable[[State, str], None] | None = None
        self._state: State | None = None
        self.waiters: list[Callable[[], object]] = []  # called once at the next item or end
        self._wanted = dict(wanted)
        self.stream: str = wanted.get("stream", "")
        self.group: str | None = wanted.get("group")
        self._credit = credit
        self._as_of = ""  # id that the rows of a view are as of
        self._returned = 0  # credit not returned to the gateway yet
        self._acks: list[str] = []
        self._nacks: dict[Nack, list[str]] = {}
        self._extends: list[str] = []
        self._committed: list[str] = []  # settled by requests; their credit is not returned
        self._in_work: set[str] = set()  # taken by the program
        self._done: dict[str, None] = {}  # acknowledged, but not answered yet

    def subscribe_frame(self) -> dict[str, Any]:
        if self.is_channel:
            named = {"rid": f"s{self.name}", "sub": self.name}
            return {"type": "subscribe", **named, **self._wanted}
        credit = self._credit if self.is_group else max(self._credit - len(self.items), 1)
        frame = {
            "type": "subscribe",
            "rid": f"s{self.name}",
            "sub": self.name,
            "credit": credit,
            "frame_bytes_max": FRAME_BYTES_MAX,
        }
        if self.is_group:
            frame["auto_credit"] = True
        self._returned = 0
        return {**frame, **self._wanted}

    # Frames from the gateway

    def subscribed(self, frame: Mapping[str, Any]) -> None:
        self.changed("live")
        if self.is_channel:
            self.is_standing = True
            self._wake()
            return
        if self.is_group:
            self.consumer = frame.get("consumer") or self.consumer
        elif self.is_view:
            self._as_of = frame["position"]
            self._note_rows_come(is_again="gap" in frame)
        else:
            self._wanted["after"] = frame["position"]  # replaces `$` by an id
        self._note_gap(frame.get("gap"))

    def _note_rows_come(self, *, is_again: bool) -> None:
        if is_again:
            self._wanted.pop("after", None)
        if "after" not in self._wanted:
            self.items.append(ALL_ROWS_COME)

    def take(self, frame: Mapping[str, Any]) -> None:
        if self.is_view:
            self._take_rows(frame)
            return
        entries = frame["entries"]
        self.lag = frame.get("lag", self.lag)
        self._note_gap(frame.get("gap"))
        for gap in frame.get("gaps", ()):
            self._note_gap(gap)
        if self.is_group:
            self.held.update([(key_of(item), item["deliveries"]) for item in entries])
            if self._in_work or self._done:
                entries = [item for item in entries if not self._is_known(key_of(item))]
        elif entries:
            self._wanted["after"] = entries[-1]["id"]
        if "position" in frame:  # after entries that the filter removed
            self._wanted["after"] = frame["position"]
        self.items += entries
        self._wake()

    def _take_rows(self, frame: Mapping[str, Any]) -> None:
        if "again" in frame:
            self._note_rows_come(is_again=True)
        self.items += frame["rows"]
        if "position" in frame:
            self._wanted["after"] = frame["position"]
        self._wake()

    def hear(self, frame: Mapping[str, Any]) -> None:
        """Take a message of a channel. If too many wait, drop the oldest."""
        self.items.append(frame)
        if len(self.items) > _MESSAGES_MAX:
            self.dropped += 1 + self.items.popleft().get("dropped", 0)
        self._wake()

    def changed(self, state: State, why: str = "") -> None:
        if state == "caught_up" and self.is_view and "after" not in self._wanted:
            self._wanted["after"] = self._as_of  # before any rows that were sent again meanwhile
            self.items.append(ALL_ROWS_CAME)
            self._wake()
        before, self._state = self._state, state
        if state != before and self.on_state is not None:
            self.on_state(state, why)

    def claimed(self, ids: list[str], by: str) -> None:
        lost = set(ids)
        if any(item["id"] in lost for item in self.items):
            self.items = deque(item for item in self.items if item["id"] not in lost)
        for entry_id in ids:
            if self.held.pop(entry_id, None) is not None and self.on_claimed is not None:
                self.on_claimed(entry_id, by)

    def settled(self, results: list[Mapping[str, str]], stream: str | None = None) -> None:
        for result in results:
            key = key_of({"id": result["id"], "stream": stream})
            if result["outcome"] == "claimed" and self.on_claimed is not None:
                self.on_claimed(result["id"], "")
            if result["outcome"] in ("claimed", "not_pending"):
                self.held.pop(key, None)
            if result["outcome"] != "extended":
                self._done.pop(key, None)

    def lost(self) -> None:
        """Note that the connection ended: entries of a group went back, or are kept.

        Entries in work or done may be delivered again. Their handlers do not start again.
        """
        if self.is_group:
            self.items.clear()
            self.held.clear()
        self._acks.clear()
        self._nacks.clear()
        self._extends.clear()
        self._committed.clear()

    def end(self, failure: Exception | None = None) -> None:
        self.failure, self.has_ended = failure, True
        self._wake()

    # Calls of the program

    def next_item(self) -> Mapping[str, Any]:
        item = self.items.popleft()
        if self.is_group:
            self._in_work.add(key_of(item))
        elif "id" in item:
            self._returned += 1
        return item

    def settle(self, key: str, nack: Nack | None) -> None:
        """Acknowledge an entry in work or give it back, unless another consumer has it."""
        self._in_work.discard(key)
        if nack is None:
            self._done[key] = None
            if len(self._done) > _DONE_MAX:
                del self._done[next(iter(self._done))]
        if self.held.pop(key, None) is not None:  # it may be delivered again before the answer
            if nack is None:
                self._acks.append(key)
            else:
                self._nacks.setdefault(nack, []).append(key)

    def part_with(self, key: str) -> None:
        """Note that an entry is no longer in work: if it is delivered again, it is a new job."""
        self._in_work.discard(key)

    def settled_elsewhere(self, key: str) -> None:
        """Note that a request settled an entry, or that another consumer has it.

        The entry may be delivered again before the answer arrives. Otherwise the gateway still
        counts it against the credit: extending it is harmless, and shows that it is no longer held.
        """
        is_here_again = key in self._in_work or any(key_of(item) == key for item in self.items)
        if not is_here_again and self.held.pop(key, None) is not None:
            self._committed.append(key)

    def extend_all(self) -> None:
        self._extends = list(self.held)

    @property
    def has_frames(self) -> bool:
        return bool(
            self._acks
            or self._nacks
            or self._extends
            or self._committed
            or self._returned * 2 >= self._credit
        )

    def frames(self) -> list[dict[str, Any]]:
        """Return the frames to send now. The gateway answers each frame with `ids`."""
        acks, self._acks = self._acks, []
        nacks, self._nacks = self._nacks, {}
        extends, self._extends = self._extends, []
        committed, self._committed = self._committed, []
        frames: list[dict[str, Any]] = [
            {"type": "ack", "sub": self.name, **ids} for ids in _portions(acks)
        ]
        for nack, keys in nacks.items():
            how = {name: value for name, value in nack._asdict().items() if value is not None}
            frame = {"type": "nack", "sub": self.name, **how}
            frames += [{**frame, **ids} for ids in _portions(keys)]
        held = committed + [key for key in extends if key in self.held]
        frames += [{"type": "extend", "sub": self.name, **ids} for ids in _portions(held)]
        if self._returned * 2 >= self._credit:
            frames.append({"type": "credit", "sub": self.name, "entries": self._returned})
            self._returned = 0
        return frames

    def _is_known(self, key: str) -> bool:
        """Return whether a redelivered entry is in work or done. If it is done, acknowledge it."""
        if key in self._done:
            self._acks.append(key)
            return True
        return key in self._in_work

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()

    def _note_gap(self, gap: Mapping[str, str] | None) -> None:
        if gap is not None:
            self.gap = Gap(gap["from"], gap["to"])


class Closed(HeadgateError):
    """The client was closed."""


def key_of(item: Mapping[str, Any]) -> str:
    """Return the id of an entry, prefixed with its stream if several are read: ids can repeat."""
    stream = item.get("stream")
    return item["id"] if stream is None else f"{stream}\n{item['id']}"


def _portions(keys: list[str]) -> list[dict[str, Any]]:
    """Return the parts of frames that name these entries, each for one stream."""
    by_stream: dict[str, list[str]] = {}
    for key in keys:
        stream, _, entry_id = key.rpartition("\n")
        by_stream.setdefault(stream, []).append(entry_id)
    return [
        {**({"stream": stream} if stream else {}), "ids": ids[at : at + FRAME_IDS_MAX]}
        for stream, ids in by_stream.items()
        for at in range(0, len(ids), FRAME_IDS_MAX)
    ]
