"""A good token opens what it should; a forged one opens nothing, and is told nothing."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.key_file import make_key
from headgate.app.auth.key_ring import KeyRing
from headgate.app.auth.principal import Need, Principal, Unauthenticated
from headgate.app.auth.tokens.compact import Algorithm, ClaimRules
from headgate.app.auth.tokens.issuer import TokenVerifier
from headgate.app.auth.tokens.verifying_key import (
    KeySet,
    VerifyingKey,
    key_of_jwk,
    key_of_secret,
    parse_key_set,
)
from headgate.app.wire.problems import GatewayError
from tests.unit.app.auth.tokens.issuing import (
    ASYMMETRIC,
    NOW_MS,
    NOW_S,
    SECRET,
    SYMMETRIC,
    claims,
    encoded,
    jwk_of,
    key_set_of,
    private_key,
    public_pem,
    sign,
    sign_text,
)

INVALID = "The token is not valid."
READ = Need((Verb.READ,), b"news.ann")


class Source:
    """Keys that change when a test says so."""

    def __init__(self, *jwks: dict[str, Any]) -> None:
        self.keys = parse_key_set(key_set_of(*jwks)) if jwks else KeySet()
        self.asked, self.is_known = 0, True

    def ask_for_refresh(self) -> None:
        self.asked += 1


def fixed(algorithm: str) -> VerifyingKey:
    if algorithm in SYMMETRIC:
        return key_of_secret(SECRET, [Algorithm(algorithm)])
    return key_of_jwk(jwk_of(algorithm), [Algorithm(algorithm)])._replace(label=None)


def verifier_of(*algorithms: str, source: Source | None = None, **rules: Any) -> TokenVerifier:
    return TokenVerifier([fixed(each) for each in algorithms], source, ClaimRules(**rules))


def verified(token: str, *algorithms: str, **rules: Any) -> Principal:
    return verifier_of(*algorithms or ["HS256"], **rules).verify(token, NOW_MS)


def refusal(verifier: TokenVerifier, token: str, now_ms: int = NOW_MS) -> str:
    with pytest.raises(Unauthenticated) as refused:
        verifier.verify(token, now_ms)
    return str(refused.value)


def reason(token: str, *algorithms: str, **rules: Any) -> str:
    return refusal(verifier_of(*algorithms or ["HS256"], **rules), token)


@pytest.mark.parametrize("algorithm", [*SYMMETRIC, *ASYMMETRIC])
def test_a_token_is_a_principal_with_the_rights_it_brings(algorithm: str) -> None:
    principal = verified(sign(algorithm, headgate_limits={"requests_per_s_max": 9}), algorithm)

    assert (principal.id, principal.key) == ("ann", None)
    assert principal.expires_at_ms == NOW_MS + 60_000
    assert principal.limits.requests_per_s_max == 9
    assert principal.may(READ)
    assert not principal.may(Need((Verb.READ,), b"news.bob"))
    assert not principal.may(Need((Verb.APPEND,), b"news.ann"))
    for pinned in {"HS256", "RS256", "ES256", "EdDSA"} - {algorithm}:
        assert reason(sign(algorithm), pinned) == INVALID


def test_a_token_without_grants_has_those_of_the_configuration() -> None:
    grants = [Grant(streams=["news.{team}"], do=[Verb.READ])]

    assert verified(sign("HS256", headgate=None, team="ann"), grants=grants).may(READ)
    assert not verified(sign("HS256", headgate=[], team="ann"), grants=grants).may(READ)
    assert not verified(sign("HS256", headgate=None)).rights


def test_the_key_is_found_by_its_id_or_is_the_only_one_that_fits() -> None:
    source = Source(jwk_of("ES256", "e", 0), jwk_of("RS256", "r", 0), jwk_of("RS256", "s", 1))
    verifier = verifier_of(source=source)

    for algorithm, kid, number in ("ES256", "e", 0), ("RS256", "r", 0), ("RS256", "s", 1):
        token = sign(algorithm, number=number, header={"kid": kid})
        assert verifier.verify(token, NOW_MS).key == kid
    assert source.asked == 0
    assert verifier.verify(sign("ES256"), NOW_MS).key == "e"
    assert refusal(verifier, sign("RS256")) == INVALID
    assert refusal(verifier, sign("RS256", header={"kid": "s"})) == INVALID


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c", "typ", "cty"])
def test_a_header_that_brings_a_key_is_not_looked_at(name: str) -> None:
    own = jwk_of("ES256", number=1)
    header = {name: own if name == "jwk" else "https://evil.example/keys.json"}

    assert verified(sign("ES256", header=header), "ES256").id == "ann"
    assert reason(sign("ES256", number=1, header=header), "ES256") == INVALID


def test_there_may_be_no_tokens() -> None:
    assert not TokenVerifier().is_configured
    assert TokenVerifier(source=Source()).is_configured
    assert refusal(TokenVerifier(), sign("HS256")) == INVALID


def test_before_the_keys_of_the_issuer_are_there_nobody_is_refused_for_good() -> None:
    source = Source()
    source.is_known = False
    verifier = verifier_of("HS256", source=source)

    for header in ({"kid": "e"}, {}):
        with pytest.raises(GatewayError, match="could not be fetched yet") as refused:
            verifier.verify(sign("ES256", header=header), NOW_MS)
        assert refused.value.code == "unavailable"
    with pytest.raises(GatewayError, match="could not be fetched yet"):
        verifier.knows("e")
    assert verifier.verify(sign("HS256"), NOW_MS).id == "ann"
    assert refusal(verifier, unsigned("none", "")) == INVALID


GRANT: dict[str, Any] = {"streams": ["a"], "do": ["read"]}
NO_TIME = "The claim `exp` should be a time in seconds."
NO_NAME = "The claim `sub` should be a text of 1 to 256 characters."


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"exp": None}, "The token has no expiry (`exp`)."),
        *(({"exp": at}, "The token has expired.") for at in (NOW_S, 0)),
        *(({"exp": at}, NO_TIME) for at in (-1, str(NOW_S + 60), True, 10**400, [NOW_S + 60])),
        ({"nbf": NOW_S + 1}, "The token is not valid yet (`nbf`)."),
        ({"nbf": "soon"}, "The claim `nbf` should be a time in seconds."),
        ({"iat": NOW_S + 1}, "The token is not valid yet (`iat`)."),
        ({"iat": {}}, "The claim `iat` should be a time in seconds."),
        *(({"sub": name}, NO_NAME) for name in (None, "", "a" * 257)),
        ({"sub": "a\nb"}, "The claim `sub` has control characters."),
        ({"aud": "other"}, "The token is for an audience (`aud`), but this gateway has none."),
        ({"headgate": GRANT}, "wrong at headgate: should be a valid array."),
        ({"headgate": [GRANT | {"groups": []}]}, "wrong at headgate[0].groups: List should"),
        ({"headgate": [GRANT | {"streams": ["{team}"]}]}, "needs the claim 'team' with a text."),
        ({"sub": "*"}, "the claim 'sub' has a character that is not allowed in a pattern."),
        ({"headgate_limits": {"waiters_max": 0}}, "headgate_limits.waiters_max: should be gr"),
    ],
)
def test_an_honest_issuer_learns_what_is_wrong(change: dict[str, Any], text: str) -> None:
    token = sign_text("HS256", GOOD_HEADER, json.dumps(claims(**change)))

    assert text in reason(token)
    assert reason(token[:-8] + "AAAAAAAA") == INVALID  # the signature comes first


def test_null_grants_are_no_grants_of_the_configuration() -> None:
    payload = json.dumps({**claims(), "headgate": None})

    assert "headgate" in reason(sign_text("HS256", GOOD_HEADER, payload))


def test_a_token_is_for_one_audience_and_of_one_issuer() -> None:
    for aud in ("us", ["them", "us"]):
        assert verified(sign("HS256", aud=aud), audience="us").id == "ann"
    for other in (None, "", "them", "us2", "US", [], ["them"], [["us"]]):
        text = "The token is for another audience (`aud`)."
        assert reason(sign("HS256", aud=other), audience="us") == text
    for iss in (None, "", "https://b.example", "https://a.example/", ["a"]):
        token = sign_text("HS256", GOOD_HEADER, json.dumps(claims(iss=iss)))
        assert "another issuer" in reason(token, issuer="https://a.example")
    good = sign("HS256", iss="https://a.example", more="x" * 5000)
    assert verified(good, issuer="https://a.example").id == verified(good).id == "ann"


def test_the_clock_of_the_issuer_may_be_off_by_the_leeway() -> None:
    late = sign("HS256", exp=NOW_S - 4)
    early = sign("HS256", nbf=NOW_S + 5, iat=NOW_S + 5)

    assert verified(late, leeway_s=5).expires_at_ms == NOW_MS + 1000
    assert verified(early, leeway_s=5).id == "ann"
    assert "expired" in reason(late, leeway_s=4)
    assert "not valid yet" in reason(early, leeway_s=4)


GOOD_HEADER = '{"alg": "HS256"}'


def unsigned(algorithm: object, signature: str = "") -> str:
    header = json.dumps({"typ": "JWT", "alg": algorithm})
    return f"{encoded(header)}.{encoded(json.dumps(claims()))}.{signature}"


def without_algorithm() -> Iterator[str]:
    names: list[object] = ["none", "None", "NONE", "nOnE", "none ", " none", "", "null"]
    for algorithm in (*names, None, 0, [], ["HS256"], {}):
        yield from (unsigned(algorithm), unsigned(algorithm, "AAAA"))


def with_the_public_key_as_secret() -> Iterator[str]:
    pem = public_pem(private_key("RS256"))
    for secret in pem, pem.strip(), json.dumps(jwk_of("RS256", "r")).encode():
        for algorithm in SYMMETRIC:
            yield forged_hmac(algorithm, secret, json.dumps({"alg": algorithm, "kid": "r"}))


def with_another_key() -> Iterator[str]:
    names = ["", "../../../../dev/null", "/dev/null", "' OR 1=1 --", "key\0", "e\n", "E", "r"]
    for kid in (*names, "keys[0]", "a" * 257, "a" * 5000, "\u2028"):
        yield from (sign("ES256", header={"kid": kid}), forged_hmac("HS256", b"", kid=kid))
    for odd in (0, 1.5, True, None, [], ["e"], {}, {"e": 1}):
        header = json.dumps({"alg": "ES256", "kid": odd})
        yield sign_text("ES256", header, json.dumps(claims()))
    for secret in b"", SECRET[:-1], SECRET + b"\0", SECRET.upper():
        yield forged_hmac("HS256", secret)
    start = sign("ES256", header={"kid": "e"}).rpartition(".")[0]
    for signature in b"\0" * 64, b"\0", b"\xff" * 64, b"\0" * 1000:
        yield f"{start}.{encoded(signature)}"


def in_other_parts() -> Iterator[str]:
    parts = dict(zip("hps", sign("HS256").split("."), strict=True))
    parts |= dict(zip("HPS", sign("HS256", sub="bob").split("."), strict=True))
    wrong = ["", ".", "..", "...", "h", "h.p", "h.p.", ".p.s", "h..s", "h.p.s.", ".h.p.s"]
    wrong += ["h.p.s.s", "h.p.s.s.s", "h.p.S", "h.P.s", "h .p.s", "h.p.s\n", "h.p.s\0"]
    for form in [*wrong, "Bearer h.p.s"]:
        yield "".join(parts.get(letter, letter) for letter in form)
    for change in ("=", "==", "+", "/", "!", " ", "\n", "\u00e9", "%3D"):
        for form in (f"h{change}.p.s", f"h.p{change}.s", f"h.p.s{change}"):
            yield "".join(parts.get(letter, letter) for letter in form)
    yield "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..aaaa.aaaa.aaaa"
    yield str(make_key())


def with_a_bad_header() -> Iterator[str]:
    for more in (
        *(', "alg": "HS256"', ', "kid": "a", "kid": "b"', ', "x": {"y": 1, "y": 1}', ","),
        *(', "crit": ["exp"]', ', "crit": []', ', "crit": null', ', "b64": true'),
        *(', "b64": false, "crit": ["b64"]', ', "x": NaN', ', "x": "\\ud800"'),
        *(', "x": ' + "[" * 1500 + "]" * 1500, ', "x": ' + "9" * 5000),
    ):
        yield sign_text("HS256", GOOD_HEADER[:-1] + more + "}", json.dumps(claims()))
    for header in (
        *('{"alg": "none", "alg": "HS256"}', '["HS256"]', '"HS256"', "null", "{}"),
        *('{"typ": "JWT"}', '{"Alg": "HS256"}', f"\ufeff{GOOD_HEADER}", "{'alg': 'HS256'}"),
    ):
        yield sign_text("HS256", header, json.dumps(claims()))


def with_bad_claims() -> Iterator[str]:
    good = json.dumps(claims())
    for more in (
        *(', "sub": "admin"', ', "x": {"a": 1, "a": 2}', ', "x": Infinity', ', "x": "\\udc00"'),
        *(', "x": ' + "[" * 2500 + "]" * 2500, ', "x": ' + '{"a":' * 999 + "1" + "}" * 999),
    ):
        yield sign_text("HS256", GOOD_HEADER, good[:-1] + more + "}")
    odd = (b"", b"[]", b"7", b"null", b"x", b"\xff", good.encode("utf-16"))
    for payload in (*odd, f"[{good}]".encode(), f"{good} x".encode()):
        yield sign_text("HS256", GOOD_HEADER, payload)


def too_large() -> Iterator[str]:
    for size in (8193, 2**20):
        yield from (sign("HS256", more="x" * size), "a" * size, "." * size, "a." * (size // 2))


FORGED = [without_algorithm, with_the_public_key_as_secret, with_another_key, in_other_parts]
FORGED += [with_a_bad_header, with_bad_claims, too_large]


@pytest.mark.parametrize("make", FORGED)
def test_a_forged_token_is_refused_in_the_same_words(make: Callable[[], Iterator[str]]) -> None:
    source = Source(jwk_of("ES256", "e"), jwk_of("RS256", "r"))
    verifiers = [verifier_of("HS256", source=source), verifier_of(source=source)]
    verifiers += [verifier_of("RS256"), verifier_of("HS256")]
    for token in make():
        assert [refusal(each, token) for each in verifiers] == [INVALID] * 4


@pytest.mark.parametrize("algorithm", ["HS256", *ASYMMETRIC])
def test_a_token_with_any_character_changed_is_refused(algorithm: str) -> None:
    token, verifier = sign(algorithm), verifier_of(algorithm)

    for place in range(0, len(token), 1 if algorithm == "HS256" else 7):
        other = "A" if token[place] != "A" else "B"
        assert refusal(verifier, token[:place] + other + token[place + 1 :]) == INVALID


def test_bits_that_no_text_should_have_are_refused() -> None:
    token = sign("HS256")
    assert len(token.rsplit(".", 1)[1]) % 4 == 3
    twin = token[:-1] + chr(ord(token[-1]) + 1)
    same = urlsafe_b64decode(token.rsplit(".", 1)[1] + "=")
    assert urlsafe_b64decode(twin.rsplit(".", 1)[1] + "=") == same

    assert reason(twin) == INVALID


def test_a_token_is_no_api_key() -> None:
    with pytest.raises(Unauthenticated, match="API key is not valid"):
        KeyRing().verify(sign("HS256"), NOW_MS)


@given(
    st.binary(max_size=300).map(lambda data: data.decode("latin-1"))
    | st.text(max_size=300)
    | st.lists(st.binary(max_size=60).map(encoded), max_size=4).map(".".join)
    | st.tuples(
        st.dictionaries(
            st.sampled_from(["alg", "kid", "typ", "crit", "b64"]),
            st.sampled_from([*SYMMETRIC, "ES256", "none", None, 1, "e", [], False]),
        ),
        st.dictionaries(st.sampled_from([*claims(), "aud", "nbf"]), st.integers() | st.text()),
        st.binary(max_size=70),
    ).map(lambda parts: ".".join((*map(encoded, map(json.dumps, parts[:2])), encoded(parts[2]))))
)
@example("\ud800.\ud800.\ud800")
def test_anything_that_is_no_token_is_refused(token: str) -> None:
    verifier = verifier_of("HS256", source=Source(jwk_of("ES256", "e")))

    assert refusal(verifier, token) == INVALID


def forged_hmac(algorithm: str, secret: bytes, header: str | None = None, **more: Any) -> str:
    """Return a token signed with a secret that PyJWT would not sign with."""
    signer: Any = jwt.get_algorithm_by_name(algorithm)
    text = header or json.dumps({"alg": algorithm, **more})
    signing_input = f"{encoded(text)}.{encoded(json.dumps(claims()))}"
    return f"{signing_input}.{encoded(signer.sign(signing_input.encode(), secret))}"


@pytest.mark.parametrize(
    "signed",
    [
        {"algorithm": "ES256", "header": {"kid": "new"}},
        *({"algorithm": "RS256", "header": {"kid": "new"}}, {"algorithm": "ES256", "number": 1}),
    ],
)
def test_a_token_that_may_be_of_a_new_key_asks(signed: dict[str, Any]) -> None:
    token = sign(**signed)
    source = Source(jwk_of("ES256", "e"))

    assert refusal(verifier_of(source=source), token) == INVALID
    assert source.asked == 1


def test_a_token_that_cannot_be_of_a_new_key_does_not_ask() -> None:
    source = Source(jwk_of("ES256", "e"))
    tokens = [
        *(sign("ES256", number=1, header={"kid": "e"}), sign("HS256", header={"kid": "new"})),
        *(unsigned("none"), "x.y.z", ""),
    ]

    for token in tokens:
        assert refusal(verifier_of(source=source), token) == INVALID
    assert source.asked == 0


def test_a_key_that_was_fetched_meanwhile_verifies() -> None:
    source = Source()
    verifier, token = verifier_of(source=source), sign("ES256", header={"kid": "e"})
    assert refusal(verifier, token) == INVALID

    source.keys = parse_key_set(key_set_of(jwk_of("ES256", "e")))

    assert verifier.verify(token, NOW_MS).key == "e"
