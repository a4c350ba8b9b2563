"""Structure: JSON that no request here can have is refused before it is looked at in earnest.

Validation says of every part what is wrong with it. Of a body that is wrong a million times over,
nobody wants to know that, and it would cost more than the mistake did.
"""

from collections.abc import Iterable
from typing import Any

from app.problems import GatewayError, pointer_to

MEMBERS_MAX = 1024
"""Members of one object: an entry may have so many fields."""


ITEMS_MAX = 100_000
"""Items of one array: far more than any operation takes."""


SIZE_BYTES_MIN = 2 * MEMBERS_MAX
"""A text not longer than this has room for neither."""


def check_members(value: Any, pointer: str = "/body") -> None:
    """Refuse objects with too many members and arrays with too many items, at any depth.

    Raises:
        GatewayError: naming the first.
    """
    try:
        _check(value)
    except _TooManyError as error:  # only now does it matter where that is
        raise GatewayError("invalid_request", error.text, pointer=pointer + error.pointer) from None


class _TooManyError(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.pointer = ""  # from where it was raised down to what is too large


def _check(value: Any) -> None:
    parts: Iterable[tuple[int | str, Any]] = ()
    if isinstance(value, list):
        if len(value) > ITEMS_MAX:
            raise _TooManyError(f"an array has at most {ITEMS_MAX} items, not {len(value)}")
        parts = enumerate(value)
    elif isinstance(value, dict):
        if len(value) > MEMBERS_MAX:
            raise _TooManyError(f"an object has at most {MEMBERS_MAX} members, not {len(value)}")
        parts = value.items()
    for name, item in parts:
        if isinstance(item, dict | list):
            try:
                _check(item)
            except _TooManyError as error:
                error.pointer = pointer_to(name) + error.pointer
                raise
