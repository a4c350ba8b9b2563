"""Examples of commands: the contents of the last reply. `tests/model/wire` compares their bytes."""

from __future__ import annotations

import pytest

from tests.unit.app.redis_syntax.console import Console, reply_of
from tests.unit.app.redis_syntax.examples.table import EXAMPLES


@pytest.mark.parametrize("subject", EXAMPLES)
async def test_the_last_reply_is(subject: str) -> None:
    differing = [
        (name, reply, expected)
        for name, lines, expected in EXAMPLES[subject]
        if (reply := await reply_of(lines)) != expected
    ]
    assert differing == []


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
