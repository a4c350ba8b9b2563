"""Usage: nobody uses more than it may for long. Bad credentials are counted by network."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.auth.bad_credentials import BURST_S, LOOKS_PER_S, NETWORKS_MAX, BadCredentials
from headgate.app.auth.grants import UsageLimits
from headgate.app.auth.usage import (
    SLOWED_S_MAX,
    UNLIMITED,
    Patience,
    RateLimited,
    Usage,
    Usages,
    network_of,
)
from headgate.app.http.handlers import problem_response
from headgate.app.wire.problems import GatewayError, problem_of


class Now:
    """Monotonic time, moved by hand."""

    s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


def test_a_large_batch_passes_once_and_the_next_is_told_when_to_try_again(now: Now) -> None:
    usage = Usage(UsageLimits(entries_per_s_max=100), now)

    usage.charge(entries=1_000)
    with pytest.raises(RateLimited) as refused:
        usage.charge(entries=1)
    problem = problem_of(refused.value, "/v1/streams/s/entries")
    assert (problem.status, problem.code, problem.retryable) == (429, "rate_limited", True)
    assert problem.retry_after_ms == 9_010
    assert problem_response(problem, {"request_id": "1"}).headers["Retry-After"] == "10"
    now.s += 9
    with pytest.raises(RateLimited, match=r"at most 100 entries a second \(entries_per_s_max\)"):
        usage.charge(entries=1)
    now.s += 0.011
    usage.charge(entries=1)


def test_a_request_that_is_refused_takes_nothing(now: Now) -> None:
    usage = Usage(UsageLimits(requests_per_s_max=5, bytes_per_s_max=1), now)

    usage.charge(requests=1, size_bytes=2)
    for _ in range(9):
        with pytest.raises(RateLimited, match="bytes"):
            usage.charge(requests=1, size_bytes=1)
    for _ in range(4):
        usage.charge(requests=1)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 200)), min_size=1, max_size=60),
)
def test_no_more_passes_than_a_burst_and_the_rate(
    rate_per_s: int, requests: list[tuple[float, int]]
) -> None:
    now = Now()
    usage = Usage(UsageLimits(entries_per_s_max=rate_per_s), now)
    passed: list[tuple[float, int]] = []
    for pause_s, amount in requests:
        now.s += pause_s
        with suppress(RateLimited):
            usage.charge(entries=amount)
            passed.append((now.s, amount))

    for begin, (start_s, _) in enumerate(passed):
        for end in range(begin, len(passed)):
            amounts = [amount for _, amount in passed[begin : end + 1]]
            allowed = rate_per_s * (1 + passed[end][0] - start_s) + amounts[-1]
            assert sum(amounts) <= allowed + 1e-3


@given(st.integers(1, 50), st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_who_waits_as_long_as_it_is_told_passes(rate_per_s: int, amounts: list[int]) -> None:
    now = Now()
    usage = Usage(UsageLimits(bytes_per_s_max=rate_per_s), now)
    for amount in amounts:
        try:
            usage.charge(size_bytes=amount)
        except RateLimited as refused:
            now.s += (refused.retry_after_ms or 0) / 1000
            usage.charge(size_bytes=amount)


def test_what_is_not_refused_is_slowed_to_its_rate(now: Now) -> None:
    usage, start_s = Usage(UsageLimits(requests_per_s_max=10), now), now.s

    for _ in range(60):
        now.s += usage.delay_s(requests=1)

    assert now.s - start_s == pytest.approx(5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("connections", r"at most 1 event streams and WebSockets.*principal_connections_max"),
        *(("waiters", "1 blocked reads"), ("subscriptions", "1 subscriptions")),
    ],
)
def test_counts_are_bounded_and_given_back(now: Now, name: str, text: str) -> None:
    counted = getattr(Usage(UsageLimits.model_validate({f"{name}_max": 1}), now), name)

    with counted.held(), pytest.raises(GatewayError, match=text) as error:
        counted.take()
    assert error.value.code == ("too_many_waiters" if name == "waiters" else "too_many_connections")
    counted.take()


def test_the_headers_are_those_of_the_draft(now: Now) -> None:
    limits = UsageLimits(requests_per_s_max=100, entries_per_s_max=10, bytes_per_s_max=2_000)
    usage = Usage(limits, now)
    usage.charge(requests=50, entries=25, size_bytes=0)

    assert usage.headers() == {
        "RateLimit-Policy": '"requests";q=100;w=1, "entries";q=10;w=1, '
        '"bytes";q=2000;w=1;qu="content-bytes"',
        "RateLimit": '"requests";r=50;t=1, "entries";r=0;t=3, "bytes";r=2000;t=0',
    }
    assert Usage(UsageLimits(connections_max=1), now).headers() == {}


def test_a_client_that_goes_on_although_it_is_slowed_tries_patience() -> None:
    patience = Patience()

    assert not patience.is_over(0.5, 100)
    assert not patience.is_over(0.5, 100 + SLOWED_S_MAX)
    assert patience.is_over(0.5, 100.5 + SLOWED_S_MAX)
    assert not patience.is_over(0, 120)  # a pause gives it back
    assert not patience.is_over(0.5, 121)


def test_all_credentials_of_a_principal_share_its_usage(now: Now) -> None:
    usages = Usages(UsageLimits(requests_per_s_max=5), now)

    usages.of("ana", UsageLimits()).charge(requests=5)

    with pytest.raises(RateLimited):
        usages.of("ana", UsageLimits()).charge(requests=1)
    usages.of("ben", UsageLimits()).charge(requests=1)
    with pytest.raises(RateLimited, match="at most 7 requests"):
        usages.of("ana", UsageLimits(requests_per_s_max=7)).charge(requests=1)
    usages.of_address("ana").charge(requests=5)  # an address is no principal
    usages.of_address("10.0.0.2").charge(requests=1)
    with pytest.raises(RateLimited):
        usages.of_address("ana").charge(requests=1)


def test_other_limits_do_not_make_what_was_used_forgotten(now: Now) -> None:
    usages = Usages(UsageLimits(), now)
    usage = usages.of("ana", UsageLimits(requests_per_s_max=5, connections_max=1))
    usage.charge(requests=5)
    usage.connections.take()

    assert usages.of("ana", UsageLimits(requests_per_s_max=50, connections_max=2)) is usage

    with pytest.raises(RateLimited):
        usage.charge(requests=1)
    usage.connections.take()
    with pytest.raises(GatewayError):
        usage.connections.take()
    now.s += 0.1
    usage.charge(requests=5)


def test_who_has_no_limit_has_nothing_to_count(now: Now) -> None:
    usages = Usages(UsageLimits(), now)

    assert usages.of("ana", UsageLimits()) is UNLIMITED
    assert usages.of_address("127.0.0.1") is UNLIMITED
    assert not UNLIMITED.is_rated
    assert len(usages) == 0
    assert usages.of("ana", UsageLimits(waiters_max=1)) is not UNLIMITED


@pytest.mark.parametrize(
    ("address", "network"),
    [
        *(("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3")),
        *(("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"), ("::1", "::")),
        ("/run/headgate.sock", "/run/headgate.sock"),
    ],
)
def test_a_client_is_known_by_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_idle_principals_are_forgotten_first_and_who_holds_something_never(now: Now) -> None:
    limits = UsageLimits(requests_per_s_max=1, connections_max=1)
    usages = Usages(limits, now, count_max=10)
    holders = [f"holds{number}" for number in range(200)]
    for name in holders:
        usages.of(name, UsageLimits()).connections.take()
    for name in holders:
        with pytest.raises(GatewayError):
            usages.of(name, UsageLimits()).connections.take()
    for name in holders[1:]:
        usages.of(name, UsageLimits()).connections.give_back()
    usages.of("owes", UsageLimits()).charge(requests=100)
    for number in range(200):
        usages.of(f"idle{number}", UsageLimits())

    assert len(usages) <= 10
    with pytest.raises(RateLimited):
        usages.of("owes", UsageLimits()).charge(requests=1)
    with pytest.raises(GatewayError):
        usages.of(holders[0], UsageLimits()).connections.take()


def test_a_network_may_send_a_burst_and_then_so_many_a_second(now: Now) -> None:
    bad = BadCredentials(now, per_s_max=10)
    for _ in range(10 * BURST_S):
        assert bad.wait_s("192.0.2.1") == 0
        bad.note("192.0.2.1")
    assert 0 < bad.wait_s("192.0.2.1") <= 0.1
    assert bad.wait_s("192.0.2.2") == 0
    now.s += 0.1
    assert bad.wait_s("192.0.2.1") == 0


def test_an_ipv6_network_counts_as_one_client(now: Now) -> None:
    bad = BadCredentials(now, per_s_max=1)
    for number in range(BURST_S):
        bad.note(f"2001:db8::{number:x}")
    assert bad.wait_s("2001:db8:0:0:ffff::1") > 0
    assert bad.wait_s("2001:db8:0:1::1") == 0
    assert bad.wait_s("::ffff:192.0.2.1") == 0
    assert len(bad) == 1


def test_so_many_networks_are_remembered(now: Now) -> None:
    bad = BadCredentials(now)
    for number in range(NETWORKS_MAX + 100):
        bad.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(bad) == NETWORKS_MAX


def test_networks_beyond_their_rate_share_so_many_looks(now: Now) -> None:
    bad = BadCredentials(now)
    assert [bad.takes_look() for _ in range(LOOKS_PER_S + 5)].count(True) == LOOKS_PER_S
    now.s += 0.01
    assert [bad.takes_look() for _ in range(LOOKS_PER_S)].count(True) == LOOKS_PER_S // 100
