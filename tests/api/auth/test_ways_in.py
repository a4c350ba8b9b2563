"""Ways in: places for a credential, and look-alikes that do not pass for one."""

from base64 import urlsafe_b64encode

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ_NEWS = Grant(streams=["news*"], do=[Verb.READ])
EVENTS = "/v1/streams/news/events"
HEADER_BYTES = 60_000


async def test_a_cookie_of_a_stranger_does_not_hold_the_gateway(gateway: Secured) -> None:
    async with gateway.client(None) as http:
        for cookie in ('a="' + "\\" * HEADER_BYTES + '"', ";" * HEADER_BYTES):
            refused = await http.get(EVENTS, headers={"Cookie": cookie})
            assert refused.status_code == 401


async def test_the_cookie_is_taken_from_among_others(gateway: Secured) -> None:
    await gateway.live.append("news", "a")
    key = await gateway.key(READ_NEWS)
    before = 'theme="a\\;b"; not_headgate_token=hg_a_b; '
    async with gateway.client(None) as http:
        for cookie in (f"headgate_token={key}", f'{before}headgate_token="{key}"; other=1'):
            async with http.stream("GET", EVENTS, headers={"Cookie": cookie}) as events:
                assert events.status_code == 200
        bad = {"Cookie": "headgate_token="}
        assert (await http.get(EVENTS, headers=bad)).status_code == 401


async def test_a_cookie_or_a_ticket_is_no_credential_where_a_header_can_be_sent(
    gateway: Secured,
) -> None:
    await gateway.live.append("news", "a")
    key = await gateway.key(READ_NEWS)
    async with gateway.client(key) as http:
        made = await http.post("/v1/tickets", json={"stream": "news", "do": ["read"]})
        ticket = made.json()["ticket"]

    async with gateway.client(None) as http:
        url = "/v1/streams/news/entries"
        by_cookie = await http.get(url, headers={"Cookie": f"headgate_token={key}"})
        by_url = await http.get(f"{url}?ticket={ticket}")
        as_token = await http.get(url, headers={"Authorization": f"Bearer {ticket}"})
    assert [answer.status_code for answer in (by_cookie, by_url, as_token)] == [401, 401, 401]


async def test_a_ticket_that_is_no_ticket_is_refused_whatever_it_is(gateway: Secured) -> None:
    nested = urlsafe_b64encode(b"[" * 5000).decode().rstrip("=")
    none = urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    claims = urlsafe_b64encode(b'{"sub":"admin"}').decode().rstrip("=")
    async with gateway.client(None) as http:
        for ticket in ("", "a.b.c", f"{nested}.{nested}.a", f"{none}.{claims}.", "%00", "é" * 999):
            refused = await http.get(EVENTS, params={"ticket": ticket})
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


async def test_a_bad_credential_is_refused_even_beside_a_good_one(gateway: Secured) -> None:
    key = await gateway.key(READ_NEWS)
    async with gateway.client("hg_a_b") as http:
        for options in ({"Cookie": f"headgate_token={key}"}, {}):
            assert (await http.get(EVENTS, headers=options)).status_code == 401


async def test_what_looks_like_a_credential_is_none(gateway: Secured) -> None:
    key = await gateway.key(READ_NEWS)
    async with gateway.client(None) as http:
        for spelled in (
            *("Bearer", "Bearer\t{}", "{}", "Basic {}"),
            *("Bearer {} {}", "Bearer {}x", "Bearer {},", "Bear {}"),
        ):
            headers = {"Authorization": spelled.replace("{}", key)}
            assert (await http.get("/v1/limits", headers=headers)).status_code == 401, spelled
        assert (await http.get("/v1/limits", headers={"Authorization": f"bEARER {key}"})).is_success
