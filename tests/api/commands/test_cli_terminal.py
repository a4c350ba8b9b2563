"""The commands that use a running gateway, on a terminal."""

from pathlib import Path

import pytest

from tests.api.commands.command_line import terminal
from tests.api.conftest import Live
from tests.sdk.cut_way import Proxy

SHOW_CURSOR = "\x1b[?25h"
CTRL_C = "\x03"


async def test_a_tail_shows_entries_and_below_them_how_it_stands(live: Live) -> None:
    [entry_id] = await live.append("orders", "first")
    async with terminal(live.url, "tail", "orders", "--after", "0") as screen:
        await screen.until_shown("● caught up  orders  1 entry")
        [second] = await live.append("orders", "second")
        await screen.until_shown("2 entries")
        screen.press(CTRL_C)

        assert await screen.until_end() == 130

    rows = [line for line in screen.text.splitlines() if "v=" in line]
    assert [row.split()[1:] for row in rows] == [[entry_id, "v=first"], [second, "v=second"]]
    assert screen.shown.rstrip().endswith("\x1b[2K"), "the line at the bottom is taken away"
    assert screen.shown.rfind(SHOW_CURSOR) > screen.shown.rfind("\x1b[?25l"), "the cursor is back"


async def test_a_tail_shows_when_an_entry_is_due_and_expires(live: Live) -> None:
    body = {"fields": {"v": "1"}, "delay_ms": 3_700_000, "ttl_ms": 90_000_000}
    await live.http.post("/v1/streams/orders/entries", json=body)
    async with terminal(live.url, "tail", "orders", "--after", "0", "--no-follow") as screen:
        assert await screen.until_end() == 0
    [row] = [line for line in screen.text.splitlines() if "v=" in line]
    assert row.rstrip().endswith("v=1  due in 1 h  expires in 1 d")


async def test_long_entries_are_cut_to_the_width_unless_they_shall_be_whole(live: Live) -> None:
    await live.append("orders", "x" * 300)
    words = ["tail", "orders", "--after", "0", "--no-follow"]

    async with terminal(live.url, *words, columns=40) as screen:
        assert await screen.until_end() == 0
    async with terminal(live.url, *words, "--wrap", columns=40) as whole:
        assert await whole.until_end() == 0

    [row] = [line for line in screen.text.splitlines() if "v=" in line]
    assert len(row) <= 40
    assert row.endswith("…")
    assert whole.text.count("x") == 300


async def test_groups_can_be_watched(live: Live) -> None:
    await live.append("orders", "1", "2", "3")
    await live.create_group("orders", "billing")
    async with terminal(live.url, "group", "list", "orders", "--watch") as screen:
        await screen.until_shown("billing")
        await live.read_group("orders", "billing", "worker-1", limit=2)
        await screen.until_shown("worker-1")
        screen.press(CTRL_C)

        assert await screen.until_end() == 130

    [row, *_] = [line.split() for line in reversed(screen.text.splitlines()) if "billing" in line]
    assert row[:4] == ["billing", "2", "1", "1"]


async def test_tables_fit_a_narrow_terminal(live: Live) -> None:
    name = "a-stream-with-a-long-name-" * 3
    await live.append(name, "1")
    await live.create_group(name, "g" * 100)
    for command in (["stream", "list"], ["group", "list", name]):
        for columns in (36, 64, 100):
            async with terminal(live.url, *command, columns=columns) as screen:
                assert await screen.until_end() == 0
            lines = [line.rstrip() for line in screen.text.splitlines()]
            assert max(map(len, lines)) <= columns
            counts = "entries groups" if command[0] == "stream" else "pending lag idle"
            assert counts in " ".join(lines[0].split()), (command, columns)
            assert "1" in lines[1]


async def test_an_empty_gateway_says_what_to_do(live: Live) -> None:
    async with terminal(live.url, "stream", "list") as screen:
        assert await screen.until_end() == 0
    assert "headgate append orders sku=42" in screen.text


async def test_a_dump_shows_how_far_it_is_while_entries_come(live: Live, tmp_path: Path) -> None:
    fields = {"v": "x" * 1_000}
    for _ in range(2):
        batch = [{"fields": fields}] * 5_000
        await live.http.post("/v1/streams/orders/entries/batch", json=batch)
    async with Proxy().open() as proxy:
        proxy.target = "127.0.0.1", int(live.url.rpartition(":")[2])
        proxy.carried_max = 6_000_000
        words = ["dump", "orders", str(tmp_path / "orders.parquet")]
        async with terminal(f"http://127.0.0.1:{proxy.port}", *words) as screen:
            await screen.until_shown("4166/10000 rows")  # a batch of 4 MiB
            proxy.carry_all()

            assert await screen.until_end() == 0

    assert screen.text.endswith("10,000 rows written\n")


HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"
SHOWN = [
    ("stream", "info", "orders"),
    ("stream", "info", "orders", "--json"),
    ("stream", "list", "--json"),
    ("tail", "orders", "--after", "0", "--no-follow", "--json"),
    ("tail", "orders", "--after", "0", "--no-follow"),
    ("read", "orders", "--json"),
    ("pending", "orders", "billing"),
    ("pending", "orders", "billing", "--json"),
    ("group", "list", "orders", "--json"),
]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
async def test_what_clients_name_has_no_power_here(live: Live, words: tuple[str, ...]) -> None:
    for command in (
        ["XADD", "orders", "*", HOSTILE, HOSTILE],
        ["XADD", f"s{HOSTILE}", "*", "k", "v"],
        ["XGROUP", "CREATE", "orders", "billing", "0"],
        ["XGROUP", "CREATE", "orders", f"g{HOSTILE}", "0"],
        ["XREADGROUP", "GROUP", "billing", f"c{HOSTILE}", "STREAMS", "orders", ">"],
    ):
        answer = await live.http.post("/v1/commands", json=command)
        assert "error" not in answer.json(), answer.text

    async with terminal(live.url, *words) as screen:
        assert await screen.until_end() == 0

    # What the terminal itself is told, such as colours, is neither of these.
    raw = [each for each in ("\x1b]0", "\x07", "\x1b[2J", "\x9b", "\u202e") if each in screen.shown]
    assert raw == []
    assert "u001b" in screen.shown
