"""Tickets: their rights, and their ends."""

import pytest

from headgate.app.auth.grants import EVERYTHING, Grant, Pattern, Right, Verb
from headgate.app.auth.keys.key import ApiKey, KeyText, make_key
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.principal import Forbidden, Need, Principal, Unauthenticated, home
from headgate.app.auth.tickets import Scope, Tickets, new_secret

NOW_MS = 1_700_000_000_000
READ_NEWS = Scope(frozenset({Verb.READ}), b"news*")
WORK = Scope(frozenset({Verb.CONSUME}), b"jobs", b"workers", b"ann")


class StandingClock:
    """A clock that goes on when a test says so."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


def key_of(text: KeyText) -> ApiKey:
    grant = Grant(streams=["news*", "jobs"], do=[Verb.READ, Verb.CONSUME])
    return ApiKey(id=text.id, name="ann", sha256=text.sha256, grants=[grant], created_at_ms=0)


def test_a_ticket_allows_its_stream_and_nothing_else(clock: StandingClock) -> None:
    tickets = Tickets(new_secret(), KeyRing(), clock)
    owner = Principal("ann", (EVERYTHING,))

    ticket, _ = tickets.issue(owner, READ_NEWS, 60_000)
    principal = tickets.verify(ticket, home())

    assert principal.id == "ann"
    assert principal.may(Need((Verb.READ,), b"news*"))  # a name may end in a star
    assert not principal.may(Need((Verb.READ,), b"news.today"))
    assert not principal.may(Need((Verb.APPEND,), b"news*"))
    assert not principal.may_create(b"news*")


def test_a_ticket_of_a_consumer_is_for_this_consumer(clock: StandingClock) -> None:
    tickets = Tickets(new_secret(), KeyRing(), clock)

    ticket, _ = tickets.issue(Principal("ann", (EVERYTHING,)), WORK, 60_000)
    principal = tickets.verify(ticket, home())

    assert principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"ann"))
    assert not principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"bob"))
    assert not principal.may(Need((Verb.CONSUME,), b"jobs", b"workers"))
    assert not principal.may(Need((Verb.CONSUME,), b"jobs", b"others", b"ann"))


def test_nobody_gives_away_what_it_has_not(clock: StandingClock) -> None:
    tickets = Tickets(new_secret(), KeyRing(), clock)
    as_bob = Right(
        frozenset({Verb.CONSUME}), (Pattern(b"jobs"),), (Pattern(b"workers"),), Pattern(b"bob")
    )
    with pytest.raises(Forbidden):
        tickets.issue(Principal("bob", (as_bob,)), WORK, 60_000)


def test_a_ticket_ends_no_later_than_the_token_of_its_owner(clock: StandingClock) -> None:
    tickets = Tickets(new_secret(), KeyRing(), clock)
    owner = Principal("ann", (EVERYTHING,), expires_at_ms=NOW_MS + 1_500)

    ticket, expires_at_ms = tickets.issue(owner, READ_NEWS, 60_000)

    assert expires_at_ms == NOW_MS + 1_500
    assert tickets.verify(ticket, home()).expires_at_ms == NOW_MS + 1_500
    clock.now_ms = expires_at_ms
    with pytest.raises(Unauthenticated):
        tickets.verify(ticket, home())


def test_a_ticket_of_another_gateway_is_not_taken(clock: StandingClock) -> None:
    ticket, _ = Tickets(new_secret(), KeyRing(), clock).issue(
        Principal("ann", (EVERYTHING,)), READ_NEWS, 60_000
    )
    with pytest.raises(Unauthenticated):
        Tickets(new_secret(), KeyRing(), clock).verify(ticket, home())


def test_a_ticket_ends_with_the_secret_of_the_key_that_made_it(clock: StandingClock) -> None:
    text, other = make_key(), make_key()
    ring = KeyRing({text.id: key_of(text)})
    tickets = Tickets(new_secret(), ring, clock)
    ticket, _ = tickets.issue(ring.verify(str(text), NOW_MS), READ_NEWS, 60_000)
    principal = tickets.verify(ticket, home())

    rotated = key_of(text).model_copy(update={"sha256": other.sha256})
    ring.replace({text.id: rotated})

    assert principal.ending is not None
    with pytest.raises(Unauthenticated):
        tickets.verify(ticket, home())


def test_the_ticket_of_a_token_knows_its_signer(clock: StandingClock) -> None:
    tickets = Tickets(new_secret(), KeyRing(), clock)

    ticket, _ = tickets.issue(Principal("ann", (EVERYTHING,), key="kid-1"), READ_NEWS, 60_000)

    principal = tickets.verify(ticket, home())
    assert (principal.parent, principal.key) == (None, "kid-1")
