"""A key opens what it should, only while it should, and as one principal."""

import pytest

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.keys.key import ApiKey, KeyText, PreviousSecret, make_key
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.principal import Need, Principal, Unauthenticated

NOW_MS = 1_700_000_000_000
READ_NEWS = Grant(streams=["news.{sub}.*"], do=[Verb.READ])


def stored(text: KeyText, **changes: object) -> ApiKey:
    values = {
        "id": text.id,
        "name": "reader",
        "sha256": text.sha256,
        "grants": [READ_NEWS],
        "created_at_ms": NOW_MS,
    }
    return ApiKey.model_validate({**values, **changes})


def ring_of(*keys: ApiKey) -> KeyRing:
    return KeyRing({key.id: key for key in keys})


def refusal(ring: KeyRing, token: str, now_ms: int = NOW_MS) -> str:
    with pytest.raises(Unauthenticated) as refused:
        ring.verify(token, now_ms)
    return str(refused.value)


def test_a_key_is_a_principal_with_the_rights_and_limits_of_the_file() -> None:
    text = make_key()
    limits = UsageLimits(requests_per_s_max=7)
    ring = ring_of(stored(text, limits=limits, expires_at_ms=NOW_MS + 1))

    principal = ring.verify(str(text), NOW_MS)

    assert (principal.id, principal.key, principal.limits) == ("reader", text.id, limits)
    assert principal.expires_at_ms == NOW_MS + 1
    assert principal.may(Need((Verb.READ,), b"news.reader.sport"))
    assert not principal.may(Need((Verb.READ,), b"news.other.sport"))
    assert not principal.may(Need((Verb.APPEND,), b"news.reader.sport"))


def test_the_secret_does_not_stand_in_a_repr() -> None:
    text = make_key()

    assert text.secret not in repr(text)
    assert text.secret not in repr(stored(text))


def test_a_key_with_any_bit_off_is_refused_in_the_same_words() -> None:
    text = make_key()
    ring = ring_of(stored(text))
    unknown = refusal(ring, str(make_key()))

    for place in range(len(str(text))):
        for bit in range(7):
            characters = list(str(text))
            characters[place] = chr(ord(characters[place]) ^ (1 << bit))
            assert refusal(ring, "".join(characters)) == unknown


@pytest.mark.parametrize(
    "change",
    [
        *(str.upper, lambda key: key + "\n", lambda key: " " + key, lambda key: key + "="),
        *(lambda key: key.replace("_", "-"), lambda key: key.split("_")[2]),
        *(lambda key: key.rsplit("_", 1)[0] + "_", lambda key: key.replace("hg_", "", 1)),
        *(lambda key: key + key, lambda key: key + "_x", lambda key: key[:-1] + "\0"),
        *(lambda key: key[:-1] + "\u0131", lambda _: "", lambda _: "hg_", lambda _: "hg__"),
        lambda _: "hg_" + "a" * 2**20,
    ],
)
def test_what_only_resembles_a_key_is_refused(change: object) -> None:
    text = make_key()
    assert callable(change)

    assert refusal(ring_of(stored(text)), change(str(text))) == "The API key is not valid."


def test_a_revoked_key_is_refused_as_an_unknown_one() -> None:
    text = make_key()
    previous = {"sha256": make_key().sha256, "expires_at_ms": NOW_MS + 5}
    ring = ring_of(stored(text, revoked_at_ms=NOW_MS, previous=previous))

    assert refusal(ring, str(text)) == refusal(ring, str(make_key()))


def test_an_expired_key_says_so_to_its_owner_only() -> None:
    text = make_key()
    ring = ring_of(stored(text, expires_at_ms=NOW_MS))

    ring.verify(str(text), NOW_MS - 1)

    assert refusal(ring, str(text)) == "The API key has expired."
    assert refusal(ring, str(make_key(text.id))) == "The API key is not valid."


def test_a_previous_secret_opens_until_the_overlap_ends() -> None:
    before, text = make_key(), None
    text = make_key(before.id)
    overlap = PreviousSecret(sha256=before.sha256, expires_at_ms=NOW_MS + 10)
    ring = ring_of(stored(text, previous=overlap))

    principal = ring.verify(str(before), NOW_MS)

    assert principal.expires_at_ms == NOW_MS + 10
    assert ring.verify(str(text), NOW_MS).expires_at_ms is None
    assert refusal(ring, str(before), NOW_MS + 10) == "The API key has expired."


class TestReplaced:
    """Users of a key when the file changes."""

    def setup_method(self) -> None:
        self.text, self.other = make_key(), make_key()
        self.ring = ring_of(stored(self.text), stored(self.other))
        self.principal = self.ring.verify(str(self.text), NOW_MS)
        self.neighbour = self.ring.verify(str(self.other), NOW_MS)
        self.ended: list[Principal] = []
        self.principal.at_end(lambda: self.ended.append(self.principal))
        self.neighbour.at_end(lambda: self.ended.append(self.neighbour))

    def replace(self, *keys: ApiKey) -> None:
        self.ring.replace({key.id: key for key in (*keys, stored(self.other))})
        assert self.ring.verify(str(self.other), NOW_MS) is self.neighbour

    @pytest.mark.parametrize(
        ("change", "ending"),
        [
            (None, "The API key was revoked."),
            ({"revoked_at_ms": NOW_MS}, "The API key was revoked."),
            ({"name": "new"}, "The API key was changed."),
            ({"grants": []}, "The API key was changed."),
            ({"limits": {"waiters_max": 1}}, "The API key was changed."),
            ({"sha256": "0" * 64}, "The API key was replaced by a new one."),
            ({}, None),
        ],
    )
    def test_a_key_that_is_not_the_same_ends(
        self, change: dict[str, object] | None, ending: str | None
    ) -> None:
        self.replace(*([] if change is None else [stored(self.text, **change)]))

        assert self.principal.ending == ending
        assert self.ended == ([self.principal] if ending else [])
        if ending in (None, "The API key was changed."):
            same = self.ring.verify(str(self.text), NOW_MS) is self.principal
            assert same == (ending is None)
        else:
            assert refusal(self.ring, str(self.text)) == "The API key is not valid."

    def test_a_secret_that_is_replaced_goes_on_until_the_overlap_ends(self) -> None:
        overlap = {"sha256": self.text.sha256, "expires_at_ms": NOW_MS + 10}

        self.replace(stored(make_key(self.text.id), previous=overlap))
        self.ring.end_expired(NOW_MS + 9)
        assert not self.ended
        assert self.ring.verify(str(self.text), NOW_MS) is self.principal
        assert self.principal.expires_at_ms == NOW_MS + 10

        self.ring.end_expired(NOW_MS + 10)
        assert self.ended == [self.principal]

    def test_an_expiry_that_is_put_off_opens_again(self) -> None:
        self.replace(stored(self.text, expires_at_ms=NOW_MS))
        self.ring.end_expired(NOW_MS)
        assert self.ended == [self.principal]
        assert self.principal.ending == "The API key has expired."

        self.replace(stored(self.text, expires_at_ms=NOW_MS + 1))

        assert self.ring.verify(str(self.text), NOW_MS).ending is None

    def test_a_use_is_noted_until_the_key_is_gone(self) -> None:
        self.ring.verify(str(self.text), NOW_MS + 3)
        assert self.ring.used_at_ms == {self.text.id: NOW_MS + 3, self.other.id: NOW_MS}

        self.replace()

        assert self.ring.used_at_ms == {self.other.id: NOW_MS}


def test_the_owner_of_a_ticket_is_the_principal_of_its_key() -> None:
    text, expiring, revoked = make_key(), make_key(), make_key()
    keys = stored(text), stored(expiring, expires_at_ms=NOW_MS), stored(revoked, revoked_at_ms=0)
    ring = ring_of(*keys)

    principal = ring.verify(str(text), NOW_MS)
    mark = ring.mark_of(principal)
    assert mark is not None
    assert text.secret not in mark
    assert ring.owner_of(mark, NOW_MS) is principal
    for gone in (expiring, revoked):
        assert ring.owner_of(f"{gone.id}.{gone.sha256[:16]}", NOW_MS) is None
    assert ring.owner_of(f"{text.id}.{revoked.sha256[:16]}", NOW_MS) is None
    assert ring.owner_of("unknown", NOW_MS) is None
