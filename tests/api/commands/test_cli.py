"""The commands that use a running gateway, in a pipe, and their help."""

import asyncio
import itertools
import json
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headgate.app.cli.command_line import main
from tests.api.commands.command_line import (
    HEADGATE,
    environment,
    headgate,
    interrupted,
    next_line,
    start,
)
from tests.api.conftest import Live
from tests.conditions import eventually
from tests.processes.gateway import Gateway

NOWHERE = "http://127.0.0.1:1"


# Append and tail


async def test_what_is_appended_can_be_followed(live: Live) -> None:
    appended = await headgate(live.url, "append", "orders", "sku=42", "note=two words", "empty=")
    [entry_id] = appended.lines

    plain = await headgate(live.url, "tail", "orders", "--after", "0", "--no-follow")
    as_json = await headgate(live.url, "tail", "orders", "--after", "0", "--limit", "1", "--json")

    assert plain == (0, f'{entry_id} sku=42 note="two words" empty=""\n', "")
    fields = {"sku": "42", "note": "two words", "empty": ""}
    assert json.loads(as_json.output) == {"id": entry_id, "fields": fields}


async def test_a_tail_begins_now_and_ends_at_its_limit(live: Live) -> None:
    await live.append("orders", "before")
    tail = await start(live.url, "tail", "orders", "--limit", "2")
    await live.until_waiting(1)

    first, second, _ = await live.append("orders", "1", "2", "3")

    assert [await next_line(tail) for _ in range(2)] == [f"{first} v=1", f"{second} v=2"]
    assert await tail.wait() == 0


async def test_a_tail_of_a_pattern_says_the_stream_of_each_entry(live: Live) -> None:
    [first] = await live.append("orders.a", "1")
    await live.append("bills", "2")
    tail = await start(live.url, "tail", "orders.*", "--after", "0", "--limit", "2")
    assert await next_line(tail) == f"orders.a {first} v=1"
    [second] = await live.append("orders.b", "3")
    assert await next_line(tail) == f"orders.b {second} v=3"
    assert await tail.wait() == 0


async def test_a_tail_ends_with_a_closed_stream(live: Live) -> None:
    [first] = await live.append("orders", "1")
    tail = await start(live.url, "tail", "orders", "--after", "0")
    assert await next_line(tail) == f"{first} v=1"
    closed = await live.http.post("/v1/streams/orders/close", json={"fields": {"v": "last"}})
    [last] = closed.json()["ids"]
    assert await next_line(tail) == f"{last} v=last"
    assert await tail.wait() == 0
    assert tail.stderr is not None
    assert b"the stream is closed" in await tail.stderr.read()


async def test_a_filter_leaves_what_it_lets_through(live: Live) -> None:
    ids = await live.append("orders", "gift", "sale", "gift")
    sales = json.dumps({"exact": {"v": "sale"}})
    tail = await start(live.url, "tail", "orders", "--limit", "1", "--filter", sales)
    await live.until_waiting(1)
    _, new = await live.append("orders", "gift", "sale")

    assert await next_line(tail) == f"{new} v=sale"
    assert await tail.wait() == 0
    present = await headgate(live.url, "tail", "orders", "--no-follow", "--filter", sales)
    page = await headgate(live.url, "read", "orders", "--filter", f"[{sales}]", "--json")
    wrong = await headgate(live.url, "read", "orders", "--filter", '{"exactly":{}}')
    assert (wrong.code, "exact, prefix" in wrong.error) == (1, True)
    assert present.lines == [f"{ids[1]} v=sale", f"{new} v=sale"]
    assert [json.loads(line)["id"] for line in page.lines] == [ids[1], new]


async def test_lines_are_appended_as_they_come(live: Live) -> None:
    process = await start(live.url, "append", "orders", "-")
    assert process.stdin is not None

    ids = []
    for number in range(3):
        process.stdin.write(b'{"fields": {"v": "%d"}}\n' % number)
        ids.append(await next_line(process))
    process.stdin.close()

    assert await process.wait() == 0
    entries = (await live.http.get("/v1/streams/orders/entries")).json()["entries"]
    assert [(entry["id"], entry["fields"]) for entry in entries] == [
        (entry_id, {"v": str(number)}) for number, entry_id in enumerate(ids)
    ]


@pytest.mark.parametrize("keep", [[], ["--keep-ids"]])
async def test_a_stream_is_copied_by_a_pipe(live: Live, keep: list[str]) -> None:
    entries = [
        {"pairs": [["a", "1"], ["a", "2"], ["b", ""]]},
        {"fields": {"packed": "AP8="}, "base64": ["packed"]},
        {"fields": {"/w==": "x"}, "names_base64": True},
        *({"fields": {"n": str(number), "text": "line\nend\t\u2028"}} for number in range(700)),
    ]
    await live.http.post("/v1/streams/orders/entries/batch", json=entries)

    tail = await headgate(live.url, "tail", "orders", "--after", "0", "--no-follow", "--json")
    copied = await headgate(live.url, "append", "copies", "-", *keep, stdin=tail.output)

    assert (copied.code, copied.error) == (0, "")
    first, second = [
        (await live.http.get(f"/v1/streams/{name}/entries?limit=1000")).json()["entries"]
        for name in ("orders", "copies")
    ]
    assert [entry["id"] for entry in second] == copied.lines
    assert ([entry["id"] for entry in first] == copied.lines) == bool(keep)
    assert [entry | {"id": ""} for entry in first] == [entry | {"id": ""} for entry in second]
    assert len(first) == 703


async def test_times_are_given_by_flags_or_with_each_line(live: Live) -> None:
    times = ["--delay", "10m", "--expires-at", "2100-01-01T00:00Z"]
    [entry_id] = (await headgate(live.url, "append", "orders", "a=1", *times)).lines
    tail = await headgate(live.url, "tail", "orders", "--no-follow", "--json")
    [line] = map(json.loads, tail.lines)
    assert line["id"] == entry_id
    assert line["expires_at_ms"] == 4_102_444_800_000
    assert line["deliver_at_ms"] == pytest.approx(time.time() * 1000 + 600_000, abs=300_000)

    await headgate(live.url, "append", "copies", "-", "--keep-ids", stdin=tail.output)
    lines = '{"fields": {"a": "2"}, "delay_ms": 60000}\n{"fields": {"a": "3"}}\n'
    await headgate(live.url, "append", "copies", "-", stdin=lines)
    await headgate(live.url, "append", "copies", "-", "--ttl", "1h", stdin=lines)
    copied, *others = map(json.loads, (await headgate(live.url, "read", "copies", "--json")).lines)
    assert copied == line
    names = [sorted(set(other) - {"id", "fields"}) for other in others]
    assert names == [["deliver_at_ms"], [], ["expires_at_ms"], ["expires_at_ms"]]


async def test_a_group_shows_what_is_delayed(live: Live) -> None:
    await live.create_group("orders", "billing")
    policy = ["policy", "orders", "billing", "--on-expiry", "dead_letter"]
    dead = ["--dead-letter-stream", "dead", "--max-deliveries", "5"]
    changed = await headgate(live.url, "group", *policy, *dead, "--json")
    assert json.loads(changed.output)["on_expiry"] == "dead_letter"
    await headgate(live.url, "append", "orders", "a=1", "--deliver-at", "10m")
    await live.read_group("orders", "billing", "me")

    assert (await headgate(live.url, "group", "list", "orders")).lines[1].split("\t")[-2] == "1"
    header, item = (await headgate(live.url, "pending", "orders", "billing")).lines
    delay = dict(zip(header.split("\t"), item.split("\t"), strict=True))["delay_ms"]
    assert 0 < int(delay) <= 600_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("x", "line 3 is not valid JSON"),
        ("[]", "line 3 is not an entry"),
        ('{"sku": "1"}', 'line 3 is not an entry such as {"fields": {"name": "value"}}'),
        ('{"fields": {"v": 1}}', "/body/2/fields/v: line 3: should be a valid string"),
    ],
)
async def test_a_bad_line_is_named_and_nothing_of_its_batch_is_appended(
    live: Live, line: str, problem: str
) -> None:
    good = '{"fields": {"v": "1"}}'

    ended = await headgate(live.url, "append", "orders", "-", stdin=f"{good}\n{good}\n{line}\n")

    assert (ended.code, ended.output) == (1, "")
    assert problem in ended.error
    assert (await live.http.get("/v1/streams/orders")).status_code == 404


async def test_an_id_can_be_said(live: Live) -> None:
    assert (await headgate(live.url, "append", "orders", "a=1", "--id", "5-1")).lines == ["5-1"]

    again = await headgate(live.url, "append", "orders", "a=1", "--id", "5-1")

    assert (again.code, again.output) == (1, "")
    assert "(409 id_not_greater)" in again.error


@pytest.mark.parametrize(
    "name", ["a b", "ä€😀", "100%", "%2F", "a?b=c#d&e", "..", ".", "<img>", "-", "a+b", "'\"\\"]
)
async def test_a_name_may_have_any_character(live: Live, name: str) -> None:
    assert (await headgate(live.url, "append", "--", name, f"v={name}")).code == 0

    tail = await headgate(live.url, "tail", "--after", "0", "--no-follow", "--json", "--", name)

    assert json.loads(tail.output)["fields"] == {"v": name}
    [listed] = (await headgate(live.url, "stream", "list", "--json")).lines
    assert json.loads(listed)["name"] == name
    assert (await headgate(live.url, "group", "list", "--", name)).code == 0


async def test_a_value_has_no_power_over_the_terminal(live: Live) -> None:
    await live.append("orders", "\x1b]0;title\x07\x1b[2J\r\n\x9b31m\u202e")

    ended = await headgate(live.url, "tail", "orders", "--after", "0", "--no-follow")

    [line] = ended.output.removesuffix("\n").split("\n")
    assert line.isprintable()
    assert line.endswith(r'v="\u001b]0;title\u0007\u001b[2J\r\n\u009b31m\u202e"')


# A connection that breaks


async def test_a_tail_goes_on_after_the_gateway_was_killed(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path / "data")
    port = gateway.url.rpartition(":")[2]
    await headgate(gateway.url, "append", "orders", "n=0")
    tail = await start(gateway.url, "tail", "orders", "--after", "0", "--json", "--limit", "3")
    seen = [await next_line(tail)]

    for number in (1, 2):
        await gateway.kill() if number == 1 else await gateway.stop()
        gateway = await Gateway.start(tmp_path / "data", {"port": port})
        await headgate(gateway.url, "append", "orders", f"n={number}")
        seen.append(await next_line(tail))

    assert await tail.wait() == 0
    assert [json.loads(line)["fields"]["n"] for line in seen] == ["0", "1", "2"]
    assert tail.stderr is not None
    notes = (await tail.stderr.read()).decode().splitlines()
    assert len(notes) == 2, "said once each time"
    assert all(note.startswith("connection lost (") for note in notes)
    await gateway.stop()


async def test_a_tail_from_now_on_misses_nothing_while_it_is_cut_off(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path / "data")
    port = gateway.url.rpartition(":")[2]
    await headgate(gateway.url, "append", "orders", "n=before")
    tail = await start(gateway.url, "tail", "orders", "--json", "--limit", "1")
    open_socket = 'transport="websocket"} 1.0'
    await eventually(lambda: _metrics(gateway.url), lambda shown: open_socket in shown)

    await gateway.kill()
    gateway = await Gateway.start(tmp_path / "data", {"port": port})
    await headgate(gateway.url, "append", "orders", "n=meanwhile")

    assert json.loads(await next_line(tail))["fields"] == {"n": "meanwhile"}
    assert await tail.wait() == 0
    await gateway.stop()


async def _metrics(url: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "curl", "-s", f"{url}/metrics", stdout=asyncio.subprocess.PIPE
    )
    return (await process.communicate())[0].decode()


async def test_what_was_trimmed_before_it_was_read_is_said(live: Live) -> None:
    first, *_, second_last, last = await live.append("orders", *"12345")
    await live.http.post("/v1/streams/orders/trim", json={"max_length": 1})

    ended = await headgate(live.url, "tail", "orders", "--after", first, "--no-follow")

    assert (ended.code, ended.output) == (0, f"{last} v=5\n")
    missed = f"entries after {first} to {second_last}"
    assert ended.error == f"trimmed before they were read: {missed}\n"


async def test_a_stream_that_is_deleted_ends_its_tail(live: Live) -> None:
    [entry_id] = await live.append("orders", "1")
    tail = await start(live.url, "tail", "orders", "--after", "0")
    assert await next_line(tail) == f"{entry_id} v=1"

    await live.http.delete("/v1/streams/orders")

    output, error = await tail.communicate()
    assert (tail.returncode, output) == (1, b"")
    assert error == b"Error: There is no stream 'orders'. (404 stream_not_found)\n"


async def test_ctrl_c_ends_a_tail_without_a_word(live: Live) -> None:
    [entry_id] = await live.append("orders", "1")
    tail = await start(live.url, "tail", "orders", "--after", "0")
    assert await next_line(tail) == f"{entry_id} v=1"

    assert await interrupted(tail) == (130, "", "")
    await live.until_waiting(0)


async def test_a_reader_that_has_enough_is_no_failure_to_speak_of(live: Live) -> None:
    await live.append("orders", *("x" * 100 for _ in range(5000)))
    tail = shlex.join([*HEADGATE, "tail", "orders", "--after", "0", "--no-follow"])

    process = await asyncio.create_subprocess_shell(
        f"{tail} | head -n 1",
        env=environment(live.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, error = await process.communicate()

    assert output.count(b"\n") == 1
    assert error == b""


# Streams and groups


async def test_streams_are_listed_page_by_page(live: Live) -> None:
    for number in range(103):
        await live.http.put(f"/v1/streams/s-{number:03}")
    [entry_id] = await live.append("s-007", "1")

    ended = await headgate(live.url, "stream", "list")

    header, *lines = [line.split("\t") for line in ended.lines]
    assert header == ["stream", "entries", "groups", "last_id"]
    assert [line[0] for line in lines] == [f"s-{number:03}" for number in range(103)]
    assert lines[7] == ["s-007", "1", "0", entry_id]
    assert (await headgate(live.url, "stream", "list", "--prefix", "s-10")).output.count("\n") == 4


async def test_groups_are_shown_with_their_consumers(live: Live) -> None:
    first, *_ = await live.append("orders", "1", "2", "3")
    await live.create_group("orders", "billing")
    await live.create_group("orders", "audit log", "$")
    await live.read_group("orders", "billing", "me", limit=1)
    ended = await headgate(live.url, "group", "list", "orders")
    as_json = await headgate(live.url, "group", "list", "orders", "--json")
    missing = await headgate(live.url, "group", "list", "nope")
    lines = [line.split("\t") for line in ended.lines]
    columns = ["group", "consumer", "pending", "lag", "idle_ms", "last_id", "delayed", "verdict"]
    assert lines[0] == columns
    assert lines[1][:4] == ['"audit log"', "-", "0", "0"]
    assert lines[2] == ["billing", "-", "1", "2", "-", first, "0", "ok"]
    assert lines[3][:4] == ["billing", "me", "1", "-"]
    _, billing = map(json.loads, as_json.lines)
    shown = (billing["name"], billing["lag"], billing["consumers"][0]["name"])
    assert shown == ("billing", 2, "me")
    assert missing == (1, "", "Error: There is no stream 'nope'. (404 stream_not_found)\n")


async def test_health_tells_whether_the_gateway_is_ready(live: Live) -> None:
    assert await headgate(live.url, "health") == (0, "ok\n", "")
    as_json = await headgate(live.url, "health", "--json")
    assert json.loads(as_json.output) == (await live.http.get("/readyz")).json()

    live.gateway.backend.drain()

    ended = await headgate(live.url, "health")
    assert (ended.code, ended.output) == (1, "")
    assert "(503 draining)" in ended.error


# What goes wrong


@pytest.mark.parametrize("words", ["append orders a=1", "tail orders", "stream list", "health"])
async def test_a_gateway_that_is_not_there_is_said_with_what_to_do(words: str) -> None:
    ended = await headgate(NOWHERE, *words.split())
    assert (ended.code, ended.output) == (1, "")
    assert ended.error.startswith(f"Error: no gateway at {NOWHERE}: ")
    assert ended.error.endswith(
        "Start a gateway with `headgate serve`, or set its URL with --url or HEADGATE_URL.\n"
    )
    assert ended.error.count("\n") == 1


async def test_another_server_is_no_gateway() -> None:
    answers = itertools.cycle(
        b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
        % (status, len(body), body)
        for status in (200, 404)
        for body in (b"<html>", b"[]", b"{}", b'"x"', b"\xff")
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(answers))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for words in ("append orders a=1", "tail orders"):
            for status in [200] * 5 + [404] * 5:
                ended = await headgate(url, *words.split())
                expected = f"Error: {url} answered {status}, but is not a Headgate gateway.\n"
                assert ended == (1, "", expected), words


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("tail", "Missing argument"),
        ("tail orders --limit 0", "--limit"),
        ("tail orders --url ftp://localhost", "--url"),
        ("tail orders --url http://localhost:x", "--url"),
        ("append orders", "Error: "),
        ("append orders sku", "Error: "),
        ("append orders - --id 1-1", "Error: "),
        ("append orders a=1 --keep-ids", "Error: "),
        ("append orders a=\udcff", "Error: "),
        ("group list orders --watch", "Error: "),
        ("nonsense", "No such command"),
        ("read orders --filter {", "not valid JSON"),
        ("read orders --group g --consumer c --filter []", "headgate group policy --filters"),
        ("read orders --group billing", "Error: "),
        ("read orders --after 0 --reverse", "Error: "),
        ("read orders --claim-idle 1m", "Error: "),
        ("claim orders billing", "Error: "),
        ("redrive orders billing", "Error: "),
        ("redrive orders billing 1-0 --all", "Error: "),
        ("nack orders billing 1-0 --delay 1.minute", "Error: "),
        ("ack orders billing", "Error: "),
        ("pending orders a/b", "Error: "),
        ("dump orders orders.xlsx", "does not end with one of .csv, .ndjson, .jsonl, .parquet"),
        ("tail a/b", "'a/b' cannot be the name of a stream: a name cannot contain `/`"),
        (f"group list {'a' * 257}", "1 to 256 bytes"),
        ("append a\x07b v=1", "control characters"),
    ],
)
async def test_what_makes_no_sense_is_told_before_anything_is_asked(words: str, fault: str) -> None:
    ended = await headgate(NOWHERE, *words.split(" "))
    assert (ended.code, ended.output) == (2, "")
    assert "Usage: " in ended.error
    assert fault in ended.error.partition("Error: ")[1] + ended.error.partition("Error: ")[2]


async def test_rows_of_a_table_are_set_listed_and_removed(live: Live) -> None:
    await headgate(live.url, "stream", "create", "stock", "--key-field", "sku")
    first = (await headgate(live.url, "table", "set", "stock", "42", "count=3")).output.strip()
    refused = await headgate(live.url, "table", "set", "stock", "42", "count=4", "--if-absent")
    assert (refused.code, "row_changed" in refused.error) == (1, True)
    listed = await headgate(live.url, "table", "list", "stock")
    assert listed.lines == [f"42 {first} sku=42 count=3"]
    got = await headgate(live.url, "table", "get", "stock", "42", "--json")
    assert json.loads(got.output)["fields"] == {"sku": "42", "count": "3"}
    deleted = await headgate(live.url, "table", "delete", "stock", "42", "--if-match", first)
    assert (deleted.code, deleted.output) == (0, "")
    assert (await headgate(live.url, "table", "get", "stock", "42")).code == 1


async def test_a_taken_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        ended = await headgate("", "serve", "--port", port, "--data-dir", ":memory:")

    assert (ended.code, ended.output) == (1, "")
    [line] = ended.error.splitlines()
    expected = f"cannot listen on 127.0.0.1:{port}: Address already in use."
    assert json.loads(line)["event"].startswith(expected)


# Help and completion


async def test_a_shell_is_told_how_to_complete() -> None:
    for shell, word in (("bash", "complete "), ("zsh", "compdef"), ("fish", "complete ")):
        ended = await headgate(NOWHERE, "completion", shell)
        assert (ended.code, ended.error) == (0, "")
        assert word in ended.output
        assert "_HEADGATE_COMPLETE" in ended.output


async def test_names_are_completed(live: Live) -> None:
    for name in ("orders", "orders-2", "other", "temperatures"):
        await live.append(name, "1")
    for group in ("billing", "mail", "books"):
        await live.create_group("orders", group)

    async def completed(url: str, words: str) -> list[str]:
        place = {"COMP_WORDS": f"headgate {words}", "COMP_CWORD": str(len(words.split()))}
        ended = await headgate(url, _HEADGATE_COMPLETE="bash_complete", **place)
        assert (ended.code, ended.error) == (0, "")
        return sorted(line.removeprefix("plain,") for line in ended.lines if line)

    assert await completed(live.url, "tail or") == ["orders", "orders-2"]
    assert await completed("", f"group list --url {live.url} o") == ["orders", "orders-2", "other"]
    assert await completed(live.url, "pending orders b") == ["billing", "books"]
    assert await completed(live.url, "ta") == ["table", "tail"]
    assert await completed(NOWHERE, "tail o") == []


def commands(command: click.Command, words: list[str]) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that can be called, with their words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from commands(subcommand, [*words, name])
    else:
        yield " ".join(words), command


COMMANDS = dict(commands(main, ["headgate"]))

WITHOUT_JSON = {
    "headgate asyncapi": "what it prints is JSON",
    "headgate completion": "what it prints is a script for a shell",
    "headgate mcp": "it speaks a protocol",
    "headgate openapi": "what it prints is JSON",
    "headgate types": "what it prints are types",
    "headgate serve": "it ends when it is told to; its log is lines of JSON",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_explained(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=name))
    assert f"{name} " in f"{text.partition(chr(10))[2]} ".replace("\n", " ")  # an example
    codes = [int(line.split()[0]) for line in text.partition("Exit codes:\n")[2].splitlines()]
    assert codes == sorted(codes)
    assert {0, 2} <= set(codes) <= {0, 1, 2, 130}
    flags = [param for param in command.params if isinstance(param, click.Option)]
    assert [flag.name for flag in flags if not flag.help] == []
    assert any("--json" in flag.opts for flag in flags) != (name in WITHOUT_JSON)
    ended = CliRunner().invoke(main, [*name.split()[1:], "--no-such-flag"])
    assert (ended.exit_code, ended.stdout) == (2, "")


def test_commands_stand_in_sections() -> None:
    assert WITHOUT_JSON.keys() <= COMMANDS.keys()
    text = CliRunner().invoke(main, ["--help"]).stdout
    shown = {line.split()[0] for line in text.splitlines() if line.startswith("  ")}
    assert {name.split()[1] for name in COMMANDS} <= shown
    for section in ("Run a gateway:", "Use a running gateway:", "Integrate with tools:"):
        assert section in text.splitlines()


def test_a_command_that_is_mistyped_is_named() -> None:
    ended = CliRunner().invoke(main, ["apend", "orders", "sku=42"])

    assert ended.exit_code == 2
    assert "No such command 'apend'. Did you mean 'append'?" in ended.stderr
