"""Authenticator: what it remembers of credentials."""

import gc

import pytest

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.keys.key import ApiKey, KeyText, make_key
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.limits.usage import Usages
from headgate.app.auth.principal import Forbidden, Unauthenticated
from headgate.app.auth.tickets import Scope, Tickets, new_secret
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.engine.clock import SystemClock
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamNotFound
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.streams import CreateStream, DescribeStream

READ_NEWS = Grant(streams=["news"], do=[Verb.READ])


def _key(text: KeyText) -> ApiKey:
    return ApiKey(
        id=text.id, name="reader", sha256=text.sha256, grants=[READ_NEWS], created_at_ms=0
    )


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


def test_a_credential_is_remembered_once_however_it_is_spelled(
    auth: Authenticator, key: KeyText
) -> None:
    auth.by_header(b"Bearer %b" % str(key).encode())
    remembered_count = _access_count()

    for space_count in range(1, 100):
        for scheme in (b"Bearer", b"bEARER"):
            spelled = b"%b%b%b" % (scheme, b" " * space_count, str(key).encode())
            assert auth.by_header(spelled).principal.id == "reader"
    assert _access_count() == remembered_count


def test_a_credential_that_is_refused_is_not_remembered(auth: Authenticator, key: KeyText) -> None:
    remembered_count = _access_count()
    for number in range(100):
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


async def test_what_was_opened_without_credentials_needs_one_once_there_are_some(
    key: KeyText,
) -> None:
    ring = KeyRing()
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
