"""Without credentials a gateway serves this machine only, and says how to serve others."""

from pathlib import Path

import pytest

from headgate.app.auth.exposure import Exposed, check_exposure, is_loopback, keys_flags

HOME = ["127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::1%lo"]
ABROAD = [
    *("0.0.0.0", "::", "10.0.0.1", "169.254.1.1", "fe80::1%eth0", "::ffff:10.0.0.1", "1.1.1.1"),
    *("", "localhost", "127.0.0.1.evil.example", "127.1", "2130706433"),
]


def check(*addresses: str, has_credentials: bool = False, allow_anonymous: bool = False) -> None:
    check_exposure(
        *("x", addresses),
        has_credentials=has_credentials,
        allow_anonymous=allow_anonymous,
        keys=keys_flags(Path("my data"), None),
    )


def test_loopback_is_home_and_everything_else_is_abroad() -> None:
    for address in HOME:
        assert is_loopback(address)
        check(address)
    for address in ABROAD:
        assert not is_loopback(address)
        check(address, has_credentials=True)
        check(address, allow_anonymous=True)
        with pytest.raises(Exposed) as refused:
            check("127.0.0.1", address)
        text = str(refused.value)  # it names the ways on
        assert 'headgate keys add me --grant \'{"streams":' in text
        assert "--data-dir 'my data'\n" in text
        assert "HEADGATE_JWT_JWKS" in text
        assert "--allow-anonymous" in text
