"""Principal: its rights, and its memory of them."""

import sys

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.principal import Need, Principal
from headgate.app.gateway.gateway import DrainSignal

NEWS = Grant(streams=["news*"], do=[Verb.READ, Verb.APPEND], create=True)


def test_names_that_are_too_long_for_a_stream_do_not_stay_in_memory() -> None:
    principal = Principal("somebody", [NEWS.bind({})])
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


def test_whoever_fails_at_the_end_of_a_credential_keeps_no_other_connection_open() -> None:
    principal, ended = Principal("somebody", [NEWS.bind({})]), list[int]()

    def fail() -> None:
        raise MemoryError

    for act in (fail, lambda: ended.append(1), fail, lambda: ended.append(2)):
        principal.at_end(act)
    principal.end("The API key was revoked.")

    assert sorted(ended) == [1, 2]


async def test_whoever_fails_when_the_gateway_stops_keeps_nobody_else_connected() -> None:
    draining, ended = DrainSignal(), list[int]()

    def fail() -> None:
        raise MemoryError

    draining.listeners |= {fail, lambda: ended.append(1), lambda: ended.append(2)}
    draining.set()

    assert sorted(ended) == [1, 2]
    assert draining.is_set()
