"""Acts: what users do to a push, and what they are told of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import reduce
from typing import Any, NamedTuple

from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Forbidden, Need
from headgate.app.automation import pushes, replays
from headgate.app.automation.bodies import PushRequest
from headgate.app.automation.pusher import Posting
from headgate.app.automation.pushes import (
    PushDefinition,
    PushedGroups,
    PushPlace,
    PushRecord,
    StoredPush,
)
from headgate.app.automation.replays import ReplayRange, ReplayRecord
from headgate.app.automation.signing import (
    KeyMissing,
    PushSecrets,
    Sealing,
    known_key,
    new_secret,
    opened_push,
    public_text,
    signing_key,
)
from headgate.app.automation.targets import TargetRefused, Targets
from headgate.app.automation.webhooks import Sender
from headgate.app.backends.port import Perform
from headgate.app.wire.filters import both, filter_text
from headgate.app.wire.ids import parse_bound
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.pushes import (
    PatternPushInput,
    Push,
    PushAttempt,
    PushInput,
    PushPhase,
    PushReplay,
    PushReplayInput,
    PushSummary,
    ReplayState,
    RetriedPush,
    SecretRotation,
    SignatureKind,
)
from headgate.app.wire.schemas.pattern_groups import MissingGroups, weights_of
from headgate.engine.clock import SystemClock
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import NotFound, StreamsChanged
from headgate.engine.replies import Delivery, PendingItem
from headgate.engine.requests.deliveries import ListPending, Nack, NackMode, ReadGroups
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.keyspace import UNRESERVED, NameFilter, TellTime

_TRIES_MAX = 10
_RETRIED_MAX = 10_000
_RETRIED_AT_ONCE = 1_000
_SOON_MS = 500
_TEST_SLACK_MS = 5_000
_REPLAYING = "a replay of this push is running: wait until it is done, or cancel it"
_NONE = "This group has no push."
_NO_KEY = "the key that encrypted the secrets is missing: set the push again"
_RACED = "Other clients are changing this push at the same time."
_TEST_MARK = {"headgate-test": "true"}
_TO_SET = Verb.PUSH, Verb.MANAGE, Verb.CONSUME


class PushTools(NamedTuple):
    perform: Perform
    targets: Targets
    sealing: Sealing
    now_ms: Callable[[], int]
    sender: Sender  # of test events

    async def described(self, push: PushRecord) -> Push:
        stored = await pushes.load(self.perform, push.name)
        answers, _ = await pushes.attempts(self.perform, push.name)
        return {**await self.summary(push, stored), "answers": [answer.wire for answer in answers]}

    async def summary(self, push: PushRecord, stored: StoredPush | None) -> PushSummary:
        held = await self.sealing.unseal(push.sealed, PushSecrets)
        definition = push.definition
        replay = await replays.load(self.perform, push.name)
        previous_ms = 0 if held is None else held.previous_until_ms
        key = None
        if definition.signature is SignatureKind.ED25519:
            key = await known_key(self.perform, self.sealing)
        return {
            "stream": text_of(push.stream),
            **_pattern_wire(push),
            "group": text_of(push.group),
            "url": None if held is None else held.url,
            "concurrency": definition.concurrency,
            "timeout_ms": definition.timeout_ms,
            "body": definition.body,
            "batch_max": definition.batch_max,
            "signature": definition.signature,
            "disable_after_ms": definition.disable_after_ms,
            "attempts_days": definition.attempts_days,
            "header_names": [] if held is None else sorted(held.headers),
            "state": PushPhase.UNREADABLE if held is None else push.phase,
            "failing_since_ms": push.failing_since_ms,
            "failure_count": push.failures,
            "disabled_at_ms": push.disabled_at_ms,
            "disabled_reason": push.disabled_reason,
            "public_key": None if key is None else public_text(key),
            "previous_secret_until_ms": previous_ms if previous_ms > self.now_ms() else None,
            "created_at_ms": push.created_at_ms,
            "delivered_count": 0 if stored is None else stored.counts.delivered,
            "failed_count": 0 if stored is None else stored.counts.failed,
            "replay": None if replay is None else replay.replay.wire,
        }


def _pattern_wire(push: PushRecord) -> Any:
    groups = push.groups
    if groups is None:
        return {}
    return {
        "match": text_of(push.stream),
        "weights": {text_of(stream): weight for stream, weight in groups.weights.items()},
        "create": None if groups.create is None else MissingGroups.wire(groups.create),
    }


def may_manage(access: Access, push: PushRecord, verb: Verb = Verb.MANAGE) -> bool:
    """Return whether one may do this to a push: over a pattern, in all streams that it may read."""
    if push.groups is None:
        return access.principal.may(Need((verb,), push.stream, push.group))
    reach = access.principal.reach((verb,), push.group)
    return reach is None or reach.covers(push.groups.names_for(push.stream))


class PushActs:
    """The acts of a user on one push."""

    def __init__(self, access: Access, place: PushPlace, tools: PushTools) -> None:
        self._access, self._place, self._tools = access, place, tools
        self._perform = tools.perform

    async def put(self, new: PushInput) -> tuple[Push, bool]:
        """Set the push, and return it and whether it is new."""
        place = self._place
        if not place.is_pattern:
            self._require(*_TO_SET)
        with self._act("set"):
            groups = None
            if isinstance(new, PatternPushInput):
                groups = await self._groups(new)
            else:
                await self._access.perform(DescribeGroup(place.stream, place.group))
            try:
                self._tools.targets.check(new.url)
            except TargetRefused as error:
                raise GatewayError("invalid_request", f"{error}", pointer="/body/url") from None
            for _ in range(_TRIES_MAX):
                before = await pushes.load(self._perform, place.name)
                try:
                    held, is_new, push = await self._definition(new, groups, before)
                    await pushes.write(self._perform, push, before)
                except StreamsChanged:
                    continue
                except KeyMissing as error:
                    text = f"secrets cannot be stored: {error}"
                    raise GatewayError("not_supported", text) from None
                answer = await self._tools.described(push)
                return ({**answer, "secret": held.secret} if is_new else answer), before is None
        raise GatewayError("overloaded", _RACED)

    async def describe(self) -> Push:
        return await self._tools.described((await self._stored()).push)

    async def attempts(
        self, limit: int, *, before: EntryId | None, of: EntryId | None
    ) -> tuple[list[PushAttempt], EntryId | None]:
        """Return attempts, newest first, and where to continue; see `pushes.attempts`."""
        name = (await self._stored()).name
        found, end = await pushes.attempts(self._perform, name, limit, before=before, of=of)
        return [attempt.wire for attempt in found], end

    async def delete(self) -> None:
        stored = await self._stored()
        with self._act("delete"):
            await pushes.delete(self._perform, stored.name)

    async def pause(self) -> Push:
        return await self._changed("pause", lambda push: replace(push, is_paused=True))

    async def resume(self) -> Push:
        return await self._changed("resume", _resumed, Verb.PUSH)

    async def retry(self) -> RetriedPush:
        push, count = (await self._stored()).push, 0
        with self._act("retry"):
            async for stream in pushes.streams_of(self._perform, push):
                with suppress(NotFound):  # it is gone by now, or has no such group
                    count += await self._retry_in(stream, _RETRIED_MAX - count)
                if count >= _RETRIED_MAX:
                    break
            await self._change(lambda push: replace(push, retry_count=push.retry_count + 1))
            return RetriedPush(entries=count)

    async def test(self) -> PushAttempt:
        """Send a request that says that it is a test. No entry and no count is changed."""
        push, tools = (await self._stored(Verb.PUSH)).push, self._tools
        with self._act("test"):
            opened = await opened_push(self._perform, tools.sealing, push)
            if opened is None:
                raise GatewayError("not_supported", _NO_KEY)
            now_ms = tools.now_ms()
            until_ms = now_ms + push.definition.timeout_ms + _TEST_SLACK_MS
            if not await pushes.begin_test(self._perform, push.name, now_ms, until_ms):
                raise GatewayError("rate_limited", "a test event of this push is being sent")
            try:
                async with tools.sender.places.within(push.name):
                    posting = Posting(tools.sender, SystemClock(), push, *opened)
                    webhook_id = f"msg_test_{secrets.token_hex(10)}"
                    answer = await posting.post(_test_of(push), webhook_id, _TEST_MARK)
            finally:
                await pushes.end_test(self._perform, push.name, until_ms)
            return answer.wire

    async def replay(self, wanted: PushReplayInput) -> PushReplay:
        """Count the entries of a range, and send them again unless it is a dry run."""
        start = parse_bound(wanted.start, field="/body/start")
        end = parse_bound(wanted.end, field="/body/end", is_end=True)
        filters = filter_text(wanted.filter, pointer="/body/filter")
        name, place = (await self._stored(Verb.PUSH, Verb.CONSUME)).name, self._place
        group = await self._perform(DescribeGroup(place.stream, place.group))
        filters = both(group.policy.filters, filters, pointer="/body/filter")
        bounds = ReplayRange(start, min(end, group.last_id), filters)
        counted = await replays.count(self._perform, place.stream, bounds)
        now_ms = self._tools.now_ms()
        new = ReplayRecord(secrets.token_hex(8), bounds, start, now_ms, *counted)
        if wanted.dry_run:
            return replace(new, state=ReplayState.COUNTED).wire
        with self._act("replay"):
            before = await replays.load(self._perform, name)
            if before is not None and before.replay.is_running:
                raise GatewayError("limit_reached", _REPLAYING)
            try:
                await replays.write(self._perform, name, new, before)
            except StreamsChanged:
                raise GatewayError("overloaded", _RACED) from None
            await pushes.announce(self._perform, name)
        return new.wire

    async def cancel_replay(self) -> PushReplay:
        name = (await self._stored()).name
        with self._act("cancel", "Replay"):
            replay = await replays.cancel(self._perform, name, self._tools.now_ms())
            if replay is None:
                raise GatewayError("not_found", "No replay of this push is running.")
        return replay.wire

    async def rotate(self, rotation: SecretRotation | None) -> Push:
        tools, rotation = self._tools, rotation or SecretRotation.model_validate({})
        before = await self._stored()
        with self._act("rotate", "Secret"):
            for _ in range(_TRIES_MAX):
                held = await tools.sealing.unseal(before.push.sealed, PushSecrets)
                if held is None:
                    raise GatewayError("not_supported", _NO_KEY)
                held = held.rotated(tools.now_ms(), rotation.overlap_ms)
                push = replace(before.push, sealed=await tools.sealing.seal(held))
                try:
                    await pushes.write(self._perform, push, before)
                except StreamsChanged:
                    before = await self._stored()
                    continue
                return {**await tools.described(push), "secret": held.secret}
        raise GatewayError("overloaded", _RACED)

    def _act(self, act: str, what: str = "") -> AbstractContextManager[None]:
        kind = "PatternPush" if self._place.is_pattern else "Push"
        return self._access.act(f"{act}{kind}{what}")

    def _require(self, *verbs: Verb) -> None:
        place = self._place
        self._access.require([Need((verb,), place.stream, place.group) for verb in verbs])

    async def _stored(self, *verbs: Verb) -> StoredPush:
        """Return the push, if one may manage it and has `verbs` as well.

        Of a push over a pattern only the stored one says what it reads. So whoever may not manage
        it is told no more than whoever asks for one that does not exist.
        """
        place = self._place
        if not place.is_pattern:
            self._require(Verb.MANAGE, *verbs)
            await self._access.perform(DescribeGroup(place.stream, place.group))
        stored = await pushes.load(self._perform, place.name)
        if stored is None or not may_manage(self._access, stored.push):
            raise GatewayError("not_found", _NONE)
        for verb in verbs:
            self._check(stored, verb)
        return stored

    def _check(self, stored: StoredPush, verb: Verb) -> None:
        if not may_manage(self._access, stored.push, verb):
            refusal = Forbidden(f"{verb} in all streams that the push may read")
            self._access.audit.denial(refusal, self._access.principal, None)
            raise refusal

    async def _groups(self, new: PatternPushInput) -> PushedGroups:
        """Return what is read: the streams in which one could set a push of the group."""
        place, access = self._place, self._access
        reaches = [access.principal.reach((verb,), place.group) for verb in _TO_SET]
        groups = PushedGroups(reduce(NameFilter.within, reaches, UNRESERVED))
        if groups.names_for(place.stream) == NameFilter():  # everybody could manage it
            access.require([Need((verb,), None, place.group) for verb in _TO_SET])
        weights, create = weights_of(new.weights, pointer="/body/weights"), None
        if new.create is not None:
            create = new.create.to_engine()._replace(since_ms=await self._perform(TellTime()))
        reading = access.admit(
            ReadGroups(place.stream, place.group, b"", weights=weights, create=create)
        )
        assert isinstance(reading, ReadGroups)
        # A read of no stream tells what is wrong with the pattern, the weights or the policy.
        await self._perform(replace(reading, only=NameFilter()))
        return replace(groups, weights=weights, create=reading.create)

    async def _definition(
        self, new: PushInput, groups: PushedGroups | None, before: StoredPush | None
    ) -> tuple[PushSecrets, bool, PushRecord]:
        """Return the secrets, whether they are new, and the push to write."""
        tools, place, old = self._tools, self._place, None
        if before is not None:
            self._check(before, Verb.MANAGE)
            old = await tools.sealing.unseal(before.push.sealed, PushSecrets)
        if old is None:
            names = place.stream, place.group
            held = PushSecrets(
                *names, new.url, new_secret(), new.headers, is_pattern=place.is_pattern
            )
        else:
            held = replace(old, url=new.url, headers=new.headers)
        is_by_key = new.signature is SignatureKind.ED25519
        if is_by_key and await signing_key(self._perform, tools.sealing) is None:
            raise KeyMissing("the key that encrypted the signing key of `v1a` is missing")
        definition = PushDefinition(
            new.concurrency,
            new.timeout_ms,
            new.body,
            new.batch_max,
            new.signature,
            new.disable_after_ms,
            new.attempts_days,
        )
        sealed = await tools.sealing.seal(held)
        if before is not None:
            groups = groups and groups.since(before.push.groups)
            changed = replace(before.push, definition=definition, sealed=sealed, groups=groups)
            return held, old is None, changed
        push = PushRecord(place.stream, place.group, definition, sealed, tools.now_ms())
        return held, True, replace(push, maker=self._access.maker, groups=groups)

    async def _changed(
        self, act: str, make: Callable[[PushRecord], PushRecord], *verbs: Verb
    ) -> Push:
        await self._stored(*verbs)
        with self._act(act):
            push = await self._change(make)
        return await self._tools.described(push)

    async def _change(self, make: Callable[[PushRecord], PushRecord]) -> PushRecord:
        try:
            push = await pushes.change(self._perform, self._place.name, make)
        except StreamsChanged:
            raise GatewayError("overloaded", _RACED) from None
        if push is None:
            raise GatewayError("not_found", _NONE)
        return push

    async def _retry_in(self, stream: bytes, count_max: int) -> int:
        """Let failed entries of a stream be due at once, and return how many they are."""
        place, count = (stream, self._place.group), 0
        start: EntryId | None = MIN_ID
        while start is not None and count < count_max:
            items = await self._perform(ListPending(*place, start, limit=_RETRIED_AT_ONCE))
            ids = [item.id for item in items if _has_failed(item)]
            if ids:
                await self._perform(Nack(*place, ids, NackMode.FAIL, delay_ms=0))
                count += len(ids)
            start = items[-1].id.next() if len(items) == _RETRIED_AT_ONCE else None
        return count


def _has_failed(item: PendingItem) -> bool:
    """Return whether an entry waits after a failure, and not for its own delivery time.

    An entry that is due soon may be with a reader before it could be released.
    """
    return item.consumer is None and item.delivery_count > 0 and item.delay_ms > _SOON_MS


def _test_of(push: PushRecord) -> PushRequest:
    entry = Delivery(MIN_ID, (b"test", b"true"), 0, 0, None)  # no entry has this id
    return PushRequest(push.stream, [entry], 0)


def _resumed(push: PushRecord) -> PushRecord:
    return replace(
        push,
        is_paused=False,
        failing_since_ms=None,
        failures=0,
        disabled_at_ms=None,
        disabled_reason=None,
        retry_count=push.retry_count + 1,
    )
