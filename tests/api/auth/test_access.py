"""The rights of a key and their limits, and places for a credential."""

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import refusal_of, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ_NEWS = Grant(streams=["news*"], do=[Verb.READ])
TRANSACTION = "/v1/commands/multi-exec"
ENDING_MS = 4_000_000_000_000


async def test_what_a_key_may_not_see_is_refused_whether_it_is_there_or_not(
    gateway: Secured,
) -> None:
    for stream in ("news.today", "jobs"):
        await gateway.live.append(stream, "a")
    async with gateway.client(await gateway.key(READ_NEWS)) as http:
        refused = await http.post("/v1/streams/news.today/entries", json={"fields": {"v": "b"}})
        there, nowhere = [
            await http.get(f"/v1/streams/{name}/entries") for name in ("jobs", "none")
        ]
        listed = (await http.get("/v1/streams")).json()["streams"]
    assert refusal_of(refused)[:2] == (403, "forbidden")
    assert "append" in refused.json()["detail"]
    assert there.status_code == nowhere.status_code == 403
    assert there.json()["detail"] == nowhere.json()["detail"].replace("none", "jobs")
    assert [stream["name"] for stream in listed] == ["news.today"]


async def test_a_close_needs_manage_and_with_a_last_entry_append_as_well(gateway: Secured) -> None:
    await gateway.live.append("jobs.a", "1")
    entry = {"fields": {"v": "last"}}
    for verbs, body, stream, status in [
        ([Verb.APPEND], None, "jobs.a", 403),
        ([Verb.APPEND], entry, "jobs.a", 403),
        ([Verb.MANAGE], entry, "jobs.a", 403),
        ([Verb.MANAGE], None, "jobs.a", 200),
        ([Verb.APPEND, Verb.MANAGE], entry, "jobs.new", 200),
    ]:
        async with gateway.client(await gateway.key(Grant(streams=["jobs*"], do=verbs))) as http:
            answer = await http.post(f"/v1/streams/{stream}/close", json=body)
        assert answer.status_code == status, (verbs, body)


async def test_a_grant_for_keys_is_one_for_rows_alone(gateway: Secured) -> None:
    live, stock = gateway.live, "/v1/streams/stock"
    await live.ask(f"PUT {stock}", {"key_field": "sku"})
    for key in ("de-1", "eu-1", "us-1"):
        await live.ask(f"PUT {stock}/table/{key}", {"fields": {"n": "1"}})
    grants = [
        Grant(streams=["stock"], do=[Verb.READ, Verb.APPEND], keys=["eu-*"]),
        Grant(streams=["stock"], do=[Verb.READ], keys=["us-1"]),
    ]
    fields = {"fields": {"n": "2"}}
    headers = {"Authorization": f"Bearer {await gateway.key(*grants)}"}
    async with gateway.client(await gateway.key(*grants)) as http:
        for method, path, status in [
            ("GET", "table/eu-1", 200),
            ("GET", "table/us-1", 200),
            ("GET", "table/us-1?after=0&wait_ms=1", 200),
            ("PUT", "table/eu-2", 200),
            ("DELETE", "table/eu-1", 200),
            ("GET", "table?prefix=eu-", 200),
            ("GET", "table?prefix=eu-2&after_key=a", 200),
            ("GET", "table/de-1", 403),
            ("GET", "table/us-12", 403),
            ("PUT", "table/us-1", 403),
            ("DELETE", "table/us-1", 403),
            ("GET", "table", 403),
            ("GET", "table?prefix=eu", 403),
            ("GET", "table?prefix=us-1", 403),
            ("GET", "entries", 403),
            ("POST", "entries", 403),
            ("GET", "events?view=table&prefix=e", 403),
            ("GET", "events?view=table", 403),
            ("GET", "events", 403),
            ("GET", "", 403),
        ]:
            body = fields if method in ("PUT", "POST") else None
            answer = await http.request(method, f"{stock}/{path}".rstrip("/"), json=body)
            assert answer.status_code == status, (method, path, answer.text)
        assert (await http.get("/v1/streams")).json()["streams"] == []
    async with events_of(live, f"{stock}/events?view=table&prefix=eu-", **headers) as events:
        await events.next("ready")
        assert (await events.next("row"))["key"] == "eu-2"
        await events.next("caught_up")
        for key in ("de-1", "eu-3"):
            await live.ask(f"PUT {stock}/table/{key}", {"fields": {"n": "3"}})
        assert (await events.next("row"))["key"] == "eu-3"


async def test_the_idempotency_keys_of_one_grant_are_no_other_ones(gateway: Secured) -> None:
    row, fields = "/v1/streams/stock/table/eu-1", {"fields": {"n": "1"}}
    await gateway.live.ask("PUT /v1/streams/stock", {"key_field": "sku"})
    grant = Grant(streams=["stock"], do=[Verb.READ, Verb.APPEND], keys=["eu-*"])
    made = []
    for name in ("ana", "ben"):
        async with gateway.client(await gateway.key(grant, name=name)) as http:
            for method, body in (("PUT", fields), ("DELETE", None)):
                headers = {"Idempotency-Key": method}
                answer = await http.request(method, row, json=body, headers=headers)
                assert answer.status_code == 200
                assert "Idempotent-Replayed" not in answer.headers
                made.append(answer.json()["id"])
    assert len(set(made)) == 4


@pytest.mark.parametrize(
    "grant",
    [
        {"do": ["manage"], "keys": ["a"]},
        {"do": ["read"], "keys": []},
        {"do": ["read"], "keys": ["a*b"]},
        {"do": ["read"], "keys": ["{x"]},
        {"do": ["consume"], "keys": ["a"], "groups": ["g"]},
        {"do": ["read"], "keys": ["a" * 1025]},
    ],
)
async def test_keys_are_of_rows_that_are_read_and_appended(grant: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="keys"):
        Grant.model_validate({"streams": ["s"], **grant})


async def test_only_streams_that_may_be_read_are_followed_by_pattern(gateway: Secured) -> None:
    keys = [
        await gateway.key(Grant(streams=["orders.ann.*"], do=[Verb.READ])),
        await gateway.key(Grant(streams=["orders.*"], do=[Verb.APPEND])),
    ]
    reading, appending = ({"Authorization": f"Bearer {key}"} for key in keys)
    async with frames_of(gateway.live, "/v1/ws", additional_headers=reading) as frames:
        await frames.send(type="subscribe", rid="p", sub="p", match="*")
        await frames.next("subscribed")
        await gateway.live.append("orders.ben.1", "secret")
        await gateway.live.append("orders.ann.1", "mine")
        [entry] = await frames.entries(1)
        assert (entry["stream"], entry["fields"]) == ("orders.ann.1", {"v": "mine"})
    assert (await gateway.live.http.get("/v1/events?match=*", headers=appending)).status_code == 403


async def test_each_step_of_a_commit_needs_its_own_right(gateway: Secured) -> None:
    key = await gateway.key(Grant(streams=["out"], do=[Verb.APPEND], create=True))
    headers = {"Authorization": f"Bearer {key}"}
    allowed, denied = (
        {"append": {"stream": name, "entries": [{"fields": {"v": "1"}}]}} for name in ("out", "in")
    )
    async with frames_of(gateway.live, "/v1/ws", additional_headers=headers) as frames:
        await frames.send(type="commit", rid="1", steps=[allowed, denied])
        assert await frames.problem() == ("1", "forbidden")
        assert (await gateway.admin.get("/v1/streams/out")).status_code == 404
        await frames.send(type="commit", rid="2", steps=[allowed])
        assert len((await frames.next("committed"))["results"][0]["ids"]) == 1


async def test_a_principal_reads_its_grants_with_its_name_filled_in(gateway: Secured) -> None:
    reading = Grant(streams=["news*", "orders"], do=[Verb.APPEND, Verb.READ], create=True)
    own = Grant(streams=["jobs"], do=[Verb.CONSUME], groups=["workers"], consumer="{sub}")
    rows = Grant(streams=["stock"], do=[Verb.READ], keys=["{sub}-*", "all"])
    rooms = Grant(streams=["{sub}*"], do=[Verb.SUBSCRIBE])
    key = await gateway.key(reading, own, rows, rooms, name="bob", expires_at_ms=ENDING_MS)
    async with gateway.client(key) as http:
        who = (await http.get("/v1/principal")).json()

    allowed: list[dict[str, Any]] = [
        {"streams": ["news*", "orders"], "do": ["read", "append"], "create": True},
        {"streams": ["jobs"], "do": ["consume"], "groups": ["workers"], "consumer": "bob"},
        {"streams": ["stock"], "do": ["read"], "keys": ["bob-*", "all"]},
    ]
    defaults = {"groups": None, "consumer": None, "keys": None, "create": False}
    shown = {"id": "bob", "anonymous": False, "expires_at_ms": ENDING_MS}
    channels = [{"channels": ["bob*"], "do": ["subscribe"]}]
    rights = {"allowed": [defaults | grant for grant in allowed], "channels": channels}
    assert who == {**shown, **rights}
    async with running(Settings()) as home:
        who = (await home.http.get("/v1/principal")).json()
    [everything] = who["allowed"]
    assert (who["anonymous"], who["expires_at_ms"]) == (True, None)
    known = [*everything["do"], *(verb for each in who["channels"] for verb in each["do"])]
    assert (everything["streams"], sorted(known)) == (["*"], sorted(verb.value for verb in Verb))


async def test_an_append_that_may_create_no_stream_fails_in_a_transaction(gateway: Secured) -> None:
    old, new = "{news}", "{news}.new"  # in one slot of a cluster, as the tag is the same
    await gateway.live.append(old, "a")
    key = await gateway.key(Grant(streams=["{{news}}*"], do=[Verb.APPEND]))
    append = ["XADD", new, "*", "v", "b"]
    async with gateway.client(key) as http:
        alone = await http.post("/v1/commands", json=append)
        together = await http.post(TRANSACTION, json=[["XADD", old, "*", "v", "b"], append])
        unwanted = await http.post(TRANSACTION, json=[["XADD", new, "NOMKSTREAM", "*", "v", "b"]])

    appended, refused = together.json()
    assert alone.json()["error"].startswith("NOPERM ")
    assert refused == alone.json()
    assert "result" in appended
    assert unwanted.json() == [{"result": None}]


async def test_one_command_without_the_right_discards_a_transaction(gateway: Secured) -> None:
    for stream in ("news", "jobs"):
        await gateway.live.append(stream, "a")
    key = await gateway.key(Grant(streams=["news"], do=[Verb.APPEND, Verb.READ]))
    append = "XADD news * v b"
    async with gateway.client(key) as http:
        for other in (
            *("XLEN jobs", "XLEN nowhere", "DEL news", "FLUSHALL", "CONFIG RESETSTAT"),
            "XADD news MAXLEN 0 * v b",
        ):
            commands = [words.split() for words in (append, other, append)]
            refused = await http.post(TRANSACTION, json=commands)
            assert (refused.status_code, refused.json()["error"].split()[0]) == (400, "EXECABORT")
            assert "NOPERM" in refused.json()["error"]
        assert (await http.get("/v1/streams/news/entries")).json()["entries"][1:] == []


def body(stream: str) -> dict[str, Any]:
    return {"stream": stream, "fields": {"a": "1"}, "cron": "0 2 * * *"}


async def names(http: httpx.AsyncClient) -> list[str]:
    page = (await http.get("/v1/schedules")).json()
    return [schedule["name"] for schedule in page["schedules"]]


async def test_a_schedule_is_for_who_manages_its_stream_and_may_append(gateway: Secured) -> None:
    manager = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE]))
    both = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE, Verb.APPEND]))
    forbidden = 403, "forbidden", ""
    async with gateway.client(manager) as http:
        # What makes no sense is not looked at.
        for asked in (body("mine.a"), body("mine.a") | {"cron": "never"}):
            assert refusal_of(await http.put("/v1/schedules/a", json=asked)) == forbidden
    async with gateway.client(both) as http:
        assert (await http.put("/v1/schedules/a", json=body("mine.a"))).status_code == 201
        for answer in (
            await http.put("/v1/schedules/a", json=body("yours.a")),
            await http.patch("/v1/schedules/a", json={"stream": "yours.a"}),
        ):
            assert refusal_of(answer) == forbidden
        assert (await http.patch("/v1/schedules/a", json={"paused": True})).status_code == 200
    reader = await gateway.key(Grant(streams=["mine.*"], do=[Verb.READ]))
    async with gateway.client(reader) as http:
        assert await names(http) == ["a"]
        assert (await http.get("/v1/schedules/a")).json()["stream"] == "mine.a"
        assert refusal_of(await http.delete("/v1/schedules/a")) == forbidden
    async with gateway.client(manager) as http:
        assert refusal_of(await http.post("/v1/schedules/a/run")) == forbidden
        assert (await http.delete("/v1/schedules/a")).status_code == 204


async def test_a_schedule_of_another_is_not_seen_replaced_run_or_deleted(gateway: Secured) -> None:
    assert (await gateway.admin.put("/v1/schedules/a", json=body("yours.a"))).status_code == 201
    mine = Grant(streams=["mine.*"], do=[Verb.MANAGE, Verb.APPEND, Verb.READ])
    async with gateway.client(await gateway.key(mine)) as http:
        assert await names(http) == []
        for answer in (
            await http.get("/v1/schedules/a"),
            await http.delete("/v1/schedules/a"),
            await http.patch("/v1/schedules/a", json={"paused": True}),
            await http.post("/v1/schedules/a/run"),
        ):
            assert refusal_of(answer) == (404, "not_found", "")
        answer = await http.put("/v1/schedules/a", json=body("mine.a"))
        assert refusal_of(answer) == (403, "forbidden", "")
    assert await names(gateway.admin) == ["a"]


MANAGE = Grant(streams=["*"], do=[Verb.MANAGE])
OWN = Grant(streams=["a*", "b*"], do=list(Verb)[:4])


def dead_letters_to(stream: str) -> dict[str, object]:
    return {"start": "0", "policy": {"max_deliveries": 1, "dead_letter_stream": stream}}


async def test_who_may_not_read_a_stream_gets_its_entries_nowhere_else(gateway: Secured) -> None:
    await gateway.live.append("secret", "1")
    reading = Grant(streams=["news"], do=[Verb.READ])
    async with gateway.client(await gateway.key(MANAGE, reading)) as http:
        refused = await http.post("/v1/commands", json=["RENAME", "secret", "news"])
        assert (refused.status_code, refused.json()["error"].split()[0]) == (403, "NOPERM")
        group = "/v1/streams/secret/groups/g"
        assert (await http.put(group, json=dead_letters_to("news"))).status_code == 403
    reading = Grant(streams=["secret"], do=[Verb.READ])
    async with gateway.client(await gateway.key(MANAGE, reading)) as http:
        assert (await http.put(group, json=dead_letters_to("news"))).status_code == 201


@pytest.mark.parametrize("move", [["COPY", "a", "b"], ["RENAMENX", "a", "b"]], ids=" ".join)
@pytest.mark.parametrize("way", ["", "/pipeline", "/multi-exec"])
async def test_a_move_takes_no_policy_along_that_its_maker_could_not_set(
    gateway: Secured, move: list[str], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.live.append("a", "1")
    await gateway.admin.put("/v1/streams/a/groups/g", json=dead_letters_to("secret"))
    before, replies = gateway.live.position, list[dict[str, Any]]()
    for grants in (
        [OWN],
        [MANAGE, Grant(streams=["a"], do=[Verb.READ])],
        [OWN, Grant(streams=["sec*"], do=[Verb.APPEND])],
    ):
        async with gateway.client(await gateway.key(*grants)) as http:
            if len(replies) == 2:
                assert gateway.live.position == before
            commands = [["PING"], move] if way else move
            reply = (await http.post(f"/v1/commands{way}", json=commands)).json()
            replies.append(reply[1] if way else reply)
    refused, blindly, allowed = replies

    assert refused["error"].startswith("NOPERM This needs append or manage on 'secret'")
    assert blindly["error"].startswith("NOPERM This needs read on 'b'")
    assert allowed["result"] in (1, "OK")
    assert [vars(line).get("outcome") for line in caplog.records].count("forbidden") == 2


async def test_a_policy_about_a_stream_of_ones_own_moves_along(gateway: Secured) -> None:
    await gateway.live.append("a", "1")
    made = [{"start": "0"}, {"policy": {"claim_idle_ms": 5}}, dead_letters_to("b.dead")]
    async with gateway.client(await gateway.key(OWN)) as http:
        for at, body in enumerate(made):
            answer = await http.put(f"/v1/streams/a/groups/g{at}", json=body)
            assert answer.status_code == 201, answer.text
        for move in ("COPY a b", "RENAME a b.dead", "RENAME b.dead b"):
            answer = await http.post("/v1/commands", json=move.split())
            assert answer.status_code == 200, answer.text


async def test_a_policy_names_no_stream_into_being_that_its_maker_could_not(
    gateway: Secured,
) -> None:
    await gateway.live.append("secret", "1")
    key = await gateway.key(OWN, Grant(streams=["sec*", "none*"], do=[Verb.APPEND]))
    creating = await gateway.key(OWN, Grant(streams=["none*"], do=[Verb.APPEND], create=True))
    made = {"create_stream": True}
    absent = {"policy": {"max_deliveries": 1, "dead_letter_stream": "none"}}
    answers: list[httpx.Response] = []
    for token in (key, creating):
        async with gateway.client(token) as http:
            group = f"/v1/streams/a/groups/{len(answers)}"
            answers += [
                await http.put(group, json=made | absent),
                await http.put(group, json=made),
                await http.patch(group, json=absent),
            ]
    async with gateway.client(key) as http:
        for stream in ("a", "b"):
            group = f"/v1/streams/{stream}/groups/g"
            answers.append(await http.put(group, json=dead_letters_to("secret")))
    assert [answer.status_code for answer in answers] == [403, 201, 403, 201, 200, 200, 201, 404]
    assert "append by a grant with `create`" in answers[0].json()["detail"]


APPEND_ORDERS = Grant(streams=["orders"], do=[Verb.APPEND])
URL = "/v1/streams/orders/entries"


async def test_a_key_of_an_append_belongs_to_its_principal(gateway: Secured) -> None:
    await gateway.live.append("orders", "0")
    mine, other = [await gateway.key(APPEND_ORDERS, name=name) for name in ("me", "me/a")]
    key = {"Idempotency-Key": "1", "Idempotency-Producer": "a/b"}
    shorter = {"Idempotency-Key": "1", "Idempotency-Producer": "b"}
    async with gateway.client(mine) as http, gateway.client(other) as thief:
        for headers in (key, shorter, {"Idempotency-Key": "1"}):
            taken = await thief.post(URL, json={"fields": {"v": "x"}}, headers=headers)
            assert taken.status_code == 201
            first = await http.post(URL, json={"fields": {"v": "1"}}, headers=headers)
            assert first.status_code == 201
            again = await http.post(URL, json={"fields": {"v": "1"}}, headers=headers)
            assert (again.status_code, again.json()) == (200, first.json())


async def test_nobody_takes_the_name_of_a_producer_of_another(gateway: Secured) -> None:
    await gateway.live.append("orders", "0")
    mine = await gateway.key(APPEND_ORDERS, name="me")
    everywhere = await gateway.key(Grant(streams=["*"], do=[Verb.APPEND]), name="you")
    async with gateway.client(mine) as http, gateway.client(everywhere) as thief:
        for producer, client in (("2:me/a", thief), ("a", http)):
            key = {"Idempotency-Key": "1", "Idempotency-Producer": producer}
            answer = await client.post(URL, json={"fields": {"v": "1"}}, headers=key)
            assert answer.status_code == 201, answer.text


async def test_nobody_marks_an_append_of_another_as_done(gateway: Secured) -> None:
    mine, other = [await gateway.key(APPEND_ORDERS, name=name) for name in ("me", "you")]
    for path in ("", "/multi-exec"):
        append = ["XADD", "orders", "IDMP", "p", path or "1", "*", "v", "1"]
        async with gateway.client(mine) as http, gateway.client(other) as thief:
            entry = (await gateway.live.append("orders", "x"))[0]
            mark = ["XIDMPRECORD", "orders", "p", append[4], entry]
            body = [mark] if path else mark
            assert '"OK"' in (await thief.post(f"/v1/commands{path}", json=body)).text
            appended = (await http.post("/v1/commands", json=append)).json()["result"]
            assert appended != entry
            assert (await http.post("/v1/commands", json=append)).json()["result"] == appended


async def test_two_principals_with_a_writer_of_one_name_have_two(gateway: Secured) -> None:
    mine, other = [await gateway.key(APPEND_ORDERS, name=name) for name in ("me", "you")]
    url = "/v1/bulk/writers/nightly"
    async with gateway.client(mine) as http, gateway.client(other) as thief:
        done = await thief.post(f"{url}/batches/7/commit", json={"attempts": []})
        assert done.status_code == 200, done.text
        assert (await thief.get(url)).json()["last_batch"] == 7
        assert (await http.get(url)).json()["last_batch"] is None


EVENTS = "/v1/streams/news/events"
HEADER_BYTES = 60_000


async def test_a_cookie_of_a_stranger_does_not_hold_the_gateway(gateway: Secured) -> None:
    async with gateway.client(None) as http:
        for cookie in ('a="' + "\\" * HEADER_BYTES + '"', ";" * HEADER_BYTES):
            assert (await http.get(EVENTS, headers={"Cookie": cookie})).status_code == 401


async def test_the_cookie_is_taken_from_among_others(gateway: Secured) -> None:
    await gateway.live.append("news", "a")
    key = await gateway.key(READ_NEWS)
    before = 'theme="a\\;b"; not_headgate_token=hg_a_b; '
    async with gateway.client(None) as http:
        for cookie in (f"headgate_token={key}", f'{before}headgate_token="{key}"; other=1'):
            async with http.stream("GET", EVENTS, headers={"Cookie": cookie}) as events:
                assert events.status_code == 200
        assert (await http.get(EVENTS, headers={"Cookie": "headgate_token="})).status_code == 401


async def test_a_cookie_or_a_url_has_no_credential_where_a_header_can_be_sent(
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
    assert [answer.status_code for answer in (by_cookie, by_url, as_token)] == [401, 401, 200]


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


async def test_a_setting_opens_the_metrics_and_nothing_else(tmp_path: Path) -> None:
    for is_open, code in ((True, 200), (False, 401)):
        async with secured(tmp_path, open_metrics=is_open) as gateway, gateway.client(None) as http:
            assert (await http.get("/metrics")).status_code == code
            assert (await http.get("/v1/admin/journal")).status_code == 401
