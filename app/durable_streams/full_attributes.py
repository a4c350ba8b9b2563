"""Full attributes: a stream remembers so many writers and forks; here room is made for others."""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from headgate.app.auth.access import Access
from headgate.app.backends.port import Backend
from headgate.engine.recent import Recent

_LOOK_PAUSE_S = 10.0

_looked_through: WeakKeyDictionary[Backend, Recent[bytes, float]] = WeakKeyDictionary()
"""By backend and stream, when it was looked through."""


async def make_room(
    access: Access, stream: bytes, *forget: Callable[[Access, bytes], Awaitable[bool]]
) -> bool:
    """Forget useless attributes of a stream that has no room for others.

    That takes long, so a stream is looked through once in a while, however often it is full.

    Args:
        access: to its backend.
        stream: its name.
        forget: each forgets things of its kind, and tells whether there were any.

    Returns:
        Whether there is more room now.
    """
    looked = _looked_through.setdefault(access.backend, Recent())
    now_s, before_s = asyncio.get_running_loop().time(), looked.get(stream)
    if before_s is not None and now_s - before_s < _LOOK_PAUSE_S:
        return False
    looked.put(stream, now_s, len(stream))
    return any([await each(access, stream) for each in forget])
