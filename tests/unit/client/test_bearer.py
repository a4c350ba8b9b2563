"""A token that ends is renewed, and one that is no good is not asked for again and again."""

import pytest

from headgate.client.credential import Bearer, Credential

URL = "http://127.0.0.1:8080"


class Issuer:
    """Returns a new token each time."""

    def __init__(self) -> None:
        self.issued = 0

    def __call__(self) -> str:
        self.issued += 1
        return f"token-{self.issued}"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def credential(issuer: Issuer) -> Credential:
    return Credential((URL,), issuer)


async def test_a_refused_token_is_renewed_once(credential: Credential) -> None:
    bearer = Bearer(credential)

    assert await bearer.token() == "token-1"
    assert await bearer.renew()
    assert await bearer.token() == "token-2"
    assert not await bearer.renew()


async def test_all_that_were_refused_together_take_the_same_new_token(
    credential: Credential, issuer: Issuer
) -> None:
    bearers = [Bearer(credential) for _ in range(5)]
    for bearer in bearers:
        await bearer.token()

    assert [await bearer.renew() for bearer in bearers] == [True] * 5
    assert {await bearer.token() for bearer in bearers} == {"token-2"}
    assert issuer.issued == 2


async def test_a_token_is_renewed_before_it_ends(credential: Credential) -> None:
    bearer = Bearer(credential)

    assert [await bearer.token(), await bearer.next_token()] == ["token-1", "token-2"]
    assert await Bearer(credential).token() == "token-2"


@pytest.mark.parametrize("token", ["key", "", lambda: "key"])
async def test_a_refused_token_is_not_tried_again_if_there_is_no_other(token: str) -> None:
    bearer = Bearer(Credential((URL,), token))
    await bearer.token()

    assert not await bearer.renew()
