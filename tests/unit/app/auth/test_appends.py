"""Appends: what is known to be allowed is allowed again, and nothing else is."""

from __future__ import annotations

import pytest

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.limits.usage import RateLimited, Usage
from headgate.app.auth.principal import Forbidden, Principal, Unauthenticated
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.entries import Add, TrimTo
from headgate.engine.requests.idempotency import Idempotent
from tests.unit.driver import Driver

DRAFTS = [Draft(None, (b"k", b"v"))]


def access(*grants: Grant, limits: UsageLimits | None = None) -> Access:
    principal = Principal("ana", [grant.bind({}) for grant in grants])
    usage = Usage(limits or UsageLimits(), lambda: 0.0)
    return Access(EmbeddedBackend(Driver()), principal, Audit(lambda: 0.0), usage)


MAKES = Grant(streams=["news*"], do=[Verb.APPEND], create=True)


async def test_an_append_that_was_allowed_is_allowed_again_on_this_stream_only() -> None:
    ana = access(MAKES)
    for _ in range(3):
        await ana.perform(Add(b"news", DRAFTS))
        with pytest.raises(Forbidden):
            await ana.perform(Add(b"jobs", DRAFTS))
    with pytest.raises(Forbidden, match="manage"):
        await ana.perform(Add(b"news", DRAFTS, trim=TrimTo(max_length=1)))
    ana.principal.end("revoked")
    with pytest.raises(Unauthenticated):
        await ana.perform(Add(b"news", DRAFTS))


async def test_an_idempotency_key_stays_that_of_its_principal() -> None:
    ana = access(MAKES)
    ben = Principal("ben", [MAKES.bind({})])
    other = Access(ana.backend, ben, ana.audit)
    keyed = Add(b"news", DRAFTS, Idempotent(b"writer", b"1"))
    for each in (ana, other):
        await each.perform(Add(b"news", DRAFTS))

    added = [await each.perform(keyed) for each in (ana, other)]

    assert [each.is_repeat for each in added] == [False, False]


async def test_who_may_not_create_a_stream_never_does() -> None:
    ana = access(Grant(streams=["news"], do=[Verb.APPEND]))
    for _ in range(2):
        with pytest.raises(Forbidden, match="create"):
            await ana.perform(Add(b"news", DRAFTS))
        with pytest.raises(StreamNotFound):
            await ana.perform(Add(b"news", DRAFTS, create_stream=False))


async def test_long_names_are_not_remembered() -> None:
    ana = access(Grant(streams=["*"], do=[Verb.APPEND], create=True))
    for number in range(5_000):
        ana.admit(Add(b"%d" % number, DRAFTS))
        ana.admit(Add(b"x" * 100_000 + b"%d" % number, DRAFTS))

    assert sum(map(len, ana.principal.appendable)) < 100_000


async def test_limits_of_use_hold_for_what_is_allowed() -> None:
    ana = access(MAKES, limits=UsageLimits(entries_per_s_max=2))
    await ana.perform(Add(b"news", DRAFTS * 2))

    with pytest.raises(RateLimited):
        await ana.perform(Add(b"news", DRAFTS))
