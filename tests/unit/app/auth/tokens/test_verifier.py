"""A good token opens what it should; a forged one opens nothing, and is told nothing."""

import json
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.keys.key import make_key
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.principal import Need, Principal, Unauthenticated
from headgate.app.auth.tokens.algorithms import Algorithm
from headgate.app.auth.tokens.claims import ClaimRules
from headgate.app.auth.tokens.key_set import KeySet, parse_key_set
from headgate.app.auth.tokens.verifier import TokenVerifier
from headgate.app.auth.tokens.verifying_key import VerifyingKey, key_of_jwk, key_of_secret
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


class TestGood:
    """Tokens of PyJWT."""

    @pytest.mark.parametrize("algorithm", [*SYMMETRIC, *ASYMMETRIC])
    def test_a_token_is_a_principal_with_the_rights_it_brings(self, algorithm: str) -> None:
        limits = {"requests_per_s_max": 9}

        principal = verified(sign(algorithm, headgate_limits=limits), algorithm)

        assert (principal.id, principal.key) == ("ann", None)
        assert principal.expires_at_ms == NOW_MS + 60_000
        assert principal.limits.requests_per_s_max == 9
        assert principal.may(READ)
        assert not principal.may(Need((Verb.READ,), b"news.bob"))
        assert not principal.may(Need((Verb.APPEND,), b"news.ann"))

    def test_a_token_without_grants_has_those_of_the_configuration(self) -> None:
        grants = [Grant(streams=["news.{team}"], do=[Verb.READ])]

        assert verified(sign("HS256", headgate=None, team="ann"), grants=grants).may(READ)
        assert not verified(sign("HS256", headgate=[], team="ann"), grants=grants).may(READ)
        assert not verified(sign("HS256", headgate=None)).rights

    def test_the_key_is_found_by_its_id(self) -> None:
        source = Source(jwk_of("ES256", "old", 0), jwk_of("ES256", "new", 1), jwk_of("RS256", "r"))
        verifier = verifier_of(source=source)

        for algorithm, kid, number in ("ES256", "old", 0), ("ES256", "new", 1), ("RS256", "r", 0):
            token = sign(algorithm, number=number, header={"kid": kid})
            assert verifier.verify(token, NOW_MS).key == kid
        assert source.asked == 0

    def test_a_token_may_name_no_key_if_only_one_fits(self) -> None:
        source = Source(jwk_of("ES256", "e"), jwk_of("RS256", "r", 0), jwk_of("RS256", "s", 1))
        verifier = verifier_of(source=source)

        assert verifier.verify(sign("ES256"), NOW_MS).key == "e"
        assert refusal(verifier, sign("RS256")) == INVALID

    @pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c", "typ", "cty"])
    def test_a_header_that_brings_a_key_is_not_looked_at(self, name: str) -> None:
        own = jwk_of("ES256", number=1)
        header = {name: own if name == "jwk" else "https://evil.example/keys.json"}

        assert verified(sign("ES256", header=header), "ES256").id == "ann"
        assert reason(sign("ES256", number=1, header=header), "ES256") == INVALID

    def test_there_may_be_no_tokens(self) -> None:
        assert not TokenVerifier().is_configured
        assert TokenVerifier(source=Source()).is_configured
        assert refusal(TokenVerifier(), sign("HS256")) == INVALID


GRANT: dict[str, Any] = {"streams": ["a"], "do": ["read"]}


class TestClaims:
    """An honest issuer learns what is wrong."""

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"exp": None}, "The token has no expiry (`exp`)."),
            *(({"exp": at}, "The token has expired.") for at in (NOW_S, 0)),
            *(
                ({"exp": at}, "The claim `exp` should be a time in seconds.")
                for at in (-1, str(NOW_S + 60), True, 10**400, [NOW_S + 60])
            ),
            ({"nbf": NOW_S + 1}, "The token is not valid yet (`nbf`)."),
            ({"nbf": "soon"}, "The claim `nbf` should be a time in seconds."),
            ({"iat": NOW_S + 1}, "The token is not valid yet (`iat`)."),
            ({"iat": {}}, "The claim `iat` should be a time in seconds."),
            *(
                ({"sub": name}, "The claim `sub` should be a text of 1 to 256 characters.")
                for name in (None, "", "a" * 257)
            ),
            ({"sub": "a\nb"}, "The claim `sub` has control characters."),
            ({"aud": "other"}, "The token is for an audience (`aud`), and this gateway has none."),
            ({"headgate": GRANT}, "wrong at headgate: should be a valid array."),
            ({"headgate": [GRANT | {"groups": []}]}, "wrong at headgate[0].groups: List should"),
            ({"headgate": [GRANT | {"create": "y"}]}, "headgate[0].create: should be a valid bool"),
            ({"headgate": [GRANT | {"streams": ["{team}"]}]}, "needs the claim 'team', a text."),
            ({"sub": "*"}, "the claim 'sub' has a character that no pattern takes."),
            ({"headgate_limits": {"waiters_max": 0}}, "headgate_limits.waiters_max: should be gr"),
        ],
    )
    def test_a_wrong_claim_is_named(self, change: dict[str, Any], text: str) -> None:
        payload = json.dumps({**claims(), **change})
        if None in change.values():
            payload = json.dumps(claims(**change))

        assert text in reason(sign_text("HS256", '{"alg": "HS256"}', payload))

    def test_null_grants_are_no_grants_of_the_configuration(self) -> None:
        payload = json.dumps({**claims(), "headgate": None})

        assert "headgate" in reason(sign_text("HS256", '{"alg": "HS256"}', payload))

    @pytest.mark.parametrize("aud", ["us", ["them", "us"]])
    def test_a_token_for_this_audience_is_taken(self, aud: object) -> None:
        assert verified(sign("HS256", aud=aud), audience="us").id == "ann"

    @pytest.mark.parametrize("aud", [None, "", "them", "us2", "US", [], ["them"], [["us"]]])
    def test_a_token_for_another_audience_is_refused(self, aud: object) -> None:
        text = "The token is for another audience (`aud`)."

        assert reason(sign("HS256", aud=aud), audience="us") == text

    @pytest.mark.parametrize("iss", [None, "", "https://b.example", "https://a.example/", ["a"]])
    def test_a_token_of_another_issuer_is_refused(self, iss: object) -> None:
        token = sign_text("HS256", '{"alg": "HS256"}', json.dumps(claims(iss=iss)))

        assert "another issuer" in reason(token, issuer="https://a.example")
        good = sign("HS256", iss="https://a.example", more="x" * 5000)
        assert verified(good, issuer="https://a.example").id == "ann"
        assert verified(good).id == "ann"

    def test_the_clock_of_the_issuer_may_be_off_by_the_leeway(self) -> None:
        late = sign("HS256", exp=NOW_S - 4)
        early = sign("HS256", nbf=NOW_S + 5, iat=NOW_S + 5)

        assert verified(late, leeway_s=5).expires_at_ms == NOW_MS + 1000
        assert verified(early, leeway_s=5).id == "ann"
        assert "expired" in reason(late, leeway_s=4)
        assert "not valid yet" in reason(early, leeway_s=4)

    def test_claims_are_looked_at_only_after_the_signature(self) -> None:
        for change in {"exp": 0}, {"aud": "x"}, {"sub": ""}, {"headgate": 7}:
            assert reason(sign("HS256", key=SECRET[::-1], **change)) == INVALID


def unsigned(algorithm: object, signature: str = "") -> str:
    header = json.dumps({"typ": "JWT", "alg": algorithm})
    return f"{encoded(header)}.{encoded(json.dumps(claims()))}.{signature}"


NONE: list[object] = [
    *("none", "None", "NONE", "nOnE", "none ", " none", "", "null", None, 0, [], ["HS256"], {})
]


def test_before_the_keys_of_the_issuer_are_there_nobody_is_refused_for_good() -> None:
    source = Source(jwk_of("ES256", "e"))
    source.keys, source.is_known = KeySet(), False
    verifier = verifier_of("HS256", source=source)

    for header in ({"kid": "e"}, {}):
        with pytest.raises(GatewayError, match="not fetched yet") as refused:
            verifier.verify(sign("ES256", header=header), NOW_MS)
        assert refused.value.code == "unavailable"
    with pytest.raises(GatewayError, match="not fetched yet"):
        verifier.knows("e")
    assert verifier.verify(sign("HS256"), NOW_MS).id == "ann"
    assert refusal(verifier, unsigned("none", "")) == INVALID


class TestForged:
    """Whatever is forged is refused in the same words."""

    @pytest.mark.parametrize("algorithm", NONE)
    @pytest.mark.parametrize("signature", ["", "AAAA"])
    def test_no_algorithm(self, algorithm: object, signature: str) -> None:
        source = Source(jwk_of("ES256", "e"))
        verifier = verifier_of("HS256", "RS256", source=source)

        assert refusal(verifier, unsigned(algorithm, signature)) == INVALID

    def test_the_public_key_as_secret(self) -> None:
        key = private_key("RS256")
        source = Source(jwk_of("RS256", "r"))
        text = json.dumps(jwk_of("RS256", "r")).encode()
        for secret in public_pem(key), public_pem(key).strip(), text:
            for algorithm in SYMMETRIC:
                header = json.dumps({"alg": algorithm, "kid": "r"})
                token = forged_hmac(algorithm, secret, header)
                assert reason(token, "RS256") == INVALID
                assert refusal(verifier_of(source=source), token) == INVALID
                assert refusal(verifier_of("HS256", source=source), token) == INVALID

    @pytest.mark.parametrize("algorithm", [*SYMMETRIC, *ASYMMETRIC])
    def test_a_good_signature_by_an_algorithm_that_is_not_pinned(self, algorithm: str) -> None:
        for pinned in {"HS256", "RS256", "ES256", "EdDSA"} - {algorithm}:
            assert reason(sign(algorithm), pinned) == INVALID

    @pytest.mark.parametrize(
        "kid",
        [
            *("", "../../../../dev/null", "/dev/null", "' OR 1=1 --", "key\0", "e\n", "E", "r"),
            *("keys[0]", "a" * 257, "a" * 5000, "\u2028"),
        ],
    )
    def test_an_id_that_is_of_no_key_or_of_another(self, kid: str) -> None:
        source = Source(jwk_of("ES256", "e"), jwk_of("RS256", "r"))

        for token in sign("ES256", header={"kid": kid}), forged_hmac("HS256", b"", kid=kid):
            assert refusal(verifier_of(source=source), token) == INVALID

    @pytest.mark.parametrize("kid", [0, 1.5, True, None, [], ["e"], {}, {"e": 1}])
    def test_an_id_that_is_no_text(self, kid: object) -> None:
        header = json.dumps({"alg": "ES256", "kid": kid})
        token = sign_text("ES256", header, json.dumps(claims()))

        assert refusal(verifier_of(source=Source(jwk_of("ES256", "e"))), token) == INVALID
        assert reason(token, "ES256") == INVALID

    def test_the_id_of_another_key_of_that_kind(self) -> None:
        source = Source(jwk_of("ES256", "a", 0), jwk_of("ES256", "b", 1))

        token = sign("ES256", number=0, header={"kid": "b"})

        assert refusal(verifier_of(source=source), token) == INVALID
        assert source.asked == 0

    @pytest.mark.parametrize("algorithm", ["HS256", *ASYMMETRIC])
    def test_any_character_changed(self, algorithm: str) -> None:
        token, verifier = sign(algorithm), verifier_of(algorithm)

        for place in range(0, len(token), 1 if algorithm == "HS256" else 7):
            other = "A" if token[place] != "A" else "B"
            changed = token[:place] + other + token[place + 1 :]
            assert refusal(verifier, changed) == INVALID

    def test_parts_that_are_missing_too_many_or_of_another_token(self) -> None:
        parts = dict(zip("hps", sign("HS256").split("."), strict=True))
        parts |= dict(zip("HPS", sign("HS256", sub="bob").split("."), strict=True))
        wrong = ["", ".", "..", "...", "h", "h.p", "h.p.", ".p.s", "h..s", "h.p.s.", ".h.p.s"]
        wrong += ["h.p.s.s", "h.p.s.s.s", "h.p.S", "h.P.s", "h .p.s", "h.p.s\n", "h.p.s\0"]
        for form in [*wrong, "Bearer h.p.s"]:
            assert reason("".join(parts.get(letter, letter) for letter in form)) == INVALID
        assert reason("eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..aaaa.aaaa.aaaa") == INVALID

    @pytest.mark.parametrize("part", [0, 1, 2])
    @pytest.mark.parametrize("change", ["=", "==", "+", "/", "!", " ", "\n", "\u00e9", "%3D"])
    def test_base64_that_is_not_as_it_should_be(self, part: int, change: str) -> None:
        parts = sign("HS256").split(".")
        parts[part] += change

        assert reason(".".join(parts)) == INVALID

    def test_bits_that_no_text_should_have(self) -> None:
        token = sign("HS256")
        assert len(token.rsplit(".", 1)[1]) % 4 == 3
        twin = token[:-1] + chr(ord(token[-1]) + 1)
        same = urlsafe_b64decode(token.rsplit(".", 1)[1] + "=")
        assert urlsafe_b64decode(twin.rsplit(".", 1)[1] + "=") == same

        assert reason(twin) == INVALID

    @pytest.mark.parametrize(
        "header",
        [
            '{"alg": "HS256", "alg": "HS256"}',
            '{"alg": "none", "alg": "HS256"}',
            '{"alg": "HS256", "kid": "a", "kid": "b"}',
            '{"alg": "HS256", "x": {"y": 1, "y": 1}}',
            '{"alg": "HS256", "crit": ["exp"]}',
            '{"alg": "HS256", "crit": []}',
            '{"alg": "HS256", "crit": null}',
            '{"alg": "HS256", "b64": false, "crit": ["b64"]}',
            '{"alg": "HS256", "b64": true}',
            '["HS256"]',
            '"HS256"',
            "null",
            "{}",
            '{"typ": "JWT"}',
            '{"Alg": "HS256"}',
            '\ufeff{"alg": "HS256"}',
            '{"alg": "HS256",}',
            "{'alg': 'HS256'}",
            '{"alg": "HS256", "x": NaN}',
            '{"alg": "HS256", "x": "\\ud800"}',
            '{"alg": "HS256", "x": ' + "[" * 1500 + "]" * 1500 + "}",
            '{"alg": "HS256", "x": ' + "9" * 5000 + "}",
        ],
    )
    def test_a_header_that_is_not_sound(self, header: str) -> None:
        assert reason(sign_text("HS256", header, json.dumps(claims()))) == INVALID

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"[]",
            b"7",
            b"null",
            b"x",
            b"\xff",
            json.dumps([claims()]).encode(),
            json.dumps(claims()).encode() + b" x",
            json.dumps(claims())[:-1].encode() + b', "sub": "admin"}',
            json.dumps(claims())[:-1].encode() + b', "x": {"a": 1, "a": 2}}',
            json.dumps(claims())[:-1].encode() + b', "x": Infinity}',
            json.dumps(claims())[:-1].encode() + b', "x": "\\udc00"}',
            json.dumps(claims()).encode("utf-16"),
            b'{"x": ' + b"[" * 2500 + b"]" * 2500 + b"}",
            b'{"x": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}",
        ],
    )
    def test_claims_that_are_not_sound(self, payload: bytes) -> None:
        assert reason(sign_text("HS256", '{"alg": "HS256"}', payload)) == INVALID

    @pytest.mark.parametrize("size", [8193, 2**20])
    def test_a_token_that_is_too_large(self, size: int) -> None:
        assert reason(sign("HS256", more="x" * size)) == INVALID
        assert reason("a" * size) == INVALID
        assert reason("." * size) == INVALID
        assert reason("a." * (size // 2)) == INVALID

    def test_another_secret_and_an_empty_one(self) -> None:
        for secret in b"", SECRET[:-1], SECRET + b"\0", SECRET.upper():
            assert reason(forged_hmac("HS256", secret)) == INVALID

    def test_an_empty_signature_of_a_curve(self) -> None:
        header, payload, _ = sign("ES256").split(".")
        for signature in b"\0" * 64, b"\0", b"\xff" * 64, b"\0" * 1000:
            assert reason(f"{header}.{payload}.{encoded(signature)}", "ES256") == INVALID

    def test_an_api_key_is_no_token_and_a_token_no_api_key(self) -> None:
        key, token = str(make_key()), sign("HS256")

        assert reason(key) == INVALID
        with pytest.raises(Unauthenticated, match="API key is not valid"):
            KeyRing().verify(token, NOW_MS)

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
        ).map(
            lambda parts: ".".join((*map(encoded, map(json.dumps, parts[:2])), encoded(parts[2])))
        )
    )
    @example("\ud800.\ud800.\ud800")
    def test_anything(self, token: str) -> None:
        verifier = verifier_of("HS256", source=Source(jwk_of("ES256", "e")))

        assert refusal(verifier, token) == INVALID


def forged_hmac(algorithm: str, secret: bytes, header: str | None = None, **more: Any) -> str:
    """Return a token signed with a secret that PyJWT would not sign with."""
    signer: Any = jwt.get_algorithm_by_name(algorithm)
    text = header or json.dumps({"alg": algorithm, **more})
    signing_input = f"{encoded(text)}.{encoded(json.dumps(claims()))}"
    return f"{signing_input}.{encoded(signer.sign(signing_input.encode(), secret))}"


class TestRefresh:
    """The keys are fetched again when a token may be of a new one, and only then."""

    @pytest.mark.parametrize(
        "signed",
        [
            {"algorithm": "ES256", "header": {"kid": "new"}},
            {"algorithm": "RS256", "header": {"kid": "new"}},
            {"algorithm": "ES256", "number": 1},
        ],
    )
    def test_a_token_that_may_be_of_a_new_key_asks(self, signed: dict[str, Any]) -> None:
        token = sign(**signed)
        source = Source(jwk_of("ES256", "e"))

        assert refusal(verifier_of(source=source), token) == INVALID
        assert source.asked == 1

    def test_a_token_that_cannot_be_of_a_new_key_does_not_ask(self) -> None:
        source = Source(jwk_of("ES256", "e"))
        tokens = [
            *(sign("ES256", number=1, header={"kid": "e"}), sign("HS256", header={"kid": "new"})),
            *(unsigned("none"), "x.y.z", ""),
        ]

        for token in tokens:
            assert refusal(verifier_of(source=source), token) == INVALID
        assert source.asked == 0

    def test_a_key_that_was_fetched_meanwhile_verifies(self) -> None:
        source = Source()
        verifier, token = verifier_of(source=source), sign("ES256", header={"kid": "e"})
        assert refusal(verifier, token) == INVALID

        source.keys = parse_key_set(key_set_of(jwk_of("ES256", "e")))

        assert verifier.verify(token, NOW_MS).key == "e"
