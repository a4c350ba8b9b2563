"""A push sends more while it goes well, and next to nothing while all fails."""

from __future__ import annotations

from headgate.app.push.window import FAILURES_MAX, Window, backoff_ms


def length_ms(number: int) -> int:
    return 100 * number


def test_a_failure_halves_it() -> None:
    window = Window(16)
    for _ in range(15):
        window.succeed()
    window.fail(0, length_ms)
    assert window.free(0, 0) == 8


def test_behind_failures_in_a_row_there_is_one_request_for_each_delay() -> None:
    window = Window(16)
    for _ in range(FAILURES_MAX):
        assert window.free(0, 0) == 1
        window.fail(0, length_ms)
    assert (window.free(0, 99), window.free(0, 100), window.delay_ms(40)) == (0, 1, 60)
    window.fail(100, length_ms)
    assert (window.free(0, 299), window.free(0, 300)) == (0, 1)
    window.end_delay()
    assert window.free(0, 100) == 1
    window.succeed()
    assert (window.free(0, 100), window.failures) == (2, 0)


def test_a_success_of_before_does_not_end_what_the_receiver_wants() -> None:
    window = Window(4)
    window.delay_until(1_000)
    window.succeed()
    assert (window.free(0, 999), window.free(0, 1_000)) == (0, 2)


def test_delays_double_up_to_five_minutes() -> None:
    assert [backoff_ms(number) for number in (0, 1, 2, 3, 9, 10, 10**9)] == [
        *(1_000, 1_000, 2_000, 4_000, 256_000, 300_000, 300_000)
    ]
