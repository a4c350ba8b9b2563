"""Examples of commands: the contents of the last reply. `tests/model/wire` compares their bytes."""

from __future__ import annotations

import pytest

from tests.unit.app.redis_syntax.console import TWO, Console, entry, reply_of
from tests.unit.app.redis_syntax.examples.table import EXAMPLES


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(lines, expected, id=f"{subject}: {name}")
        for subject, cases in EXAMPLES.items()
        for name, lines, expected in cases
    ],
)
async def test_the_last_reply_is(lines: list[str], expected: object) -> None:
    assert await reply_of(lines) == expected


def test_no_example_is_there_twice() -> None:
    all_lines = [tuple(lines) for cases in EXAMPLES.values() for _, lines, _ in cases]
    assert len(set(all_lines)) == len(all_lines)


async def test_groups_are_listed_by_name() -> None:
    console = Console()
    for name in ("b", "%C3%A9", "a", "B", '""', "ab"):
        await console.say(f"XGROUP CREATE s {name} $ MKSTREAM")
    groups = await console.say("XINFO GROUPS s")
    assert [group[1] for group in groups] == ["", "B", "a", "ab", "b", "é"]


@pytest.mark.parametrize(
    "words", ["nonsense MKSTREAM", "0 MKSTREAM ENTRIESREAD -2", "0 MKSTREAM NOW", "- MKSTREAM"]
)
async def test_a_group_that_cannot_be_made_leaves_no_stream_behind(words: str) -> None:
    console = Console()
    assert str(await console.say(f"XGROUP CREATE s g {words}")).startswith("ERR ")
    assert await console.say("EXISTS s") == 0


async def test_a_history_says_nothing_beyond_its_last_entry() -> None:
    console = Console()
    for line in TWO:
        await console.say(line)
    probes = [f"XREADGROUP GROUP g c STREAMS s {after}" for after in ("1", "2", "9")]
    assert [await console.say(probe) for probe in probes] == [
        [["s", [entry(2)]]],
        [["s", []]],
        [["s", []]],
    ]
