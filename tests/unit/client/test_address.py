"""The addresses of gateways, and the current one among them."""

import pytest

from headgate.client.address import URL, Addresses, urls_of

A, B, C = "http://a:8080", "http://b:8080", "http://c:8080"


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        *((None, (URL,)), ("", (URL,)), ("localhost:8080", ("http://localhost:8080",))),
        *((f"{A}/, b:8080", (A, B)), ([A, f" {B}", C], (A, B, C)), ((f"{A},{B}", C), (A, B, C))),
        (f"{A},{A}/,{B}", (A, B)),
    ],
)
def test_urls_stand_in_a_list_or_between_commas(
    monkeypatch: pytest.MonkeyPatch, given: str | list[str] | None, urls: tuple[str, ...]
) -> None:
    monkeypatch.delenv("HEADGATE_URL", raising=False)
    assert urls_of(given) == urls


@pytest.mark.parametrize("given", [",", [], "ftp://a", f"{A},ftp://b", f"{A},http://me:pw@b"])
def test_no_url_is_refused(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"no URL is given|not a URL|user name or password"):
        urls_of(given)


@pytest.mark.parametrize("named", [C, f"{C}/", f"{C}/v1/streams/orders?x=1"])
def test_a_leader_that_is_named_comes_next(named: str) -> None:
    addresses = Addresses([A, B, C])
    addresses.leave(A, named)
    assert addresses.current == C


@pytest.mark.parametrize("named", ["http://elsewhere:8080", f"{C}1", "http://c", "", None])
def test_a_leader_that_nobody_gave_is_not_followed(named: str | None) -> None:
    addresses = Addresses([A, B, C])
    addresses.leave(A, named)
    assert addresses.current == B


def test_a_standby_that_names_a_dead_leader_hides_no_third_one() -> None:
    addresses = Addresses([A, B, C])
    asked = []
    for _ in range(4):
        asked.append(addresses.current)
        addresses.leave(addresses.current, A if addresses.current == B else None)
    assert asked == [A, B, A, B]
    assert addresses.current == C


def test_a_round_has_no_pauses_and_rounds_have() -> None:
    addresses = Addresses([A, B, C])
    pauses = [addresses.pause_s(attempt) for attempt in range(60)]
    assert [pause_s > 0 for pause_s in pauses] == [False, False, True] * 20
    assert max(pauses) <= 1.6
