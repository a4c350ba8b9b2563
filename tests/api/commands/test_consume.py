"""`headgate consume`: a process for each entry."""

import asyncio
import json
import signal
from pathlib import Path

from tests.api.commands.command_line import END_S_MAX, next_error_line, next_line, separately, start
from tests.api.conftest import Live

GROUP = ["orders", "billing"]


async def group_of(live: Live, *values: str) -> list[str]:
    ids = await live.append("orders", *values)
    await live.create_group("orders", "billing", "0")
    return ids


async def pending_count(live: Live) -> int:
    ended = await separately(live.url, "pending", *GROUP, "--summary", "--json")
    return int(json.loads(ended.output)["count"])


async def test_the_fields_come_on_standard_input_and_the_id_as_a_variable(live: Live) -> None:
    [entry_id] = await group_of(live, "1")
    shell = 'cat; echo "$ENTRY_ID $ENTRY_DELIVERIES"'

    ended = await separately(live.url, "consume", *GROUP, "--limit", "1", "--", "sh", "-c", shell)

    assert ended == (0, f'{{"v": "1"}}\n{entry_id} 1\n', "")
    assert await pending_count(live) == 0


async def test_an_entry_whose_command_fails_is_given_back_with_its_exit_code(live: Live) -> None:
    [entry_id] = await group_of(live, "1")
    once = ["--limit", "1", "--", "sh", "-c"]

    plain = await separately(live.url, "consume", *GROUP, *once, "exit 3")
    as_json = await separately(live.url, "consume", *GROUP, "--json", *once, "kill -9 $$")
    good = await separately(live.url, "consume", *GROUP, *once, "echo $ENTRY_DELIVERIES")

    assert plain == (0, "", f"{entry_id} failed: exit 3 (delivery 1)\n")
    assert json.loads(as_json.error) == {"id": entry_id, "deliveries": 2, "exit": 137}
    assert good.lines == ["3"]


async def test_the_last_line_of_a_command_that_fails_is_the_error(live: Live) -> None:
    await group_of(live, "1")
    once = ["--limit", "1", "--", "sh", "-c"]
    script = "echo 'no such SKU' >&2; echo >&2; sleep 20 >&2 & exit 3"
    words = "echo $ENTRY_ERROR; printf '%0100000d' 0 | tr 0 x >&2; exit 4"

    first = await separately(live.url, "consume", *GROUP, *once, script)
    again = await separately(live.url, "consume", *GROUP, *once, words)

    assert first.error.startswith("no such SKU\n\n")
    assert again.lines == ["exit 3: no such SKU"]
    assert again.error.startswith("x" * 100_000)
    pending = await separately(live.url, "pending", *GROUP, "--json")
    assert json.loads(pending.output)["last_error"] == "exit 4: " + "x" * 992


async def test_several_commands_run_at_the_same_time(live: Live, tmp_path: Path) -> None:
    await group_of(live, "1", "2", "3")
    # Each ends when three of them have begun.
    script = f"cd {tmp_path}; touch $ENTRY_ID; until [ $(ls | wc -l) = 3 ]; do sleep 0.01; done"
    words = ["--concurrency", "3", "--limit", "3", "--", "sh", "-c", script]

    assert await separately(live.url, "consume", *GROUP, *words) == (0, "", "")
    assert await pending_count(live) == 0


async def test_sigterm_lets_the_running_command_end(live: Live, tmp_path: Path) -> None:
    await group_of(live, "1", "2")
    go = tmp_path / "go"
    script = f"echo begun; until [ -e {go} ]; do sleep 0.01; done; echo done"
    process = await start(live.url, "consume", *GROUP, "--", "sh", "-c", script)
    assert await next_line(process) == "begun"

    process.send_signal(signal.SIGTERM)
    go.touch()
    async with asyncio.timeout(END_S_MAX):
        output, error = await process.communicate()

    assert (process.returncode, output, error) == (0, b"done\n", b"")
    group = (await live.http.get("/v1/streams/orders/groups/billing")).json()
    assert group["pending"] == group["released"], "nobody has what was not worked off"
    assert group["lag"] + group["released"] == 1


async def test_a_command_or_group_that_is_not_there_is_one_line(live: Live) -> None:
    await group_of(live, "1")
    ended = await separately(live.url, "consume", *GROUP, "--", "no-such-command")
    assert (ended.code, ended.error) == (1, "Error: command not found: 'no-such-command'\n")
    assert await pending_count(live) == 0
    ended = await separately(live.url, "consume", "orders", "other", "--", "cat")
    assert (ended.code, ended.output, ended.error.count("\n")) == (1, "", 1)
    assert "(404 group_not_found)" in ended.error


async def test_a_group_over_a_pattern_says_the_stream_of_each_entry(live: Live) -> None:
    for name in ("orders.eu", "orders.us"):
        await live.append(name, "1")
    words = ["--match", "orders.*", "--start", "0", "--limit", "2", "billing"]

    ended = await separately(
        live.url, "consume", *words, "--", "sh", "-c", 'cat; echo "$ENTRY_STREAM"'
    )

    assert ended == (0, '{"v": "1"}\norders.eu\n{"v": "1"}\norders.us\n', "")
    for name in ("orders.eu", "orders.us"):
        assert (await live.group(name, "billing"))["pending"] == 0


async def test_options_of_patterns_and_the_command_are_needed_where_they_say(live: Live) -> None:
    without_match = await separately(live.url, "consume", *GROUP, "--start", "0", "--", "true")
    without_command = await separately(live.url, "consume", *GROUP)

    assert without_match.code == 2
    assert "--start requires --match" in without_match.error
    assert without_command.code == 2
    assert "COMMAND" in without_command.error


STEP = '{"append":{"stream":"bills","entries":[{"fields":{"of":"\'$ENTRY_ID\'"}}]}}'


async def bills(live: Live) -> list[str]:
    entries = (await live.ask("GET /v1/streams/bills/entries"))["entries"]
    return [entry["fields"]["of"] for entry in entries]


async def test_the_steps_that_a_command_prints_are_committed_with_its_entry(live: Live) -> None:
    ids = await group_of(live, "1", "2")
    words = ["--commit", "--limit", "2", "--", "sh", "-c", f"echo '{STEP}'"]

    assert await separately(live.url, "consume", *GROUP, *words) == (0, "", "")

    assert await bills(live) == ids
    assert await pending_count(live) == 0


async def test_nothing_is_committed_if_the_command_fails_or_a_line_is_no_step(live: Live) -> None:
    [entry_id] = await group_of(live, "1")
    missing = '{"delete_row":{"stream":"missing","key":"1"}}'
    errors = {
        f"echo '{STEP}'; exit 3": "exit 3",
        f"echo '{STEP}'; echo; echo '[]'": "line 3 of the output: a step must be a JSON object",
        f"echo '{STEP}'; echo oops": "line 2 of the output: not valid JSON",
        f"echo '{STEP}'; echo; echo '{missing}'": "line 3 of the output: /body/steps/1/delete_row",
        "echo '{}'": "line 1 of the output: /body/steps/0",
        f"yes '{STEP}' | head -100": "/body/steps: ",
    }
    for script, error in errors.items():
        words = ["--commit", "--limit", "1", "--", "sh", "-c", script]
        ended = await separately(live.url, "consume", *GROUP, *words)
        assert ended.error.startswith(f"{entry_id} failed: {error}"), ended
        pending = await separately(live.url, "pending", *GROUP, "--json")
        assert error in json.loads(pending.output)["last_error"]
    assert (await live.http.get("/v1/streams/bills")).status_code == 404


async def test_an_entry_that_somebody_else_has_by_now_is_lost_and_the_next_one_comes(
    live: Live, tmp_path: Path
) -> None:
    lost, done = await group_of(live, "1", "2")
    go = tmp_path / "go"
    script = f"echo begun >&2; until [ -e {go} ]; do sleep 0.01; done; echo '{STEP}'"
    words = ["--commit", "--limit", "2", "--", "sh", "-c", script]
    process = await start(live.url, "consume", *GROUP, *words)
    assert await next_error_line(process) == "begun"

    await live.claim("orders", "billing", "rival", ids=[lost])
    go.touch()
    async with asyncio.timeout(END_S_MAX):
        _, error = await process.communicate()

    assert process.returncode == 0
    assert f"{lost} lost: ".encode() in error
    assert b"pending with 'rival', delivery 2" in error
    assert await bills(live) == [done]
