"""Keys over the API: created, listed, rotated and revoked, in the file of the command line."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Verb
from headgate.app.auth.key_file import ApiKey, Keys, change_keys, read_keys
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import Live, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ = {"streams": ["news*"], "do": ["read"]}
ADMIN = {"streams": ["*"], "do": ["admin"]}
SHOP = {"name": "shop", "grants": [READ]}


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path, data_dir=tmp_path) as running_:
        yield running_


@pytest_asyncio.fixture(loop_scope="session")
async def opened(tmp_path: Path) -> AsyncIterator[Live]:
    async with running(Settings(data_dir=tmp_path)) as live:
        yield live


def as_key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def created(http: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await http.post("/v1/keys", json={**SHOP, **more})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    key: dict[str, Any] = answer.json()
    return key


async def stored_keys(gateway: Secured) -> Keys:
    return await asyncio.to_thread(read_keys, gateway.keys.path)


async def status_as(http: httpx.AsyncClient, key: str) -> int:
    return (await http.get("/v1/principal", headers=as_key(key))).status_code


async def test_a_key_works_at_once_and_its_secret_is_shown_once(gateway: Secured) -> None:
    limits = {"requests_per_s_max": 500}
    key = await created(gateway.admin, ttl_ms=90_000, limits=limits)
    assert await status_as(gateway.admin, key["key"]) == 200
    assert key["expires_at_ms"] - key["created_at_ms"] == 90_000
    assert key["is_first"] is False

    listed = (await gateway.admin.get("/v1/keys")).json()["keys"]
    [shop] = [each for each in listed if each["id"] == key["id"]]
    assert (shop["name"], shop["state"], shop["limits"]["requests_per_s_max"]) == (
        *("shop", "active"),
        500,
    )
    assert shop["grants"][0] == {
        **READ,
        "groups": None,
        "consumer": None,
        "keys": None,
        "create": False,
    }
    assert shop["last_used_at_ms"] >= shop["created_at_ms"]
    [stored] = [each for each in (await stored_keys(gateway)).values() if each.id == key["id"]]
    text = json.dumps(listed)
    assert key["key"].rpartition("_")[2] not in text
    assert stored.sha256 not in text


async def test_the_list_has_pages(gateway: Secured) -> None:
    ids = [(await created(gateway.admin))["id"] for _ in range(3)] + list(gateway.keys.ids.values())
    found, query = list[str](), {"limit": "1"}
    while query.get("cursor") != "":
        page = (await gateway.admin.get("/v1/keys", params=query)).json()
        found += [key["id"] for key in page["keys"]]
        query["cursor"] = page["next_cursor"] or ""
    assert found == sorted(ids)


async def test_a_rotated_key_changes_at_once_or_after_an_overlap(gateway: Secured) -> None:
    key = await created(gateway.admin)
    place = f"/v1/keys/{key['id']}/rotate"
    second = (await gateway.admin.post(place, json={"overlap_ms": 60_000})).json()
    assert second["id"] == key["id"]
    assert second["previous_expires_at_ms"] > second["created_at_ms"]
    statuses = [await status_as(gateway.admin, each["key"]) for each in (key, second)]
    assert statuses == [200, 200]

    third = (await gateway.admin.post(place)).json()
    assert third["previous_expires_at_ms"] is None
    statuses = [await status_as(gateway.admin, each["key"]) for each in (key, second, third)]
    assert statuses == [401, 401, 200]


async def test_a_revoked_key_ends_at_once_and_cannot_be_rotated(gateway: Secured) -> None:
    key = await created(gateway.admin)
    place = f"/v1/keys/{key['id']}"
    assert (await gateway.admin.delete(place)).status_code == 204
    assert await status_as(gateway.admin, key["key"]) == 401
    assert (await gateway.admin.delete(place)).status_code == 204
    answer = await gateway.admin.post(f"{place}/rotate")
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    states = {each["id"]: each for each in (await gateway.admin.get("/v1/keys")).json()["keys"]}
    assert states[key["id"]]["state"] == "revoked"


async def test_the_last_key_with_admin_stays(gateway: Secured) -> None:
    [first] = gateway.keys.ids.values()
    await created(gateway.admin, grants=[ADMIN], ttl_ms=1)  # it has expired
    answer = await gateway.admin.delete(f"/v1/keys/{first}")
    assert (answer.status_code, answer.json()["code"]) == (409, "last_admin_key")
    second = await created(gateway.admin, grants=[ADMIN])
    assert (await gateway.admin.delete(f"/v1/keys/{first}")).status_code == 204
    own = f"/v1/keys/{second['id']}"
    rotated = await gateway.admin.post(f"{own}/rotate", headers=as_key(second["key"]))
    assert (await gateway.admin.get("/v1/keys", headers=as_key(second["key"]))).status_code == 401
    key = rotated.json()["key"]
    assert (await gateway.admin.get("/v1/keys", headers=as_key(key))).status_code == 200


async def test_keys_need_admin_and_a_ticket_is_not_enough(gateway: Secured) -> None:
    grant = {"streams": ["*"], "do": [verb for verb in Verb if verb is not Verb.ADMIN]}
    key = (await created(gateway.admin, grants=[grant]))["key"]
    ticket = await gateway.admin.post("/v1/tickets", json={"stream": "news", "do": ["read"]})
    for token in (key, ticket.json()["ticket"]):
        for method, path in (
            *(("GET", "/v1/keys"), ("POST", "/v1/keys")),
            *(("DELETE", "/v1/keys/abc"), ("POST", "/v1/keys/abc/rotate")),
        ):
            answer = await gateway.admin.request(method, path, headers=as_key(token), json=SHOP)
            assert answer.status_code == 403, (method, path)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": ""}, "/body/name"),
        ({"name": "a\nb"}, "/body/name"),
        ({"name": "x" * 257}, "/body/name"),
        ({"name": "a*", "grants": [{**READ, "streams": ["{sub}"]}]}, "/body/grants"),
        ({"grants": []}, "/body/grants"),
        ({"grants": "read"}, "/body/grants"),
        ({"grants": [{**READ, "streams": ["a"] * 100}] * 6}, "/body/grants"),
        ({"grants": [{**READ, "streams": ["{team}*"]}]}, "/body/grants"),
        ({"grants": [{**READ, "streams": ["a*b"]}]}, "/body/grants/0/streams/0"),
        ({"grants": [{**READ, "do": ["fly"]}]}, "/body/grants/0/do/0"),
        ({"grants": [{**ADMIN, "streams": ["a"]}]}, "/body/grants/0"),
        ({"limits": {"requests_per_s_max": 0}}, "/body/limits/requests_per_s_max"),
        ({"ttl_ms": 0}, "/body/ttl_ms"),
        ({"ttl_ms": 10**18}, "/body/ttl_ms"),
        ({"expires": "90d"}, "/body/expires"),
    ],
)
async def test_a_bad_field_is_named_and_no_key_is_made(
    gateway: Secured, change: dict[str, Any], pointer: str
) -> None:
    before = gateway.keys.path.read_bytes()
    answer = await gateway.admin.post("/v1/keys", json={**SHOP, **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert gateway.keys.path.read_bytes() == before


async def test_a_bad_or_unknown_id_is_refused(gateway: Secured) -> None:
    for path in ("A", "%2e%2e", "a%20b", "x" * 33, next(iter(gateway.keys.ids))):
        answer = await gateway.admin.delete(f"/v1/keys/{path}")
        assert answer.status_code == 422, path
        assert answer.json()["errors"][0]["pointer"] == "/path/key"
    assert (await gateway.admin.delete("/v1/keys/abc")).json()["code"] == "not_found"
    assert (await gateway.admin.post("/v1/keys/abc/rotate")).json()["code"] == "not_found"
    overlap = await gateway.admin.post("/v1/keys/abc/rotate", json={"overlap_ms": -1})
    assert overlap.json()["errors"][0]["pointer"] == "/body/overlap_ms"


async def test_changes_of_the_command_line_and_the_api_at_once_are_all_kept(
    gateway: Secured,
) -> None:
    async def by_file(number: int) -> str:
        def add(keys: dict[str, ApiKey]) -> None:
            [admin, *_] = keys.values()
            keys[f"cli{number}"] = admin.model_copy(update={"id": f"cli{number}"})

        await asyncio.to_thread(change_keys, gateway.keys.path, add)
        return f"cli{number}"

    async def by_api() -> str:
        return str((await created(gateway.admin))["id"])

    ids = await asyncio.gather(*(by_file(n) for n in range(10)), *(by_api() for _ in range(10)))
    assert set(ids) <= (await stored_keys(gateway)).keys()


async def test_acts_are_in_the_audit_log_without_secrets(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    key = await created(gateway.admin)
    rotated = (await gateway.admin.post(f"/v1/keys/{key['id']}/rotate")).json()
    await gateway.admin.delete(f"/v1/keys/{key['id']}")
    lines = [record for record in caplog.records if record.name == "headgate.audit"]
    assert [
        tuple(getattr(line, field) for field in ("what", "of_key", "of_principal", "outcome"))
        for line in lines
    ] == [(what, key["id"], "shop", "ok") for what in ("create_key", "rotate_key", "revoke_key")]
    text = json.dumps([vars(line) for line in lines], default=str)
    assert key["key"] not in text
    assert rotated["key"] not in text


async def test_the_first_key_of_an_open_gateway_must_have_admin_and_says_what_it_changes(
    opened: Live, tmp_path: Path
) -> None:
    assert (await opened.http.get("/v1/keys")).json() == {"keys": [], "next_cursor": None}
    refused = await opened.http.post("/v1/keys", json=SHOP)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/body/grants"
    assert not (tmp_path / "keys.json").exists()

    first = await created(opened.http, name="admin", grants=[ADMIN])
    assert first["is_first"] is True
    assert (await opened.http.get("/v1/keys")).status_code == 401
    opened.http.headers.update(as_key(first["key"]))
    assert (await created(opened.http))["is_first"] is False
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600


async def test_of_two_first_keys_at_once_one_is_made(opened: Live, tmp_path: Path) -> None:
    asked = [opened.http.post("/v1/keys", json={**SHOP, "grants": [ADMIN]}) for _ in range(2)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [201, 401]
    assert len(await asyncio.to_thread(read_keys, tmp_path / "keys.json")) == 1


async def test_a_gateway_without_a_place_for_keys_names_the_flag() -> None:
    async with running(Settings()) as live:
        for answer in (
            await live.http.get("/v1/keys"),
            await live.http.post("/v1/keys", json={**SHOP, "grants": [ADMIN]}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert "--keys-file" in answer.json()["detail"]


async def test_a_file_that_cannot_be_changed_stays_as_it_is(gateway: Secured) -> None:
    lock = gateway.keys.path.with_name("keys.json.lock")
    lock.unlink()
    lock.symlink_to("/dev/null")  # as root may write to every folder
    before = gateway.keys.path.read_bytes()
    answer = await gateway.admin.post("/v1/keys", json=SHOP)
    assert answer.status_code in (501, 503)
    assert "keys.json" in answer.json()["detail"]
    assert gateway.keys.path.read_bytes() == before
