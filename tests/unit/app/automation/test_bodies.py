"""Entries come in requests, in order, in the form that was chosen, signed, and not too fast."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cryptography.fernet import Fernet
from standardwebhooks import Webhook, WebhookVerificationError

from headgate.app.automation.bodies import BODY_BYTES_MAX, Bodies, PushRequest, requests_of
from headgate.app.automation.health import FAILURES_MAX, Window, backoff_ms
from headgate.app.automation.signing import KeyMissing, PushSecrets, Sealing, Signer, new_secret
from headgate.app.wire.pushes import PushBody, SignatureKind
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery


def delivery(number: int, *flat: bytes, before: int = 0) -> Delivery:
    return Delivery(EntryId(number, 0), flat or (b"n", b"%d" % number), 0, before, None)


def sizes(deliveries: list[Delivery], entries_max: int) -> list[list[int]]:
    requests = requests_of(b"orders", deliveries, entries_max)
    return [[each.id.ms for each in request.deliveries] for request in requests]


def test_a_batch_has_so_many_bytes_and_a_larger_entry_comes_alone() -> None:
    half = b"x" * (BODY_BYTES_MAX // 2)
    large = b"x" * (2 * BODY_BYTES_MAX)
    deliveries = [delivery(1, b"v", half), delivery(2, b"v", half), delivery(3, b"v", large)]
    assert sizes([*deliveries, delivery(4)], 100) == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    "value", [b"v" * 100, b"\x01" * 50_000, b'"' * 90_000, b"\xff" * 90_000, "é".encode() * 50_000]
)
def test_the_body_of_a_batch_has_so_many_bytes_as_it_is_sent(value: bytes) -> None:
    deliveries = [delivery(number, b"v", value) for number in range(1, 51)]
    content_of = Bodies(PushBody.BATCH, b"g").content_of

    bodies = [content_of(request).body for request in requests_of(b"orders", deliveries, 100)]

    assert sum(body.count(b'"id"') for body in bodies) == 50
    assert max(map(len, bodies)) < 1.1 * BODY_BYTES_MAX


def test_an_entry_that_has_failed_twice_comes_alone() -> None:
    deliveries = [delivery(1), delivery(2, before=2), delivery(3, before=1), delivery(4)]
    assert sorted(sizes(deliveries, 100)) == [[1, 3, 4], [2]]


def test_an_entry_that_is_gone_is_left_out() -> None:
    gone = Delivery(EntryId(2, 0), None, 0, 1, None)
    assert sizes([delivery(1), gone, delivery(3)], 10) == [[1, 3]]


def test_the_same_entries_have_the_same_name_and_others_another() -> None:
    names = {
        PushRequest(b"orders", [delivery(number) for number in numbers], 0).key
        for numbers in ([1], [1, 2], [1, 3], [1, 2, 3], [12, 3])
    }
    assert len(names) == 5
    assert PushRequest(b"orders", [delivery(1), delivery(2)], 0).key in names
    assert PushRequest(b"orders", [delivery(1)], 0).key == "1-0"


def test_an_entry_comes_as_a_read_has_it() -> None:
    content = Bodies(PushBody.ENTRY, b"g").content_of(
        PushRequest(b"orders", [delivery(1, b"v", b"\xff", before=1)], 2)
    )
    assert json.loads(content.body) == {
        "stream": "orders",
        "group": "g",
        "id": "1-0",
        "fields": {"v": "/w=="},
        "base64": ["v"],
        "deliveries": 2,
        "idle_ms": 0,
    }
    assert content.headers == {"Content-Type": "application/json"}


EVENT = (
    *(b"ce-id", b"7", b"ce-source", b"/shop", b"ce-specversion", b"1.0", b"ce-type", b"sold"),
    *(b"ce-note", "f\u00fcr 5%".encode(), b"content-type", b"application/json"),
    *(b"data", b'{"a":1}'),
)


@pytest.mark.parametrize("kind", [PushBody.CLOUDEVENTS, PushBody.CLOUDEVENTS_BINARY])
def test_an_event_is_read_by_the_library_of_cloudevents(kind: PushBody) -> None:
    content = Bodies(kind, b"g").content_of(PushRequest(b"orders", [delivery(1, *EVENT)], 9))
    event = http.from_http(http.HTTPMessage(content.headers, content.body), JSONFormat())
    assert (event.get_id(), event.get_source(), event.get_type()) == ("7", "/shop", "sold")
    assert (event.get_extension("note"), event.get_data()) == ("f\u00fcr 5%", {"a": 1})


def length_ms(number: int) -> int:
    return 100 * number


def test_a_failure_halves_it() -> None:
    window = Window(16)
    for _ in range(15):
        window.succeed()
    window.fail(0, length_ms)
    assert window.free(0, 0) == 8


def test_behind_failures_in_a_row_there_is_one_request_for_each_delay() -> None:
    window = Window(16)
    for _ in range(FAILURES_MAX):
        assert window.free(0, 0) == 1
        window.fail(0, length_ms)
    assert (window.free(0, 99), window.free(0, 100), window.delay_ms(40)) == (0, 1, 60)
    window.fail(100, length_ms)
    assert (window.free(0, 299), window.free(0, 300)) == (0, 1)
    window.end_delay()
    assert window.free(0, 100) == 1
    window.succeed()
    assert (window.free(0, 100), window.failures) == (2, 0)


def test_a_success_of_before_does_not_end_what_the_receiver_wants() -> None:
    window = Window(4)
    window.delay_until(1_000)
    window.succeed()
    assert (window.free(0, 999), window.free(0, 1_000)) == (0, 2)


def test_delays_double_up_to_five_minutes() -> None:
    assert [backoff_ms(number) for number in (0, 1, 2, 3, 9, 10, 10**9)] == [
        *(1_000, 1_000, 2_000, 4_000, 256_000, 300_000, 300_000)
    ]


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


async def test_a_file_is_made_for_its_owner_alone_and_used_again(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    sealed = await Sealing(path, may_create=True).seal({"secret": "s"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "s" not in (sealed, path.read_text())
    assert await Sealing(path).unseal(sealed, dict[str, str]) == {"secret": "s"}


async def test_a_new_key_comes_in_front_of_those_of_before(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    old, new = Fernet.generate_key(), Fernet.generate_key()
    path.write_bytes(old)
    sealing = Sealing(path)
    before = await sealing.seal("a")
    path.write_bytes(new + b"\n" + old + b"\n")
    assert await sealing.unseal(before, str) == "a"
    after = await sealing.seal("b")
    path.write_bytes(new)
    assert (await sealing.unseal(before, str), await sealing.unseal(after, str)) == (None, "b")


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 44, b"a" * 100_000, None])
async def test_without_a_key_nothing_is_kept(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "push.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KeyMissing, match=r"push\.key"):
        await Sealing(path).seal("a")
    assert await Sealing(path).unseal("x", str) is None
    with pytest.raises(KeyMissing, match="push_key_file"):
        await Sealing(None).seal("a")


async def test_a_file_that_is_no_key_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    path.write_bytes(b"something else\n")
    with pytest.raises(KeyMissing):
        await Sealing(path, may_create=True).seal("a")
    assert path.read_bytes() == b"something else\n"


async def test_processes_with_one_secret_read_each_other() -> None:
    sealed = await Sealing(None, secret=b"x" * 32).seal("a")
    assert await Sealing(None, secret=b"x" * 32).unseal(sealed, str) == "a"
    assert await Sealing(None, secret=b"y" * 32).unseal(sealed, str) is None


@pytest.mark.parametrize("text", ["", "gAAAA", "\u00fc", "x" * 10_000])
async def test_what_was_not_sealed_is_nothing(text: str) -> None:
    assert await Sealing(None, secret=b"x" * 32).unseal(text, str) is None
