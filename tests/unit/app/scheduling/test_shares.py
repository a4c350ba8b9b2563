"""Shares: each principal makes so many at most, and operators have room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from headgate.app.scheduling.shares import check_share
from headgate.engine.errors import LimitReached


@pytest.mark.parametrize(
    ("there", "maker", "refusal"),
    [
        (["ann"] * 9, "ann", None),
        (["ann"] * 10, "ann", "too many pushes of one principal: the limit is 10"),
        (["ann"] * 10, "bob", None),
        (["ann"] * 9 + ["bob"] * 9, "cid", "too many pushes: the limit is 20"),
        (["ann"] * 9 + ["bob"] * 9, None, None),
        ([""] * 19, None, None),
        ([""] * 20, None, "too many pushes: the limit is 20"),
    ],
)
async def test_another_one_is_made_as_long_as_there_is_a_share(
    there: Sequence[str], maker: str | None, refusal: str | None
) -> None:
    async def makers() -> AsyncIterator[str]:
        for each in there:
            yield each

    if refusal is None:
        await check_share("pushes", 20, len(there), maker, makers)
    else:
        with pytest.raises(LimitReached, match=refusal):
            await check_share("pushes", 20, len(there), maker, makers)
