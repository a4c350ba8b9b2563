"""Receivers know the gateway by its signatures, as the library of Standard Webhooks checks them."""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from headgate.app.push.signing import PushSecrets, Signer, new_secret
from headgate.app.wire.pushes import SignatureKind


def held(secret: str) -> PushSecrets:
    return PushSecrets(b"s", b"g", "https://hooks.example/", secret)


def verify(secret: str, headers: dict[str, str], body: bytes) -> None:
    Webhook(secret).verify(body, headers)


def test_a_signature_holds_for_its_body_id_and_time() -> None:
    secret, body, now_ms = new_secret(), b'{"a": 1}', time.time_ns() // 1_000_000
    headers = Signer(SignatureKind.HMAC, held(secret), None).headers("msg_1", now_ms, body)
    verify(secret, headers, body)
    for changed in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(now_ms // 1000 - 1)}):
        with pytest.raises(WebhookVerificationError):
            verify(secret, {**headers, **changed}, body)
    with pytest.raises(WebhookVerificationError):
        verify(secret, headers, b"{}")
    with pytest.raises(WebhookVerificationError):
        verify(new_secret(), headers, body)


def test_the_secret_of_before_is_good_until_its_time() -> None:
    old, now_ms = new_secret(), time.time_ns() // 1_000_000
    rotated = held(old).rotated(now_ms, 5_000)
    signer = Signer(SignatureKind.HMAC, rotated, None)
    for secret in (old, rotated.secret):
        verify(secret, signer.headers("m", now_ms + 4_999, b"{}"), b"{}")
    late = signer.headers("m", now_ms + 5_000, b"{}")
    verify(rotated.secret, late, b"{}")
    with pytest.raises(WebhookVerificationError):
        verify(old, late, b"{}")


def test_secrets_are_long_and_never_the_same() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(secret) == len("whsec_") + 44 for secret in secrets)
