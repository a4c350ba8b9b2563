"""Principal: what it may do, and what it remembers of that."""

import sys

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.principal import Need, Principal

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
