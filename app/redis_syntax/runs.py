"""Runs Redis commands on a backend, one by one or as a transaction."""

import time
from collections.abc import Sequence
from copy import copy
from typing import Any, Self, TypeVar

from headgate.app.auth.access import Access
from headgate.app.auth.metering import delivered_in
from headgate.app.backends.payloads import PAYLOADS, PayloadsBusy, PayloadTooLarge
from headgate.app.backends.port import Backend, Way
from headgate.app.rdb.source import Share
from headgate.app.redis_syntax.catalog import has_arity
from headgate.app.redis_syntax.command import AnyCommand, LargeReply, exact_error_text
from headgate.app.redis_syntax.commands.appends import id_reply, plain_drafts
from headgate.app.redis_syntax.replies import Reply, long_ranges_in
from headgate.app.redis_syntax.server import WHO_AM_I, ServerCommands, find, who_is
from headgate.app.redis_syntax.words import AnyPlan, Bounds, CommandError, failing, wrong_arity
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft
from headgate.engine.errors import (
    MemoryFull,
    SeveralSlots,
    StreamError,
    TransactionTooLong,
    Unavailable,
)
from headgate.engine.limits import (
    COMMAND_NAME_BYTES_MAX,
    COMMAND_WORDS_MAX,
    QUEUES_MAX,
    TRANSACTION_COMMANDS_MAX,
    TRANSACTION_WORDS_MAX,
)
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, OpenRanges
from headgate.engine.requests.keyspace import GetRevisions, IfUnchanged
from headgate.engine.threads import this_turn

T = TypeVar("T")

_LONG = frozenset(b"XREAD XREADGROUP KEYS SCAN SAVE WAIT WAITAOF DUMP RESTORE".split())

_ABOUT_ALL = frozenset({b"COMMAND", b"INFO", b"KEYS"})
_ABOUT_ALL_MAX = 4  # each is about all streams, or all commands


class CommandRunner:
    """Runs commands and counts them. A command that fails raises a `StreamError`.

    `error_text` turns the error into the text of the reply.
    """

    def __init__(
        self, backend: Backend, bounds: Bounds | None = None, server: ServerCommands | None = None
    ) -> None:
        """`bounds` are those of each reply; without `server` it counts for this process."""
        self._backend = backend
        self.caller: Access | None = None  # None: the process itself, which may do everything
        self.server = server or ServerCommands(backend)
        self.bounds = bounds or Bounds()
        self._commands = self.server.commands_by_name
        self._subcommands = self.server.subcommands_by_name

    def with_long_arrays(self) -> Self:
        """Return a runner whose replies may be unlimited, if the backend supports that."""
        runner = copy(self)
        are_open = self._backend.way_of(OpenRanges) is not Way.NOT
        runner.bounds = self.bounds._replace(are_open=are_open)
        return runner

    def by(self, caller: Access) -> Self:
        runner = copy(self)
        runner.caller = caller
        return runner

    def may_wait(self, words: Sequence[bytes]) -> bool:
        return bool(words) and words[0].upper() in _LONG

    def only_reads(self, words: Sequence[bytes]) -> bool:
        return find(words, self._commands, self._subcommands)[0].only_reads

    async def run(self, words: Sequence[bytes]) -> Reply:
        """Run one command, which may block. Raises StreamError if it failed."""
        entry, name = self._find(words)
        with self.server.running(name, words):
            return await self._run(entry, words)

    def check(self, words: Sequence[bytes]) -> None:
        """Raise CommandError if the caller could not run a command with any arguments."""
        self._check(self._find(words)[0])

    def name(self, words: Sequence[bytes]) -> str:
        """Return the name of a command; raises CommandError as `check`."""
        entry, name = self._find(words)
        self._check(entry)
        return name

    async def run_each(self, commands: Sequence[Sequence[bytes]]) -> Sequence[Reply | StreamError]:
        """Run commands in order, each by itself, and wait once until all are durable (a pipeline).

        None of them blocks. A command that fails does not stop the commands after it.

        1. Make a request of each command, up to the first one whose words are wrong.
        2. Carry the requests out. The backend may stop before the last one.
        3. Make the replies of those that were carried out.
        """
        drafts = plain_drafts(commands)
        if len(drafts) > 1 or (drafts and len(commands) == 1):
            replies_to_appends = await self._append(commands[0], drafts)
            if replies_to_appends is not None:
                return replies_to_appends
        began_s = time.perf_counter()
        with PAYLOADS.share() as share:
            try:
                plans = await self._plans(commands, share)
            except StreamError as error:
                return [error.with_traceback(None)]
            outcomes = await self._perform_in_order([plan.request for plan, _ in plans])
        replies: list[Reply | StreamError] = []
        each_s = (time.perf_counter() - began_s) / len(outcomes)
        for (plan, name), words, outcome in zip(plans, commands, outcomes, strict=False):
            self.server.slow_log.note(name, words, each_s)
            try:
                replies.append(await self._whole_reply(plan, outcome))
                self.server.count(name, each_s)
            except StreamError as error:
                replies.append(error.with_traceback(None))  # or its frames lead back to it
                self.server.count(name, each_s, error)
        return replies

    async def _append(
        self, words: Sequence[bytes], drafts: Sequence[Draft]
    ) -> list[Reply | StreamError] | None:
        """Append several XADDs together, in a third of the time; None if one of them failed."""
        began_s, count = time.perf_counter(), len(drafts)
        if len(words[1]) > COMMAND_NAME_BYTES_MAX or (
            self.caller is not None and self.caller.is_limited
        ):
            return None
        try:
            self._check(self._commands[b"XADD"])
            added = await self._perform(Add(words[1], drafts))
        except Unavailable as error:  # the entries may be there
            return [error.with_traceback(None)] * count
        except StreamError:
            return None
        each_s = (time.perf_counter() - began_s) / count
        self.server.count("xadd", each_s, calls=count)
        self.server.slow_log.note("xadd", words, each_s)  # the first stands for all
        return list(map(id_reply, added.ids))

    async def _plans(
        self, commands: Sequence[Sequence[bytes]], share: Share
    ) -> list[tuple[AnyPlan, str]]:
        """Return the plans and names of the leading commands, as many as a turn has time for.

        What may open a range does so after all of them, so no change comes after it. Raises
        StreamError if the first command cannot be run.
        """
        plans: list[tuple[AnyPlan, str]] = []
        turn, may_open = this_turn(), False
        for words in commands:
            try:
                entry, name = self._find(words)
                self._check(entry)
            except StreamError:
                if not plans:
                    raise
                break
            if may_open and not entry.only_reads:
                break
            plan = self._plan(entry, words, self.bounds)
            if plan.prepare is not None and plans:
                break  # what is before it need not wait for it
            plans.append((await self._prepared(plan, share), name))
            may_open = may_open or plan.open is not None
            if turn.is_over:
                break
        return plans

    async def _prepared(self, plan: AnyPlan, share: Share) -> AnyPlan:
        """Return the plan to execute; nothing is prepared that the caller may not do."""
        if plan.prepare is None:
            return plan
        self._admitted(plan.request)
        return await plan.prepare(share)

    async def _perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        if self.caller is None:
            return await self._backend.perform_in_order(requests)
        outcomes = await self.caller.perform_in_order(requests)
        return [
            _refusal(outcome) if isinstance(outcome, GatewayError) else outcome
            for outcome in outcomes
        ]

    async def _run(self, entry: AnyCommand, words: Sequence[bytes]) -> Reply:
        self._check(entry)
        plan = entry.read(words, self.bounds)
        self._require(plan)
        share = None if plan.prepare is None else PAYLOADS.share()
        try:
            if share is not None:
                plan = await self._prepared(plan, share)
            try:
                outcome = await self._perform(plan.request)
            except StreamError as error:
                outcome = error
            return await self._whole_reply(plan, outcome)
        except StreamError as error:
            # The frames that an error keeps must not lead back to it: that would be a cycle.
            outcome = None
            del plan
            raise error.with_traceback(None) from None
        finally:
            if share is not None:
                share.close()

    async def watch(self, streams: Sequence[bytes]) -> IfUnchanged:
        """Return the condition that streams do not change from now on (WATCH)."""
        if len(streams) > QUEUES_MAX:
            raise CommandError(f"ERR one watch takes at most {QUEUES_MAX} keys")
        return IfUnchanged(streams, await self._perform(GetRevisions(streams)))

    async def run_all(
        self, commands: Sequence[Sequence[bytes]], condition: IfUnchanged | None = None
    ) -> list[Reply | StreamError]:
        """Run commands in order with nothing in between; none of them blocks (MULTI, EXEC).

        A command that fails does not stop the commands after it. All replies together keep within
        the bounds of one reply. Raises StreamsChanged if `condition` (see `watch`) does not hold,
        and CommandError for an unknown command or a wrong number of arguments; then no command is
        run.
        """
        turn = this_turn()
        try:
            _check_transaction(commands)
            entries = []
            for words in commands:
                entries.append(self._find(words))
                self._check(entries[-1][0])
                await turn.pause()
        except StreamError as error:
            raise _aborted(error) from None
        reads = sum(isinstance(entry, LargeReply) for entry, _ in entries)
        bounds = self.bounds.shared(max(reads, 1))  # no range is read on in a transaction
        plans, requests = list[AnyPlan](), list[Request[Any]]()
        try:
            with PAYLOADS.share() as share:
                for (entry, _), words in zip(entries, commands, strict=True):
                    plan = self._plan(entry, words, bounds)
                    plans.append(await self._prepared(plan, share))
                    requests.append(self._admitted(plans[-1].request))
                    await turn.pause()
                outcomes = await self._perform_all(requests, condition)
        except _ABORTING as error:
            raise _aborted(error) from None
        if self.caller is not None:
            self.caller.settle(requests, outcomes)
        replies: list[Reply | StreamError] = []
        for (_, name), plan, admitted, outcome in zip(
            entries, plans, requests, outcomes, strict=True
        ):
            try:
                self._check_created(plan.request, admitted, outcome)
                reply = self._reply(plan, outcome)
                replies.append(reply if plan.finish is None else await plan.finish(reply))
                self.server.count(name)
            except StreamError as error:
                replies.append(error.with_traceback(None))  # or its frames lead back to it
                self.server.count(name, failure=error)
            await turn.pause()
        return replies

    async def _perform_all(
        self, requests: Sequence[Request[Any]], condition: IfUnchanged | None
    ) -> list[Any | StreamError]:
        self._charge(requests)
        if condition is None:
            return await self._backend.perform_all(requests)
        return (await self._backend.perform_all([condition, *requests]))[1:]

    async def _whole_reply(self, plan: AnyPlan, outcome: Any) -> Reply:
        """Return a reply; one that is too long is opened, to be read page by page."""
        is_limited = self.caller is not None and self.caller.is_limited
        opening = None if plan.open is None or is_limited else plan.open(outcome)
        if opening is None:
            reply = self._reply(plan, outcome)
            return reply if plan.finish is None else await plan.finish(reply)
        try:
            outcome = await self._perform(opening.request)
        except StreamError as error:
            outcome = error
        reply = self._reply(opening, outcome)
        for long in long_ranges_in(reply):
            long.perform = self._perform
        return reply

    def _reply(self, plan: AnyPlan, outcome: Any) -> Reply:
        self.server.delivered_count += delivered_in(plan.request, outcome)
        return plan.reply(outcome)

    def _check(self, entry: AnyCommand) -> None:
        """Refuse a command that the caller has no permission for on any stream."""
        if self.caller is not None:
            try:
                self.caller.check(entry.verbs)
            except GatewayError as error:
                raise _refusal(error) from None

    def _plan(self, entry: AnyCommand, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return the plan of a command; if that is wrong or refused, it fails when it is run."""
        try:
            plan = entry.read(words, bounds)
            self._require(plan)
        except StreamError as error:
            return failing(error)
        return plan

    def _require(self, plan: AnyPlan) -> None:
        """Refuse what the caller may not do, though the request does not show it."""
        if self.caller is not None and plan.needs:
            try:
                self.caller.require(plan.needs)
            except GatewayError as error:
                raise _refusal(error) from None

    def _admitted(self, request: Request[T]) -> Request[T]:
        if self.caller is None:
            return request
        try:
            return self.caller.admit(request)
        except GatewayError as error:
            raise _refusal(error) from None

    def _charge(self, requests: Sequence[Request[Any]]) -> None:
        if self.caller is not None:
            try:
                self.caller.charge(requests)
            except GatewayError as error:
                raise _refusal(error) from None

    def _check_created(self, request: Request[T], admitted: Request[T], outcome: object) -> None:
        """Refuse a request that is only allowed on an existing stream."""
        if self.caller is not None and isinstance(outcome, StreamError):
            refusal = self.caller.refusal(request, admitted, outcome)
            if refusal is not None:
                raise CommandError(f"NOPERM {refusal}")

    async def _perform(self, request: Request[T]) -> T:
        if self.caller is None:
            return await self._backend.perform(request)
        try:
            return await self.caller.perform(request)
        except GatewayError as error:
            raise _refusal(error) from None

    def _find(self, words: Sequence[bytes]) -> tuple[AnyCommand, str]:
        name = None
        try:
            if len(words) > COMMAND_WORDS_MAX:
                raise CommandError(f"ERR a command has at most {COMMAND_WORDS_MAX} words")
            entry, name = find(words, self._commands, self._subcommands)
            if not has_arity(words, name):
                raise wrong_arity(name)
        except StreamError as error:
            self.server.reject(name, error)
            raise
        if entry is WHO_AM_I and self.caller is not None:
            entry = who_is(self.caller.name)
        return entry, name


def _refusal(error: GatewayError) -> CommandError:
    """Return the Redis error for a refusal; Redis has none for rate limits."""
    if error.code == "unauthenticated":
        return CommandError("NOAUTH Authentication required.")
    return CommandError(f"{'NOPERM' if error.code == 'forbidden' else 'LIMIT'} {error}")


_ABORTING = (
    *(CommandError, PayloadTooLarge, PayloadsBusy),
    *(SeveralSlots, TransactionTooLong, MemoryFull),
)
"""Errors of the first half of a transaction, before any of it is done."""


class _AbortedForNow(CommandError, Unavailable):
    pass


class _AbortedTooLarge(CommandError, PayloadTooLarge):
    pass


def _aborted(error: StreamError) -> CommandError:
    text = "EXECABORT Transaction discarded because of previous errors."
    kind: type[CommandError] = CommandError
    if isinstance(error, PayloadTooLarge):
        kind = _AbortedTooLarge
    elif isinstance(error, Unavailable):
        kind = _AbortedForNow
    return kind(f"{text} ({exact_error_text(error)})")


def check_length(command_count: int, word_count: int) -> None:
    if command_count > TRANSACTION_COMMANDS_MAX:
        raise CommandError(f"ERR a transaction has at most {TRANSACTION_COMMANDS_MAX} commands")
    if word_count > TRANSACTION_WORDS_MAX:
        raise CommandError(f"ERR a transaction has at most {TRANSACTION_WORDS_MAX} words")


def _check_transaction(commands: Sequence[Sequence[bytes]]) -> None:
    check_length(len(commands), sum(map(len, commands)))
    if sum(bool(words) and words[0].upper() in _ABOUT_ALL for words in commands) > _ABOUT_ALL_MAX:
        raise CommandError(
            f"ERR a transaction has KEYS, INFO and COMMAND at most {_ABOUT_ALL_MAX} times"
        )
