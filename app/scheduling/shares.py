"""Shares: bounds of what principals make, in sum and for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from headgate.engine.errors import LimitReached


async def check_share(
    what: str, limit: int, count: int, maker: str | None, makers: Callable[[], AsyncIterator[str]]
) -> None:
    """Check that a principal may make another one.

    Principals leave a tenth of the room to operators, and each takes half of it at most.

    Args:
        what: is made.
        limit: for all together.
        count: how many there are.
        maker: the principal; None: an operator.
        makers: yields the maker of each that is there.

    Raises:
        LimitReached: there are as many as there may be.
    """
    if count >= (limit if maker is None else limit - limit // 10):
        raise LimitReached(what, limit)
    share = limit // 2
    if maker is None or count < share:
        return
    own_count = 0
    async for other in makers():
        own_count += other == maker
    if own_count >= share:
        raise LimitReached(f"{what} of one principal", share)
