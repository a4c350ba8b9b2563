"""Without credentials a gateway serves this machine only, and says how to serve others."""

from pathlib import Path

import pytest

from headgate.app.auth.exposure import Exposed, check_exposure, is_loopback, keys_flags


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::1%lo"]
)
def test_loopback_is_home(address: str) -> None:
    assert is_loopback(address)
    check_exposure("x", [address], has_credentials=False, allow_anonymous=False, keys="")


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "::", "10.0.0.1", "169.254.1.1", "fe80::1%eth0", "::ffff:10.0.0.1", "1.1.1.1"),
        *("", "localhost", "127.0.0.1.evil.example", "127.1", "2130706433"),
    ],
)
def test_everything_else_is_abroad(address: str) -> None:
    assert not is_loopback(address)
    with pytest.raises(Exposed):
        check_exposure(
            "x", ["127.0.0.1", address], has_credentials=False, allow_anonymous=False, keys=""
        )


@pytest.mark.parametrize(("has_credentials", "allow_anonymous"), [(True, False), (False, True)])
def test_credentials_or_the_operator_open_it(has_credentials: bool, allow_anonymous: bool) -> None:
    check_exposure(
        "0.0.0.0",
        ["0.0.0.0"],
        has_credentials=has_credentials,
        allow_anonymous=allow_anonymous,
        keys="",
    )


def test_the_refusal_names_the_ways_on() -> None:
    with pytest.raises(Exposed) as refused:
        check_exposure(
            "0.0.0.0",
            ["0.0.0.0"],
            has_credentials=False,
            allow_anonymous=False,
            keys=keys_flags(Path("my data"), None),
        )

    text = str(refused.value)
    assert 'headgate keys add me --grant \'{"streams":' in text
    assert "--data-dir 'my data'\n" in text
    assert "HEADGATE_JWT_JWKS" in text
    assert "--allow-anonymous" in text
