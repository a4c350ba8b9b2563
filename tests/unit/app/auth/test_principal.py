"""Principals: their rights, tickets and appends, and what is remembered of credentials."""

from __future__ import annotations

import gc
import sys

import jwt
import pytest
from pydantic import ValidationError

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.grants import EVERYTHING, Grant, Pattern, Right, UsageLimits, Verb
from headgate.app.auth.key_file import ApiKey, KeyText, make_key
from headgate.app.auth.key_ring import KeyRing
from headgate.app.auth.principal import Forbidden, Need, Principal, Unauthenticated, home
from headgate.app.auth.tickets import Scope, Tickets, new_secret
from headgate.app.auth.usage import RateLimited, Usage, Usages
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.gateway.gateway import DrainSignal
from headgate.engine.clock import SystemClock
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamNotFound
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add, TrimTo
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CreateStream, DescribeStream
from tests.unit.driver import Driver
from tests.virtual_time import ManualClock


def test_names_that_are_too_long_for_a_stream_do_not_stay_in_memory() -> None:
    grant = Grant(streams=["news*"], do=[Verb.READ, Verb.APPEND], create=True)
    principal = Principal("somebody", [grant.bind({})])
    for name in (b"news" * 10_000, b"jobs" * 10_000):
        held_count = sys.getrefcount(name)
        for need in (
            Need((Verb.READ,), name),
            Need((Verb.CONSUME,), b"news", name),
            Need((Verb.CONSUME,), b"news", b"workers", name),
        ):
            principal.may(need)
        principal.may_create(name)
        del need
        assert sys.getrefcount(name) == held_count


def test_whoever_fails_at_an_end_keeps_no_other_connection_open() -> None:
    principal, draining, ended = Principal("somebody", []), DrainSignal(), list[int]()

    def fail() -> None:
        raise MemoryError

    for act in (fail, lambda: ended.append(1), fail, lambda: ended.append(2)):
        principal.at_end(act)
    draining.listeners |= {fail, lambda: ended.append(3), lambda: ended.append(4)}
    principal.end("The API key was revoked.")
    draining.set()

    assert sorted(ended) == [1, 2, 3, 4]
    assert draining.is_set()


def grant(pattern: str) -> Grant:
    return Grant(streams=[pattern], do=[Verb.READ])


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("{{acme}}orders", Pattern(b"{acme}orders")),
        ("{{acme}}*", Pattern(b"{acme}", is_prefix=True)),
        ("{{{sub}}}*", Pattern(b"{ann}", is_prefix=True)),
        ("{{chat}}.{sub}.*", Pattern(b"{chat}.ann.", is_prefix=True)),
        *(("{{*", Pattern(b"{", is_prefix=True)), ("{{sub}}", Pattern(b"{sub}"))),
    ],
)
def test_a_pattern_may_have_the_hash_tag_of_streams(text: str, pattern: Pattern) -> None:
    assert grant(text).bind({"sub": "ann"}).streams == (pattern,)


@pytest.mark.parametrize("text", ["{", "}", "{sub", "{sub}}", "{{{sub}}", "{}", "{a b}", "x{{}"])
def test_a_brace_by_itself_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"braces must enclose|should name a claim"):
        grant(text)


NOW_MS = 1_700_000_000_000
READ_NEWS = Scope(frozenset({Verb.READ}), b"news*")
WORK = Scope(frozenset({Verb.CONSUME}), b"jobs", b"workers", b"ann")


def key_of(text: KeyText) -> ApiKey:
    grant = Grant(streams=["news*", "jobs"], do=[Verb.READ, Verb.CONSUME])
    return ApiKey(id=text.id, name="ann", sha256=text.sha256, grants=[grant], created_at_ms=0)


@pytest.fixture
def tickets() -> Tickets:
    return Tickets(new_secret(), KeyRing(), ManualClock(NOW_MS))


CONSUME = (Verb.CONSUME,)


@pytest.mark.parametrize(
    ("scope", "may", "may_not"),
    [
        (
            READ_NEWS,  # a name may end in a star
            Need((Verb.READ,), b"news*"),
            [Need((Verb.READ,), b"news.today"), Need((Verb.APPEND,), b"news*")],
        ),
        (
            WORK,
            Need(CONSUME, b"jobs", b"workers", b"ann"),
            [
                *(Need(CONSUME, b"jobs", b"workers", b"bob"), Need(CONSUME, b"jobs", b"workers")),
                Need(CONSUME, b"jobs", b"others", b"ann"),
            ],
        ),
    ],
)
def test_a_ticket_allows_what_it_says(
    tickets: Tickets, scope: Scope, may: Need, may_not: list[Need]
) -> None:
    ticket, _ = tickets.issue(Principal("ann", (EVERYTHING,), key="kid-1"), scope, 60_000)
    principal = tickets.verify(ticket, home())

    assert (principal.id, principal.parent, principal.key) == ("ann", None, "kid-1")
    assert principal.may(may)
    assert not any(map(principal.may, may_not))
    assert not principal.may_create(b"news*")
    with pytest.raises(Unauthenticated):  # another gateway does not take it
        Tickets(new_secret(), KeyRing(), ManualClock(NOW_MS)).verify(ticket, home())


def test_nobody_gives_away_what_it_has_not(tickets: Tickets) -> None:
    consume, names = frozenset(CONSUME), [(Pattern(name),) for name in (b"jobs", b"workers")]
    as_bob = Right(consume, names[0], names[1], Pattern(b"bob"))
    with pytest.raises(Forbidden):
        tickets.issue(Principal("bob", (as_bob,)), WORK, 60_000)


def test_a_ticket_ends_no_later_than_the_token_of_its_owner() -> None:
    clock = ManualClock(NOW_MS)
    tickets = Tickets(new_secret(), KeyRing(), clock)
    owner = Principal("ann", (EVERYTHING,), expires_at_ms=NOW_MS + 1_500)

    ticket, expires_at_ms = tickets.issue(owner, READ_NEWS, 60_000)

    assert tickets.verify(ticket, home()).expires_at_ms == expires_at_ms == NOW_MS + 1_500
    clock.now_ms = expires_at_ms
    with pytest.raises(Unauthenticated):
        tickets.verify(ticket, home())


def test_a_ticket_ends_with_the_secret_of_the_key_that_made_it() -> None:
    text, other = make_key(), make_key()
    ring = KeyRing({text.id: key_of(text)})
    tickets = Tickets(new_secret(), ring, ManualClock(NOW_MS))
    ticket, _ = tickets.issue(ring.verify(str(text), NOW_MS), READ_NEWS, 60_000)
    principal = tickets.verify(ticket, home())

    ring.replace({text.id: key_of(text).model_copy(update={"sha256": other.sha256})})

    assert principal.ending is not None
    with pytest.raises(Unauthenticated):
        tickets.verify(ticket, home())


def _key(text: KeyText) -> ApiKey:
    grants = [Grant(streams=["news"], do=[Verb.READ])]
    return ApiKey(id=text.id, name="reader", sha256=text.sha256, grants=grants, created_at_ms=0)


@pytest.fixture
def key() -> KeyText:
    return make_key()


def _authenticator(ring: KeyRing) -> Authenticator:
    clock = SystemClock()
    return Authenticator(
        EmbeddedBackend(Engine(MemoryStorage())),
        keys=ring,
        tokens=None,
        tickets=Tickets(new_secret(), ring, clock),
        clock=clock,
        usages=Usages(UsageLimits(), lambda: 0.0),
        audit=Audit(lambda: 0.0),
    )


@pytest.fixture
def auth(key: KeyText) -> Authenticator:
    return _authenticator(KeyRing({key.id: _key(key)}))


def _access_count() -> int:
    return sum(type(each) is Access for each in gc.get_objects())  # some are dead proxies


def test_a_credential_is_remembered_once_if_it_is_good(auth: Authenticator, key: KeyText) -> None:
    auth.by_header(b"Bearer %b" % str(key).encode())
    gc.collect()  # what earlier tests have left would go meanwhile
    remembered_count = _access_count()

    for number in range(1, 100):
        for scheme in (b"Bearer", b"bEARER"):
            spelled = b"%b%b%b" % (scheme, b" " * number, str(key).encode())
            assert auth.by_header(spelled).principal.id == "reader"
        with pytest.raises(Unauthenticated):
            auth.by_header(b"Bearer %b%d" % (str(key).encode(), number))
        with pytest.raises(Unauthenticated):
            auth.by_ticket(f"{number}")
    assert _access_count() == remembered_count


def test_there_is_one_text_of_a_ticket(auth: Authenticator, key: KeyText) -> None:
    principal = auth.verify(str(key))
    ticket, _ = auth.tickets.issue(principal, Scope(frozenset({Verb.READ}), b"news"), 60_000)

    assert auth.by_ticket(ticket).principal.id == "reader"
    for other in (f"{ticket}!", f"{ticket}=", f" {ticket}", f"{ticket}\n", ticket + "!" * 99):
        with pytest.raises(Unauthenticated):
            auth.by_ticket(other)


def test_a_ticket_from_before_there_were_channels_is_still_good() -> None:
    secret = new_secret()
    claims = {
        "aud": "headgate-ticket",
        "sub": "reader",
        "exp": 2**40,
        "end": 2**50,
        "do": ["read"],
        "names": ["news", None, None],
        "anonymous": True,
    }
    tickets = Tickets(secret, KeyRing(), ManualClock(NOW_MS))
    principal = tickets.verify(jwt.encode(claims, secret, "HS256"), home())
    assert principal.may(Need((Verb.READ,), b"news"))


async def test_what_was_opened_without_credentials_needs_one_once_there_are_some() -> None:
    key, ring = make_key(), KeyRing()
    auth = _authenticator(ring)
    opened = auth.anonymous().slowed()
    await opened.perform(CreateStream(b"jobs"))

    ring.replace({key.id: _key(key)})
    auth.look_again()
    with pytest.raises(Unauthenticated):
        await opened.perform(CreateStream(b"news"))
    opened.become(auth.by_token(str(key)))  # as a socket does that says who is there
    with pytest.raises(Forbidden):
        await opened.perform(DescribeStream(b"jobs"))
    with pytest.raises(StreamNotFound):
        await opened.perform(DescribeStream(b"news"))


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
