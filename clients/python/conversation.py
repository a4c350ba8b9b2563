"""Conversation: the WebSocket protocol between a client and the gateway, without I/O.

The owner of the socket calls `begin` after opening it and `receive` with each frame, sends the
frames that `frames_to_send` returns, and calls `lost` when it is closed. Subscriptions outlive the
connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from headgate.client.problems import NotLeader, problem_of
from headgate.client.subscription import Subscription

SUBPROTOCOL = "headgate.v1.json"

_RETRY_S = 1.0
"""Pause before a subscription is tried again, unless the gateway sets one."""


class Conversation:
    def __init__(self, want_to_send: Callable[[], None], on_known: Callable[[], None]) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.is_open = False
        self.was_served = False  # a subscription was confirmed on this connection
        self.reconnect_after_s: float | None = None  # from the frame `draining`
        self.problem: Exception | None = None  # of the connection as a whole
        self.not_leader: NotLeader | None = None  # the gateway cannot change streams
        self.expires_at_ms: int | None = None  # when the token ends
        self.refused: list[tuple[Subscription, float]] = []  # with the seconds until a retry
        self._want_to_send = want_to_send
        self._on_known = on_known
        self._frames: list[dict[str, Any]] = []
        self._unanswered: dict[str, str] = {}  # subscriptions by rid of frames that settle
        self._on_quiet: dict[str, Callable[[], None]] = {}
        self._rids = count(1)
        self._names = count(1)

    def add(self, wanted: Mapping[str, Any], *, credit: int) -> Subscription:
        """Return a new subscription, which starts when there is a connection."""
        subscription = Subscription(str(next(self._names)), wanted, credit=credit)
        self.subscriptions[subscription.name] = subscription
        if self.is_open:
            self._say(subscription.subscribe_frame())
        return subscription

    def resubscribe(self, subscription: Subscription) -> None:
        if self.is_open and subscription.name in self.subscriptions:
            self._say(subscription.subscribe_frame())

    def leave(self, subscription: Subscription) -> None:
        """End a subscription. Unsettled entries of a group go back or are kept, by its options."""
        if self.subscriptions.pop(subscription.name, None) is not None and self.is_open:
            self._say({"type": "unsubscribe", "sub": subscription.name})
        self._quiet(subscription.name)

    def when_quiet(self, subscription: Subscription, done: Callable[[], None]) -> None:
        """Call `done` when everything that a subscription has settled is answered or lost."""
        self._on_quiet[subscription.name] = done
        is_there = self.is_open and subscription.name in self.subscriptions
        if not is_there or not self._is_busy(subscription):
            self._quiet(subscription.name)

    # The connection

    def begin(self, token: str | None = None) -> None:
        """Begin on an open connection. `token` is None if it cannot be renewed."""
        self.is_open = True
        self.problem = self.not_leader = self.reconnect_after_s = None
        self._frames, self.refused, self.was_served = [], [], False
        self.authenticate(token)
        for subscription in self.subscriptions.values():
            self._say(subscription.subscribe_frame())

    def authenticate(self, token: str | None) -> None:
        if token is not None:
            self._say({"type": "auth", "rid": "auth", "token": token})

    def lost(self) -> None:
        self.is_open = False
        self._frames = []
        self._unanswered = {}
        for subscription in list(self.subscriptions.values()):
            subscription.lost()
            self._quiet(subscription.name)

    def frames_to_send(self) -> list[str]:
        frames, self._frames = self._frames, []
        for subscription in self.subscriptions.values():
            if subscription.has_frames:
                for frame in subscription.frames():
                    if "ids" in frame:
                        frame["rid"] = rid = f"r{next(self._rids)}"
                        self._unanswered[rid] = subscription.name
                    frames.append(frame)
        return [json.dumps(frame, separators=(",", ":")) for frame in frames]

    def receive(self, text: str | bytes) -> None:
        frame = json.loads(text)
        kind = frame["type"]
        subscription = self.subscriptions.get(frame.get("sub", ""))
        if kind in ("entries", "rows"):
            if subscription is not None:
                subscription.take(frame)
                if subscription.has_frames:
                    self._want_to_send()
        elif kind in ("acked", "ok"):
            self._answered(frame, subscription)
        elif kind == "problem":
            self._refused(frame, subscription)
        elif kind == "draining":
            self.reconnect_after_s = frame["reconnect_after_ms"] / 1000
        elif kind == "authenticated":
            self.expires_at_ms = frame.get("expires_at_ms")
            self._on_known()
        elif subscription is not None:
            self._about(subscription, kind, frame)

    def _about(self, subscription: Subscription, kind: str, frame: Mapping[str, Any]) -> None:
        if kind == "subscribed":
            self.was_served = True
            subscription.subscribed(frame)
        elif kind == "message":
            subscription.hear(frame)
        elif kind == "state":
            subscription.changed(frame["state"])
        elif kind == "claimed":
            subscription.claimed(frame["ids"], frame["by"])
        elif kind == "closed":
            subscription.changed("closed")
            self._end(subscription)
        elif kind == "unsubscribed":  # a final `problem` has ended it before this
            subscription.lost()
            self.refused.append((subscription, _RETRY_S))

    def _answered(self, frame: Mapping[str, Any], subscription: Subscription | None) -> None:
        self._unanswered.pop(frame.get("rid", ""), None)
        if subscription is not None:
            subscription.settled(frame["results"], frame.get("stream"))
            if not self._is_busy(subscription):
                self._quiet(subscription.name)

    def _refused(self, frame: Mapping[str, Any], subscription: Subscription | None) -> None:
        problem = problem_of(frame["problem"])
        if isinstance(problem, NotLeader):
            self.not_leader = problem
        name = self._unanswered.pop(frame.get("rid", ""), None)
        if subscription is None or name is not None:
            if name is not None:
                self._quiet(name)
            else:
                self.problem = problem
        elif problem.retryable:
            self.refused.append((subscription, problem.retry_after_s or _RETRY_S))
        else:
            self._end(subscription, problem)

    def _end(self, subscription: Subscription, failure: Exception | None = None) -> None:
        self.subscriptions.pop(subscription.name, None)
        subscription.end(failure)
        self._quiet(subscription.name)

    def _is_busy(self, subscription: Subscription) -> bool:
        return subscription.has_frames or subscription.name in self._unanswered.values()

    def _quiet(self, name: str) -> None:
        done = self._on_quiet.pop(name, None)
        if done is not None:
            done()

    def _say(self, frame: dict[str, Any]) -> None:
        self._frames.append(frame)
        self._want_to_send()
