"""A key opens what it should, only while it should, and as one principal."""

from typing import Any

import pytest

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.key_file import ApiKey, KeyText, PreviousSecret, make_key
from headgate.app.auth.key_ring import KeyRing
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

    assert text.secret not in f"{text!r} {stored(text)!r}"
    assert (principal.id, principal.key, principal.limits) == ("reader", text.id, limits)
    assert principal.expires_at_ms == NOW_MS + 1
    assert principal.may(Need((Verb.READ,), b"news.reader.sport"))
    assert not principal.may(Need((Verb.READ,), b"news.other.sport"))
    assert not principal.may(Need((Verb.APPEND,), b"news.reader.sport"))


def test_a_key_with_any_bit_off_is_refused_in_the_same_words() -> None:
    text = make_key()
    ring = ring_of(stored(text))
    unknown = refusal(ring, str(make_key()))

    for place in range(len(str(text))):
        for bit in range(7):
            characters = list(str(text))
            characters[place] = chr(ord(characters[place]) ^ (1 << bit))
            assert refusal(ring, "".join(characters)) == unknown


def test_what_only_resembles_a_key_is_refused() -> None:
    text = make_key()
    previous = {"sha256": make_key().sha256, "expires_at_ms": NOW_MS + 5}
    ring, key = ring_of(stored(text)), str(text)
    start, _, secret = key.rpartition("_")
    others = [
        *(key.upper(), f"{key}\n", f" {key}", f"{key}=", key.replace("_", "-"), secret),
        f"{start}_",
    ]
    others += [key.removeprefix("hg_"), key + key, f"{key}_x", f"{key[:-1]}\0", f"{key[:-1]}\u0131"]
    for other in (*others, "", "hg_", "hg__", "hg_" + "a" * 2**20):
        assert refusal(ring, other) == "The API key is not valid."
    revoked = ring_of(stored(text, revoked_at_ms=NOW_MS, previous=previous))
    assert refusal(revoked, key) == "The API key is not valid."


def test_an_expired_key_says_so_to_its_owner_only() -> None:
    text = make_key()
    ring = ring_of(stored(text, expires_at_ms=NOW_MS))

    ring.verify(str(text), NOW_MS - 1)

    assert refusal(ring, str(text)) == "The API key has expired."
    assert refusal(ring, str(make_key(text.id))) == "The API key is not valid."


def test_a_previous_secret_opens_until_the_overlap_ends() -> None:
    before = make_key()
    text = make_key(before.id)
    overlap = PreviousSecret(sha256=before.sha256, expires_at_ms=NOW_MS + 10)
    ring = ring_of(stored(text, previous=overlap))

    assert ring.verify(str(before), NOW_MS).expires_at_ms == NOW_MS + 10
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
            *((None, "was revoked."), ({"revoked_at_ms": NOW_MS}, "was revoked.")),
            *(({"name": "new"}, "was changed."), ({"grants": []}, "was changed.")),
            ({"limits": {"waiters_max": 1}}, "was changed."),
            ({"sha256": "0" * 64}, "was replaced by a new one."),
        ],
    )
    def test_a_key_that_is_not_the_same_ends(self, change: Any, ending: str) -> None:
        self.replace(*([] if change is None else [stored(self.text, **change)]))

        assert self.principal.ending == f"The API key {ending}"
        assert self.ended == [self.principal]
        if ending == "was changed.":
            assert self.ring.verify(str(self.text), NOW_MS) is not self.principal
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
        self.replace(stored(self.text))  # the same key
        assert (self.principal.ending, self.ended) == (None, [])
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
