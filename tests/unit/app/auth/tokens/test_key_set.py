"""A key set has the usable keys, and knows those that a later one has withdrawn."""

import json
from typing import Any

import pytest

from headgate.app.auth.tokens.key_set import SIZE_BYTES_MAX, KeySetFault, parse_key_set
from tests.unit.app.auth.tokens.issuing import jwk_of, key_set_of


def test_keys_that_cannot_be_used_are_skipped_and_named(caplog: pytest.LogCaptureFixture) -> None:
    keys = parse_key_set(
        key_set_of(
            jwk_of("ES256", "good"),
            {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
            jwk_of("ES256", "encrypts", use="enc"),
            jwk_of("ES256", "good", 1),
            {"kty": "future"},
        )
    )

    assert len(keys) == 1
    [record] = caplog.records
    assert record.__dict__["reasons"] == [
        "keys[1]: it is a secret, which has no place in a set of public keys",
        "keys[2]: its use is not to verify signatures",
        "keys[3]: a key before it has the same kid",
        "keys[4]: it is no public key that we know",
    ]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [7]}'),
        *(b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', b'{"keys": [], "keys": []}'),
        *(b'{"keys": ' + b"[" * 100_000, json.dumps({"keys": [{}] * 1001}).encode()),
        b" " * (SIZE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(KeySetFault, match="key set"):
        parse_key_set(data)


A, B, R = jwk_of("ES256", "a"), jwk_of("ES256", "b"), jwk_of("RS256", "r")


@pytest.mark.parametrize(
    ("before", "after", "withdrawn"),
    [
        ([A], [], {"a"}),
        ([A, B], [B, A], set()),
        ([A, B], [A, B, R], set()),
        ([A, B], [A, jwk_of("ES256", "b", use="sig", x5t="x")], set()),
        ([A, B], [A], {"b"}),
        ([A, B], [A, jwk_of("ES256", "b", 1)], {"b"}),
        ([A, B], [jwk_of("RS256", "a"), jwk_of("ES256", "c")], {"a", "b"}),
        ([R], [jwk_of("RS256", "r", alg="RS256")], {"r"}),  # for fewer algorithms
    ],
    ids=range(8),
)
def test_what_went_or_changed_is_withdrawn(
    before: list[dict[str, Any]], after: list[dict[str, Any]], withdrawn: set[str]
) -> None:
    keys = parse_key_set(key_set_of(*before))

    assert keys.withdrawn_in(parse_key_set(key_set_of(*after))) == withdrawn


def test_a_key_without_an_id_is_withdrawn_by_its_fingerprint() -> None:
    before = parse_key_set(key_set_of(jwk_of("ES256"), R))
    after = parse_key_set(key_set_of(jwk_of("ES256", number=1), R))

    assert before.withdrawn_in(after) == {before.fitting("ES256")[0].fingerprint}
