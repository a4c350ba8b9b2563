"""The commands that set, list, show, pause, retry, rotate and delete pushes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.commands.command_line import Ended, headgate, terminal
from tests.api.conftest import Live
from tests.conditions import eventually
from tests.receiver import Receiver

PLACE = ("orders", "billing")


@pytest.fixture
def settings() -> Settings:
    return Settings(push_allow=["127.0.0.0/8"])


@pytest.fixture
async def receiver(live: Live) -> AsyncIterator[Receiver]:
    receiver = Receiver(("200 OK", b""))
    await receiver.open()
    await live.create_group(*PLACE)
    yield receiver
    await receiver.close()


async def done(live: Live, *words: str) -> Ended:
    ended = await headgate(live.url, "push", *words)
    assert ended.code == 0, ended.error
    return ended


async def shown(live: Live, *words: str) -> Any:
    return json.loads((await done(live, *words, "--json")).output)


async def test_a_push_is_set_and_its_secret_is_printed_alone_and_once(
    live: Live, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "auth").write_text("Bearer x=y\n")
    flags = ("--concurrency", "3", "--timeout", "2s", "--body", "batch", "--batch-max", "7")
    headers = ("--header", f"Authorization=@{tmp_path / 'auth'}", "--header", "X-A=b=c")
    made = await done(live, "set", *PLACE, receiver.url, *flags, *headers)
    assert made.lines[0].startswith("whsec_")
    assert (len(made.lines), "not shown again" in made.error) == (1, True)
    push = await shown(live, "show", *PLACE)
    wanted = {"concurrency": 3, "timeout_ms": 2000, "body": "batch", "batch_max": 7}
    assert wanted.items() <= push.items()
    await live.append("orders", "1")
    notice = await receiver.next()
    assert (notice.header("authorization"), notice.header("x-a")) == ("Bearer x=y", "b=c")
    again = await done(live, "set", *PLACE, receiver.url, "--disable-after", "1h")
    assert (again.output, "It keeps its secret" in again.error) == ("", True)
    rotated = await done(live, "rotate", *PLACE, "--overlap", "1h")
    assert rotated.lines[0].startswith("whsec_")
    assert rotated.lines != made.lines
    signed = await done(live, "set", *PLACE, receiver.url, "--signature", "v1a")
    assert "secret" not in signed.output


async def test_a_push_is_paused_resumed_and_deleted(live: Live, receiver: Receiver) -> None:
    await done(live, "set", *PLACE, receiver.url)
    assert (await shown(live, "pause", *PLACE))["state"] == "paused"
    assert (await shown(live, "resume", *PLACE))["state"] == "active"
    assert await shown(live, "retry", *PLACE) == {"entries": 0}
    async with terminal(live.url, "push", "delete", *PLACE) as screen:
        await screen.until_shown("Delete the push of the group 'billing' of the stream 'orders'?")
        screen.press("n\n")
        assert await screen.until_end() == 1
    assert await done(live, "delete", *PLACE) == (0, "", "")
    assert (await headgate(live.url, "push", "show", *PLACE)).code == 1


async def test_a_test_event_tells_the_answer(live: Live, receiver: Receiver) -> None:
    await done(live, "set", *PLACE, receiver.url)
    receiver.answers = [("200 OK", b"welcome"), ("500 No", b"no room")]
    assert "welcome" in (await done(live, "test", *PLACE)).output
    ended = await headgate(live.url, "push", "test", *PLACE)
    assert (ended.code, "answered 500" in ended.output, "no room" in ended.output) == (
        1,
        True,
        True,
    )


async def test_the_attempts_of_an_entry_are_listed(live: Live, receiver: Receiver) -> None:
    await done(live, "set", *PLACE, receiver.url, "--attempts-days", "1")
    first, second = await live.append("orders", "1", "2")
    listed = await eventually(lambda: listed_attempts(live), lambda found: len(found) == 2)
    assert {each["ids"][0] for each in listed} == {first, second}
    [attempt] = await listed_attempts(live, "--id", first)
    assert (attempt["ids"], attempt["status"]) == ([first], 200)
    assert second in (await done(live, "attempts", *PLACE, "--id", second)).output


async def listed_attempts(live: Live, *words: str) -> list[dict[str, Any]]:
    ended = await done(live, "attempts", *PLACE, *words, "--json")
    return [json.loads(line) for line in ended.lines]


async def test_entries_are_counted_and_sent_again(live: Live, receiver: Receiver) -> None:
    await done(live, "set", *PLACE, receiver.url)
    first, *_ = await live.append("orders", "1", "2", "3")
    for _ in range(3):
        await receiver.next()
    await eventually(lambda: live.group(*PLACE), lambda group: group["pending"] == 0)
    again = ("replay", *PLACE, "--from")
    for start, count in (("1h", 3), ("2020-01-01T00:00", 3), (f"({first}", 2), ("-", 3)):
        assert (await shown(live, *again, start, "--dry-run"))["entries"] == count
    assert receiver.notices.empty()
    condition = '{"exact":{"v":"2"}}'
    assert "entries\t1" in (await done(live, *again, "-", "--filter", condition)).output
    notice = await receiver.next()
    assert (notice.json["fields"], bool(notice.header("headgate-replay"))) == ({"v": "2"}, True)
    await eventually(
        lambda: shown(live, "show", *PLACE), lambda it: it["replay"]["state"] == "done"
    )
    assert "state\tdone" in (await done(live, "show", *PLACE)).output
    assert (await headgate(live.url, "push", "replay", *PLACE, "--cancel")).code == 1
    assert "--from -" in (await headgate(live.url, "push", "replay", *PLACE)).error


async def test_a_group_over_a_pattern_is_pushed(live: Live, receiver: Receiver) -> None:
    place = ("ord*", "mail", "--match")
    made = await done(live, "set", "ord*", "mail", receiver.url, "--match", "--start", "0")
    assert made.lines[0].startswith("whsec_")
    assert "the push of the group mail of ord*" in made.error
    await live.append("orders", "1")
    assert (await receiver.next()).json["stream"] == "orders"
    assert (await shown(live, "pause", *place))["state"] == "paused"
    assert (await shown(live, "resume", *place))["match"] == "ord*"
    assert await shown(live, "retry", *place) == {"entries": 0}
    assert (await done(live, "rotate", *place)).lines[0].startswith("whsec_")
    assert (await done(live, "list")).lines[1].split("\t")[:2] == ["ord*", "mail"]
    assert await done(live, "delete", *place) == (0, "", "")
    assert (await headgate(live.url, "push", "show", *place)).code == 1
    ended = await headgate(live.url, "push", "set", *PLACE, receiver.url, "--start", "0")
    assert (ended.code, "--start requires --match" in ended.error) == (2, True)


async def test_the_worst_is_listed_first_and_shown_with_its_answers(
    live: Live, receiver: Receiver
) -> None:
    await live.create_group("orders", "mail")
    await done(live, "set", "orders", "mail", receiver.url)
    bad = Receiver(("410 Gone", b"\x1b[31mgone"))
    await bad.open()
    await done(live, "set", *PLACE, bad.url)
    await live.append("orders", "1")
    await eventually(lambda: shown(live, "show", *PLACE), lambda push: push["state"] == "disabled")
    await bad.close()
    header, first, second = (line.split("\t") for line in (await done(live, "list")).lines)
    assert header[:3] == ["stream", "group", "state"]
    assert (first[1:3], second[1:3]) == (["billing", "disabled"], ["mail", "active"])
    facts, answers = (await done(live, "show", *PLACE)).output.split("\n\n")
    assert "state\tdisabled\n" in facts
    names, [*cells] = (line.split("\t") for line in answers.splitlines())
    answer = dict(zip(names, cells, strict=True))
    assert (answer["status"], answer["entries"]) == ("410", "1")
    assert answer["error"] == '"answered 410: \\u001b[31mgone"'
    async with terminal(live.url, "push", "show", *PLACE, columns=80) as screen:
        assert await screen.until_end() == 0
        assert "  410  " in screen.text


async def test_what_makes_no_sense_is_refused(live: Live, receiver: Receiver) -> None:
    refused = await headgate(live.url, "push", "set", *PLACE, "https://10.0.0.1/")
    assert (refused.code, "/body/url" in refused.error) == (1, True)
    for words in (
        ("--header", "X-A"),
        ("--header", "X-A=@/nowhere"),
        ("--body", "xml"),
        ("--timeout", "2"),
        ("--concurrency", "0"),
    ):
        ended = await headgate(live.url, "push", "set", *PLACE, receiver.url, *words)
        assert ended.code == 2, words
