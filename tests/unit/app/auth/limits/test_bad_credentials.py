"""Bad credentials are counted by network, and what is remembered of them is bounded."""

from headgate.app.auth.limits.bad_credentials import (
    BURST_S,
    LOOKS_PER_S,
    NETWORKS_MAX,
    BadCredentials,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_network_may_send_a_burst_and_then_so_many_a_second() -> None:
    clock = Clock()
    bad = BadCredentials(clock, per_s_max=10)
    for _ in range(10 * BURST_S):
        assert bad.wait_s("192.0.2.1") == 0
        bad.note("192.0.2.1")
    assert 0 < bad.wait_s("192.0.2.1") <= 0.1
    assert bad.wait_s("192.0.2.2") == 0
    clock.now_s = 0.1
    assert bad.wait_s("192.0.2.1") == 0


def test_an_ipv6_network_counts_as_one_client() -> None:
    bad = BadCredentials(Clock(), per_s_max=1)
    for number in range(BURST_S):
        bad.note(f"2001:db8::{number:x}")
    assert bad.wait_s("2001:db8:0:0:ffff::1") > 0
    assert bad.wait_s("2001:db8:0:1::1") == 0
    assert bad.wait_s("::ffff:192.0.2.1") == 0
    assert len(bad) == 1


def test_so_many_networks_are_remembered() -> None:
    bad = BadCredentials(Clock())
    for number in range(NETWORKS_MAX + 100):
        bad.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(bad) == NETWORKS_MAX


def test_networks_beyond_their_rate_share_so_many_looks() -> None:
    clock = Clock()
    bad = BadCredentials(clock)
    assert [bad.takes_look() for _ in range(LOOKS_PER_S + 5)].count(True) == LOOKS_PER_S
    clock.now_s = 0.01
    assert [bad.takes_look() for _ in range(LOOKS_PER_S)].count(True) == LOOKS_PER_S // 100
